"""Facts under other source ids: what becomes of them when a source that was taken for one turns out to be two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from schemas.facts import Facts, SignalFact, SourceFact, merge_facts
from schemas.identity import incident_id, log_run_key, signal_id, stream_id
from schemas.subject import JobRun


def renamed_signal(fact: SignalFact, source_id: str) -> SignalFact:
    """The same signal of a source of another id."""
    name = signal_id(source_id, fact.rule, fact.key, fact.host, fact.template, fact.bucket, fact.torn)
    return replace(fact, source_id=source_id, signal_id=name)


def with_streams(sources: Iterable[SourceFact], moves: Mapping[str, str]) -> dict[str, str]:
    """The moves (old source id -> new one) with those of the streams of shipped files among them."""
    everything = list(sources)
    out = dict(moves)
    for parent in everything:
        if parent.source_id not in moves:
            continue
        heads = tuple(f"{path}!" for path in parent.inner_paths)
        for s in everything:
            keys = {path[len(head) :] for path in s.inner_paths for head in heads if path.startswith(head)}
            for key in sorted(keys):
                if stream_id(parent.source_id, key) == s.source_id:
                    out[s.source_id] = stream_id(moves[parent.source_id], key)
    return out


def renamed(facts: Facts, moves: Mapping[str, str]) -> Facts:
    """The facts with these source ids (and those of their streams) replaced, merged where they meet others."""
    if not moves:
        return facts
    moves = with_streams(facts.sources, moves)
    return merge_facts(
        [
            Facts(
                sources=tuple(_at(f, moves) for f in facts.sources),
                signals=tuple(
                    renamed_signal(f, moves[f.source_id]) if f.source_id in moves else f for f in facts.signals
                ),
                progress=tuple(
                    replace(f, source_id=moves[f.source_id]) if f.source_id in moves else f for f in facts.progress
                ),
                fragments=tuple(
                    replace(f, source_id=moves[f.source_id]) if f.source_id in moves else f for f in facts.fragments
                ),
                quarantine=tuple(
                    replace(f, source_id=moves[f.source_id]) if f.source_id in moves else f for f in facts.quarantine
                ),
                telemetry=tuple(
                    replace(f, source_id=moves[f.source_id]) if f.source_id in moves else f for f in facts.telemetry
                ),
            )
        ]
    )


def _at(source: SourceFact, moves: Mapping[str, str]) -> SourceFact:
    return replace(source, source_id=moves[source.source_id]) if source.source_id in moves else source


def moved_incidents(runs: Iterable[JobRun], moves: Mapping[str, str]) -> dict[str, str]:
    """Old incident id -> new one, for runs that are named by a place in a log whose source id moved."""
    kind = "job_interruption"
    return {
        incident_id(kind, run.run_key): incident_id(kind, log_run_key(moves[sid], first))
        for run in runs
        for sid, first, _ in run.spans
        if sid in moves and run.run_key == log_run_key(sid, first)
    }
