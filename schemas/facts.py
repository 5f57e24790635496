"""Facts: what the bytes of the inputs say, keyed by what they are, merging by union, minimum and maximum.

A fact never holds an assumption. Stamps stay in the frame in which they were printed (`Stamp.kind`); year, zone,
boot time and the job that a source belongs to are decided later, from all facts together, so that the order and
the number of loads cannot show. `merge_*` functions are associative, commutative and idempotent (tests hold them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple, TypeVar

from schemas.moments import bounded

#: Counts are kept per cell of the absolute offset; ranges start on cell borders.
CELL = 64 * 1024
#: How many (stamp, rank) pairs a signal remembers: enough for "who was first" and "about how many".
MAX_RANKS = 64


class Stamp(NamedTuple):
    """A time stamp in the frame it was printed in. Microseconds throughout.

    kind: `utc` (since 1970, explicit offset seen), `local` (since 1970, read as if UTC, zone unknown),
    `noyear` (no year, no zone: microseconds into the leap year 2000), `time` (since midnight, no date),
    `mono` (since boot), `none`.
    """

    kind: str
    us: int
    borrowed: bool = False  # taken from the nearest earlier stamped line of the same source


NO_STAMP = Stamp("none", 0)


def bucket(stamp: Stamp, offset: int) -> str:
    """The part of a signal's key that says when: the minute of the stamp's frame, else the 64 KiB cell."""
    if stamp.kind == "none":
        return f"cell:{offset // CELL}"
    return f"{stamp.kind}:{stamp.us // 60_000_000}"


@dataclass(frozen=True, slots=True)
class Hit:
    """One line (or record) that a rule matched, as a format framed it; the scanner's output before folding.

    offset: bytes from the start of the decompressed member. line: 1-based or None. host: as printed, `short_host`
    applied, "" if the line names none. text: cleaned (no ANSI, no prefix already parsed), secrets masked, at most
    2,000 characters. fields: the rule's named groups, without the empty ones.
    """

    rule: str
    offset: int
    line: int | None
    stamp: Stamp
    host: str
    rank: int | None
    text: str
    fields: dict[str, str]


@dataclass(frozen=True, slots=True)
class SignalFact:
    """Hits of one rule with one identity, one masked text and one minute in one source, folded.

    torn: size at which the source ended inside the only line of this fact, -1 for whole lines. Such a fact (its id is
    its own) holds only while the source is not known to reach further: see `torn_away`.
    seen: addresses of the lines, sorted, where lines come one by one and perhaps again (a stream); empty where whole
    ranges are read. Its cells are in `counts`: make it by `with_seen`.
    """

    signal_id: str
    source_id: str
    rule: str
    key: str  # identity fields, `name=value` joined by `;`, sorted (the rule says which fields are identity)
    host: str
    template: str  # text with numbers, addresses and hex masked
    bucket: str
    first: Stamp
    first_offset: int
    first_line: int | None
    last: Stamp
    last_offset: int
    text: str
    fields: tuple[tuple[str, str], ...]
    ranks: tuple[tuple[int, int, int], ...] = ()  # (us, offset, rank), the MAX_RANKS smallest, one per rank
    counts: tuple[tuple[int, int], ...] = ()  # (cell, count), sorted
    torn: int = -1
    seen: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return sum(n for _, n in self.counts)


def _merge_counts(a: Iterable[tuple[int, int]], b: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    out = dict(a)
    for cell, n in b:
        out[cell] = max(n, out.get(cell, 0))
    return tuple(sorted(out.items()))


def merge_ranks(
    a: Iterable[tuple[int, int, int]], b: Iterable[tuple[int, int, int]]
) -> tuple[tuple[int, int, int], ...]:
    """The MAX_RANKS smallest (us, offset, rank), keeping the smallest entry of each rank."""
    best: dict[int, tuple[int, int, int]] = {}
    for entry in (*a, *b):
        if entry[2] not in best or entry < best[entry[2]]:
            best[entry[2]] = entry
    return tuple(sorted(best.values())[:MAX_RANKS])


def merge_signals(a: SignalFact, b: SignalFact) -> SignalFact:
    """Two views of one signal as one. Counts of one cell merge by maximum: the cell is the same bytes.

    Lines that are told apart by their addresses (`seen`) count once, in whatever portions they come.
    """
    # A total order, for views that differ in more than their extent (a last line that was cut in one of them).
    lead, other = sorted((a, b), key=lambda s: (s.first.us, s.first_offset, -len(s.text), s.text, s.fields))
    tail = max(a, b, key=lambda s: (s.last.us, s.last_offset, s.last))
    seen = b.seen if not a.seen else a.seen if not b.seen else tuple(sorted({*a.seen, *b.seen}))
    counts = _merge_counts(a.counts, b.counts)
    return replace(
        lead,
        first_line=lead.first_line or (other.first_line if lead.first_offset == other.first_offset else None),
        last=tail.last,
        last_offset=tail.last_offset,
        ranks=merge_ranks(a.ranks, b.ranks),
        counts=_merge_counts(counts, Counter(address // CELL for address in seen).items()) if seen else counts,
        seen=seen,
    )


def with_seen(signal: SignalFact, addresses: Iterable[int]) -> SignalFact:
    """The signal of exactly the lines at these addresses (0 or more); `counts` are their numbers by cell."""
    seen = tuple(sorted(set(addresses)))
    return replace(signal, seen=seen, counts=tuple(sorted(Counter(address // CELL for address in seen).items())))


@dataclass(frozen=True, slots=True)
class SourceFact:
    """What is known of one input file (or archive member). Merges by union, min and max.

    inner_path: path inside the input root, archives as `a.tar.gz!member`. root: name (not path) of the input root.
    spans: for each stamp kind the smallest and largest microseconds seen. clocks: pairs (mono_us, utc_us) or
    (mono_us, local_us) read off lines that carry both clocks. names: host names printed in the lines with counts per
    name. job_ids: ids of the scheduler's jobs found in text or path. rank_hosts: (rank, host) pairs.
    facts: free `name=value` strings found in the text, e.g. `driver_version=535.104.05`, `world_size=64`,
    `gpu_uuid:0000:4d:00=GPU-...`, `uptime_s=...`, moments (`schemas.moments`).
    reach: for a stream of a shipped file, the bytes of that file.
    base: id of path and first line, which files that differ later may share; trail: what tells them apart
    (`schemas.trail`).
    """

    source_id: str
    inner_paths: tuple[str, ...]
    root: str
    format: str
    family: str  # kernel | syslog | scheduler | job | cluster | bmc | other
    size: int  # decompressed bytes accounted for
    mtime_us: int | None
    host: str  # from path or from the format's own header, "" if unknown
    spans: tuple[tuple[str, int, int], ...] = ()
    clocks: tuple[tuple[str, int, int], ...] = ()  # (kind of the second clock, mono_us, us)
    names: tuple[tuple[str, int], ...] = ()
    job_ids: tuple[str, ...] = ()
    rank_hosts: tuple[tuple[int, str], ...] = ()
    facts: tuple[str, ...] = ()
    lines: int | None = None
    signal_lines: int = 0
    unparsed_lines: int = 0
    note: str | None = None
    ranges: tuple[tuple[int, int, int, int, int], ...] = ()  # (start, end, lines, signal lines, unparsed lines)
    reach: int = 0
    base: str = ""
    trail: str = ""

    @property
    def extent(self) -> int:
        """Bytes up to which the input is known."""
        return max(self.size, self.reach)


T = TypeVar("T", str, tuple[int, str], tuple[str, int, int])


def _union(a: Iterable[T], b: Iterable[T]) -> tuple[T, ...]:
    both = set(a)
    both.update(b)
    return tuple(sorted(both))


def _merge_spans(
    a: Iterable[tuple[str, int, int]], b: Iterable[tuple[str, int, int]]
) -> tuple[tuple[str, int, int], ...]:
    out: dict[str, tuple[int, int]] = {}
    for kind, low, high in (*a, *b):
        seen = out.get(kind)
        out[kind] = (low, high) if seen is None else (min(low, seen[0]), max(high, seen[1]))
    return tuple((kind, low, high) for kind, (low, high) in sorted(out.items()))


def range_totals(ranges: Iterable[tuple[int, int, int, int, int]]) -> tuple[int, int, int, int] | None:
    """(end, lines, signal lines, unparsed lines) of the longest chain of ranges that begins at 0; None without one."""
    reached: dict[int, tuple[int, int, int, int]] = {0: (0, 0, 0, 0)}
    best: tuple[int, int, int, int] | None = None
    for start, end, *sums in sorted(ranges):
        before = reached.get(start)
        if before is None:
            continue
        chain = (end, before[1] + sums[0], before[2] + sums[1], before[3] + sums[2])
        if end not in reached or reached[end] < chain:
            reached[end] = chain
        if best is None or best < chain:
            best = chain
    return best


def merge_sources(a: SourceFact, b: SourceFact) -> SourceFact:
    """Two views of one source (a later, longer copy; another place) as one.

    The longer view leads: it saw all that the shorter one saw, so its line and signal totals hold. Views of single
    ranges carry them in `ranges`; as soon as these reach from the begin to the end, the totals are their sums.
    """
    lead, _ = sorted((a, b), key=lambda s: (-s.size, s.inner_paths, s.root, s.mtime_us or 0, s.format))
    names = dict(a.names)
    for name, n in b.names:
        names[name] = max(n, names.get(name, 0))
    mtimes = [m for m in (a.mtime_us, b.mtime_us) if m is not None]
    ranges = tuple(sorted({*a.ranges, *b.ranges}))
    totals = range_totals(ranges)
    if totals is not None and totals[0] >= lead.size:
        lead = replace(lead, size=totals[0], lines=totals[1], signal_lines=totals[2], unparsed_lines=totals[3])
    return replace(
        lead,
        ranges=ranges,
        inner_paths=_union(a.inner_paths, b.inner_paths),
        mtime_us=max(mtimes, default=None),
        host=min((h for h in (a.host, b.host) if h), default=""),
        spans=_merge_spans(a.spans, b.spans),
        clocks=_union(a.clocks, b.clocks),
        names=tuple(sorted(names.items())),
        job_ids=_union(a.job_ids, b.job_ids),
        rank_hosts=_union(a.rank_hosts, b.rank_hosts),
        facts=bounded({*a.facts, *b.facts}),
        reach=max(a.reach, b.reach),
        base=max(a.base, b.base),
        trail=max(a.trail, b.trail, key=lambda t: (len(t), t)),
    )


@dataclass(frozen=True, slots=True)
class ProgressFact:
    """Training progress read in one 64 KiB cell of one source: `first` and `last` completed step and when.

    step_s: median seconds per step as printed or as differences of stamps, None where neither is known. series: what
    was counted and by which kind of line (`step/megatron`, `step/tqdm:25120`, `epoch/plain`), so that bars of other
    work are told from training when cells meet. points: (offset, step, microseconds in the stamp's frame or -1), at
    most 64 of the cell's lines, the last ones always. upto: offset of the end of the last line that was read, -1 where
    lines come one by one (a stream) or as documents: of two views of one last line the one that saw more of it holds.
    """

    source_id: str
    cell: int
    first_step: int
    first: Stamp
    first_offset: int
    last_step: int
    last: Stamp
    last_offset: int
    n: int
    step_s: float | None = None
    series: str = ""
    points: tuple[tuple[int, int, int], ...] = ()
    upto: int = -1


#: How many points of one cell are kept.
MAX_POINTS = 64


def _spread(point: tuple[int, int, int]) -> tuple[int, tuple[int, int, int]]:
    """Order in which points are kept: by chance, and the same chance in every view."""
    return (point[0] * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF, point)


def _seconds_a_step(points: Sequence[tuple[int, int, int]]) -> float | None:
    """Median seconds between steps by the stamps of the points; None where fewer than two tell."""
    rates = [(b[2] - a[2]) / 1e6 / (b[1] - a[1]) for a, b in pairwise(points) if b[1] > a[1] and b[2] > a[2] >= 0]
    return round(median(rates), 6) if rates else None


def _merge_lines(a: ProgressFact, b: ProgressFact) -> ProgressFact:
    """Portions of one cell of a stream: the union of their lines, in whatever portions they come.

    Of more than `MAX_POINTS` the last one and an even sample stay. Of several series the more trusted one holds, by
    the order of their names where a portion alone cannot tell.
    """
    if a.series != b.series:
        return min(a, b, key=lambda p: (p.series.startswith("epoch"), "bare" in p.series, p.series))
    low = min(a, b, key=lambda p: (p.first_offset, p.first_step, p.first))
    high = max(a, b, key=lambda p: (p.last_offset, p.last_step, p.last))
    full = max(a, b, key=lambda p: (p.n, p.step_s or 0.0))
    points = {*a.points, *b.points}
    if len(points) > MAX_POINTS:
        last = max(points)
        points = {last, *sorted(points - {last}, key=_spread)[: MAX_POINTS - 1]}
    kept = tuple(sorted(points))
    return replace(
        full,
        first_step=low.first_step,
        first=low.first,
        first_offset=low.first_offset,
        last_step=high.last_step,
        last=high.last,
        last_offset=high.last_offset,
        n=len(kept),
        step_s=_seconds_a_step(kept) or full.step_s,
        points=kept,
    )


def merge_progress(a: ProgressFact, b: ProgressFact) -> ProgressFact:
    """Two views of one cell: the earliest and the latest step by offset; the view with more lines gives the rest."""
    if a.upto < 0 and b.upto < 0:
        return _merge_lines(a, b)
    low = min(a, b, key=lambda p: (p.first_offset, p.first_step))
    high = max(a, b, key=lambda p: (p.last_offset, p.upto, p.last_step))
    full = max(a, b, key=lambda p: (p.n, p.upto, p.step_s or 0.0))
    return replace(
        full,
        first_step=low.first_step,
        first=low.first,
        first_offset=low.first_offset,
        last_step=high.last_step,
        last=high.last,
        last_offset=high.last_offset,
        upto=max(a.upto, b.upto),
    )


@dataclass(frozen=True, slots=True)
class RunFragment:
    """What one record of one source says about one job run (a sacct row, an Allocate line, a pod).

    scheduler: `slurm`, `k8s`, `ray`, `torchelastic`, `mpi`. start and end as printed (the zone is the source's).
    nodes: expanded host names, `short_host` applied. step: "" for the job itself, else the step id (`batch`, `0`).
    extra: other columns, `name=value`, sorted. A fragment is keyed by (source_id, offset, job_id, step).
    """

    source_id: str
    offset: int
    line: int | None
    scheduler: str
    cluster: str
    job_id: str
    step: str = ""
    state: str = ""  # base word in upper case: COMPLETED, FAILED, NODE_FAIL, CANCELLED, TIMEOUT, PREEMPTED, ...
    submit: Stamp = NO_STAMP
    start: Stamp = NO_STAMP
    end: Stamp = NO_STAMP
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    n_nodes: int | None = None
    n_gpus: int | None = None
    user: str = ""
    account: str = ""
    name: str = ""
    reason: str = ""
    extra: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, int, str, str]:
        return (self.source_id, self.offset, self.job_id, self.step)


def merge_fragments(a: RunFragment, b: RunFragment) -> RunFragment:
    """Two readings of one record: the one that knows the later end leads (a running job's row is rewritten in place).

    A total order, so that the reading which is met first never matters.
    """
    return max(a, b, key=lambda f: (f.end.kind != "none", f.end.us, f.start.us, repr(f)))


@dataclass(frozen=True, slots=True)
class TelemetryFact:
    """Samples of one metric of one device in one hour, as one source holds them.

    host: as printed, "" where the source does not say (then it is the source's own). device: GPU UUID, else its PCI
    address, else `gpu<index>`; a disk's name; "" for the host. metric: name with its unit, e.g. `gpu_temperature_c`.
    hour: the begin of the hour in the frame of the stamps. cells: (64 KiB cell, samples, sum, smallest, largest),
    sorted, so that two readings of the same bytes merge by maximum. changes: of power only, where samples are 10 s
    apart or less: (cell, changes over 1-10 s, median of their sizes, the largest: (us, seconds, watts)).
    """

    source_id: str
    host: str
    device: str
    metric: str
    hour: Stamp
    cells: tuple[tuple[int, int, float, float, float], ...] = ()
    changes: tuple[tuple[int, int, float, tuple[tuple[int, float, float], ...]], ...] = ()

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        return (self.source_id, self.host, self.device, self.metric, self.hour.kind, self.hour.us)

    @property
    def totals(self) -> tuple[int, float, float, float]:
        """(samples, sum, smallest, largest) of all cells."""
        return (
            sum(c[1] for c in self.cells),
            sum(c[2] for c in self.cells),
            min((c[3] for c in self.cells), default=0.0),
            max((c[4] for c in self.cells), default=0.0),
        )


def merge_telemetry(a: TelemetryFact, b: TelemetryFact) -> TelemetryFact:
    """Two views of one hour: of each cell the view with more samples holds, since a cell is the same bytes."""
    cells: dict[int, tuple[int, int, float, float, float]] = {c[0]: c for c in a.cells}
    for cell in b.cells:
        cells[cell[0]] = max(cell, cells.get(cell[0], cell))
    changes = {c[0]: c for c in a.changes}
    for change in b.changes:
        changes[change[0]] = max(change, changes.get(change[0], change))
    return replace(a, cells=tuple(sorted(cells.values())), changes=tuple(sorted(changes.values())))


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A part of an input that could not be used, and why. `length` bytes from `offset` of the member."""

    path: str  # inner path, for people
    source_id: str  # "" where the file could not even be opened
    offset: int
    length: int
    reason: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that one range or one whole input gave. The unit that the pipeline moves and the store takes in."""

    sources: tuple[SourceFact, ...] = ()
    signals: tuple[SignalFact, ...] = ()
    progress: tuple[ProgressFact, ...] = ()
    fragments: tuple[RunFragment, ...] = ()
    quarantine: tuple[Quarantine, ...] = field(default_factory=tuple)
    telemetry: tuple[TelemetryFact, ...] = ()


def torn_away(signal: SignalFact, source: SourceFact | None) -> bool:
    """Whether a signal of a line that was cut by the end of its source is void: the source is known to go on there."""
    return signal.torn >= 0 and source is not None and source.extent > signal.torn


def merge_facts(parts: Iterable[Facts]) -> Facts:
    """Any number of partial views as one, sorted by key: the same rows whatever the cut, order or repetition."""
    sources: dict[str, SourceFact] = {}
    signals: dict[str, SignalFact] = {}
    progress: dict[tuple[str, int], ProgressFact] = {}
    fragments: dict[tuple[str, int, str, str], RunFragment] = {}
    quarantine: set[Quarantine] = set()
    telemetry: dict[tuple[str, str, str, str, str, int], TelemetryFact] = {}
    for part in parts:
        for src in part.sources:
            seen = sources.get(src.source_id)
            sources[src.source_id] = src if seen is None else merge_sources(seen, src)
        for sig in part.signals:
            known = signals.get(sig.signal_id)
            signals[sig.signal_id] = sig if known is None else merge_signals(known, sig)
        for prog in part.progress:
            key = (prog.source_id, prog.cell)
            had = progress.get(key)
            progress[key] = prog if had is None else merge_progress(had, prog)
        for frag in part.fragments:
            read = fragments.get(frag.key)
            fragments[frag.key] = frag if read is None else merge_fragments(read, frag)
        quarantine.update(part.quarantine)
        for hour in part.telemetry:
            measured = telemetry.get(hour.key)
            telemetry[hour.key] = hour if measured is None else merge_telemetry(measured, hour)
    return Facts(
        sources=tuple(v for _, v in sorted(sources.items())),
        signals=tuple(v for _, v in sorted(signals.items()) if not torn_away(v, sources.get(v.source_id))),
        progress=tuple(v for _, v in sorted(progress.items())),
        fragments=tuple(v for _, v in sorted(fragments.items())),
        quarantine=tuple(sorted(quarantine, key=lambda q: (q.path, q.offset, q.length, q.reason))),
        telemetry=tuple(v for _, v in sorted(telemetry.items())),
    )
