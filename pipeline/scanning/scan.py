"""From sources to facts: one range, one source, or all inputs of a call.

`scan_range` is what a worker does. Its `Facts` merge with those of the other ranges of the source (and with those of
any other copy of it) by `schemas.facts.merge_facts`; neither the cut into ranges nor their order nor repetition shows.

Accounting: every byte of a source is in the `size` of its `SourceFact`; a part that could not be used is in
`quarantine` with its offset, length and reason as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.formats.base import LineFormat, registry
from pipeline.scanning.line_scan import NUMBERED, Lane, LineScan
from pipeline.scanning.record_scan import parse_records
from pipeline.scanning.shipped import escaped_literals, job_of, pod_facts, pod_of_path
from pipeline.scanning.streams import stream_fact
from pipeline.scanning.window import Window
from pipeline.sources import FileStream, Range, Source, SourceError, discover, hints, open_source, ranges
from pipeline.sources.split import Heard, file_trail
from pipeline.sources.streams import Stream, close_kept
from schemas.facts import Facts, Quarantine, SourceFact, merge_facts
from schemas.identity import digest
from schemas.moments import bounded
from schemas.settings import Settings

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import BlockEngine

#: Record formats read a member as a whole, up to this. Bytes.
RECORD_LIMIT = 512 << 20
#: Inputs below this are scanned in one thread: starting more costs as much as it gains. Bytes.
_ONE_THREAD = 64 << 20


def scan_engine(ruleset: RulesetImpl, settings: Settings) -> BlockEngine:
    """The engine for a rule set and the marks of all formats. Not picklable: build it in each worker."""
    from classifiers.matching import make_engine

    marks = {mark for fmt in registry().values() for mark in getattr(fmt, "marks", ())}
    marks.update(escaped_literals(ruleset))
    return make_engine(ruleset, settings.engine, sorted(marks))


def scan_range(rng: Range, ruleset: RulesetImpl, engine: BlockEngine, settings: Settings) -> Facts:
    """Facts of the lines that begin in a range. Never raises for what the input holds or lacks."""
    source = rng.source
    try:
        stream = open_source(source, settings.max_inflated_bytes, settings.max_ratio)
    except SourceError as err:
        return Facts(quarantine=(source.quarantine(rng.start, 0, str(err).replace(source.path, source.inner_path)),))
    try:
        if isinstance(stream, FileStream):
            if source.size is not None:
                stream.length = source.size  # a file that grows meanwhile is read as found; one that shrank is damaged
            facts = _scanned(rng, stream, ruleset, engine)
            return facts if rng.start else _with_trail(facts, source, file_trail(stream))
        heard = Heard(stream)
        facts = _scanned(rng, heard, ruleset, engine)
        return _with_trail(facts, source, heard.trail)
    finally:
        stream.close()


def _scanned(rng: Range, stream: Stream, ruleset: RulesetImpl, engine: BlockEngine) -> Facts:
    source = rng.source
    fmt = registry().get(source.format)
    if fmt is None:
        return _unknown(rng, stream)
    if not isinstance(fmt, LineFormat):
        return parse_records(source, fmt, stream, ruleset, _described(source), RECORD_LIMIT)
    return _lines(rng, fmt, stream, ruleset, engine)


def _with_trail(facts: Facts, source: Source, trail: str) -> Facts:
    """The facts with what tells the source from others of its path and first line."""
    return replace(
        facts,
        sources=tuple(
            replace(s, base=source.base, trail=trail) if s.source_id == source.source_id else s for s in facts.sources
        ),
    )


def scan_source(source: Source, ruleset: RulesetImpl, engine: BlockEngine, settings: Settings) -> Facts:
    """Facts of a whole source."""
    return merge_facts(scan_range(rng, ruleset, engine, settings) for rng in ranges(source, settings))


def scan_paths(paths: Sequence[str | Path], settings: Settings, ruleset: RulesetImpl | None = None) -> Facts:
    """Facts of everything under these paths (`-` is standard input)."""
    if ruleset is None:
        from classifiers.knowledge import load_ruleset

        ruleset = load_ruleset()
    found = list(discover(paths, settings))
    failed = [f for f in found if not isinstance(f, Source)]
    return scan_sources([f for f in found if isinstance(f, Source)], settings, ruleset, failed)


def scan_sources(
    sources: Iterable[Source], settings: Settings, ruleset: RulesetImpl, failed: Iterable[Quarantine] = ()
) -> Facts:
    """Facts of these sources; failed: what could not be read, to be told with them."""
    engine = scan_engine(ruleset, settings)
    work = [rng for source in sources for rng in ranges(source, settings)]
    parts: list[Facts] = [Facts(quarantine=tuple(failed))]
    try:
        parts.extend(_scan_all(work, ruleset, engine, settings))
    finally:
        close_kept()
    return merge_facts(parts)


def _scan_all(work: Sequence[Range], ruleset: RulesetImpl, engine: BlockEngine, settings: Settings) -> Iterator[Facts]:
    """One thread, or two where that pays: the engines release the interpreter lock. The order of results is kept."""
    weight = sum(r.source.stored if r.end is None else r.end - r.start for r in work)
    if weight < _ONE_THREAD or len(work) < 2 or (os.cpu_count() or 1) < 2:
        yield from (scan_range(rng, ruleset, engine, settings) for rng in work)
        return
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield from pool.map(
            lambda group: merge_facts(scan_range(r, ruleset, engine, settings) for r in group), _groups(work)
        )


def _groups(work: Iterable[Range]) -> Iterator[list[Range]]:
    """Ranges one by one, members of one packed archive together, so that it is unpacked once."""
    held: list[Range] = []
    for rng in work:
        if held and (not rng.source.compressed or rng.source.path != held[0].source.path):
            yield held
            held = []
        held.append(rng)
        if not rng.source.compressed:
            yield held
            held = []
    if held:
        yield held


def _described(source: Source) -> SourceFact:
    """What is known of a source without its content."""
    facts: list[str] = []
    named = hints.host(source.identity)
    if named:
        facts.append(f"path_host={named}")
    jobs = hints.job_ids(source.identity)
    if source.format == "k8s.cri" and (pod := pod_of_path(source.identity)) is not None:
        facts.extend(pod_facts(pod))
        job = job_of(pod, {})
        jobs = (job,) if job else ()
    return SourceFact(
        source_id=source.source_id,
        inner_paths=(source.inner_path,),
        root=source.root,
        format=source.format or "unknown",
        family="other",
        size=0,
        mtime_us=source.mtime_us,
        host="",
        job_ids=jobs,
        facts=tuple(facts),
        base=source.base,
    )


def _lines(rng: Range, fmt: LineFormat, stream: Stream, ruleset: RulesetImpl, engine: BlockEngine) -> Facts:
    source = rng.source
    window = Window(stream, rng.start, rng.end)
    scan = LineScan(
        window,
        source.source_id,
        fmt,
        ruleset,
        engine,
        newlines_before=_newlines_before(rng.start, stream),
        size=source.size if rng.end is not None else None,
    )
    scan.run()
    context = scan.context
    end = window.total if rng.end is None else rng.end
    quarantine: tuple[Quarantine, ...] = ()
    if stream.damage is not None:
        lost = max(0, end - max(window.total, rng.start)) if rng.end is not None else 0
        quarantine = (source.quarantine(window.total, lost, stream.damage),)
    if rng.start == 0:
        context.facts.update(f"head:{n}={digest(head)}" for n, head in scan.heads)
    known = _described(source)
    lines = scan.newlines + (1 if scan.unterminated else 0)
    fact = replace(
        known,
        family=fmt.family,
        size=end,
        host=context.host(),
        spans=context.spans(),
        clocks=context.clocks(),
        names=context.names(),
        job_ids=tuple(sorted({*known.job_ids, *context.job_ids})),
        rank_hosts=tuple(sorted(context.rank_hosts)),
        facts=bounded({*known.facts, *context.told()}),
        lines=lines,
        signal_lines=scan.signal_lines,
        unparsed_lines=scan.unparsed_lines,
        ranges=((rng.start, end, lines, scan.signal_lines, scan.unparsed_lines),),
    )
    streams = scan.streams
    return Facts(
        (fact, *(_stream_fact(fact, lane) for lane in streams)),
        tuple(signal for lane in (scan.main, *streams) for signal in lane.facts()),
        tuple(scan.progress),
        (),
        quarantine,
    )


def _stream_fact(shipped: SourceFact, lane: Lane) -> SourceFact:
    """The row of one stream of a shipped file; where its records do not name the pod, the file's path may."""
    assert lane.stream is not None
    fact = replace(stream_fact(shipped, lane.source_id, lane.stream, lane.context), reach=shipped.size)
    pod = None if any(f.startswith("pod=") for f in fact.facts) else pod_of_path(shipped.inner_paths[0])
    if pod is None or fact.family != "job":
        if lane.stream.host or fact.family != "job" or any(f.startswith("pod=") for f in fact.facts):
            return fact
        # nothing in the records says where they come from: what the file's own path says holds for them
        told = {f for f in shipped.facts if f.startswith("path_host=")}
        return replace(
            fact,
            job_ids=fact.job_ids or shipped.job_ids,
            facts=tuple(sorted({*fact.facts, *told})),
        )
    job = job_of(pod, {})
    return replace(
        fact,
        job_ids=tuple(sorted({*fact.job_ids, *((job,) if job else ())})),
        facts=tuple(sorted({*fact.facts, *pod_facts(pod)})),
    )


def _newlines_before(start: int, stream: Stream) -> int | None:
    """Number of `\\n` before a range, None where no line numbers are given there."""
    if start == 0:
        return 0
    if start >= NUMBERED or not isinstance(stream, FileStream):
        return None
    buffer = bytearray(1 << 20)
    view, array = memoryview(buffer), np.frombuffer(buffer, dtype=np.uint8)
    total = at = 0
    while at < start:
        n = stream.read_at(at, view[: min(len(view), start - at)])
        if n == 0:
            break
        total += int(np.count_nonzero(array[:n] == 10))
        at += n
    return total


def _unknown(rng: Range, stream: Stream) -> Facts:
    """Accounts for a member that no format claims."""
    source = rng.source
    size, text = 0, True
    waste = bytearray(1 << 18)
    view = memoryview(waste)
    while n := stream.readinto(view):
        if size == 0:
            text = waste.count(0, 0, n) == 0
        size += n
    fact = replace(_described(source), size=size, ranges=((0, size, 0, 0, 0),))
    if size == 0 and stream.damage is None:
        return Facts(sources=(replace(fact, format="empty", lines=0, note="empty"),))
    reason = "unknown format: text" if text else "unknown format: binary"
    out = [source.quarantine(0, size, reason)] if size else []
    if stream.damage is not None:
        out.append(source.quarantine(size, 0, stream.damage))
    return Facts(sources=(replace(fact, note=reason),), quarantine=tuple(out))
