"""Writing what a stream's decider concluded: everything in one transaction, or nothing.

Where somebody else has written decisions of the cluster since the facts were read, nothing is written: they may know
of facts that this conclusion does not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from pipeline.warehouse.conclusion import Conclusion, remember
from pipeline.warehouse.kept import Kept
from pipeline.warehouse.redecide import clock_mark
from pipeline.warehouse.writeback import coverage_rows, host_rows, placement_rows, progress_rows
from schemas.subject import Decision
from sql.clocks import write_clock_marks
from sql.decide import Replaced, replace_decisions
from sql.episodes import write_spans
from sql.operations import replace_coverage, replace_hosts
from sql.read import update_placements, update_progress_placements
from sql.runs import replace_runs
from sql.touched import next_generation, settle_marks

if TYPE_CHECKING:
    from sql.store import Store


def write(
    store: Store,
    kept: Kept,
    found: Conclusion,
    decisions: Sequence[Decision],
    reopened: Collection[str],
    document: Callable[[Decision], str],
) -> Replaced | None:
    """Write it all and have `kept` know it; None, and nothing written, where somebody else wrote meanwhile."""
    cluster = kept.cluster
    before = {run.run_key: run for run in kept.runs}
    now = {run.run_key: run for run in found.runs}
    changed_runs = [run for key, run in now.items() if before.get(key) != run]
    gone_runs = before.keys() - now.keys()
    marks = {
        sid: mark
        for sid, clock in found.clocks.items()
        if kept.clocks.get(sid) != clock and (mark := clock_mark(clock)) != kept.clock_marks.get(sid)
    }
    sources = [kept.sources[sid] for sid in sorted(found.renew & kept.sources.keys())]
    hosts = {found.clocks[s.source_id].host for s in sources if s.source_id in found.clocks} - {""}
    of_hosts = [
        s for s in kept.sources.values() if s.source_id in found.clocks and found.clocks[s.source_id].host in hosts
    ]
    placed_in = {p.fact.source_id for p in found.placed}
    progress = [p for sid in sorted(kept.progress) for p in kept.progress[sid]]
    with store.writing(cluster) as connection:
        if not next_generation(connection, cluster, kept.generation):
            return None
        # Rows are locked in the order in which loads lock them, by table and by key: else both wait for each other.
        write_clock_marks(connection, cluster, marks)
        update_placements(connection, sorted(placement_rows(found.placed, placed_in), key=itemgetter(0)), cluster)
        update_progress_placements(
            connection, cluster, progress_rows(progress, found.renew, kept.runs, found.runs, found.clocks)
        )
        replace_coverage(connection, cluster, [s.source_id for s in sources], coverage_rows(sources, found.clocks))
        replace_hosts(connection, cluster, host_rows(of_hosts, found.clocks), only_these=not found.whole)
        write_spans(connection, cluster, found.spans, found.retract)
        done = replace_decisions(
            connection,
            cluster,
            decisions,
            found.retract,
            store.now_us(),
            {},
            latest=True,
            reopened=reopened,
            document=document,
        )
        replace_runs(connection, cluster, changed_runs, gone_runs)
        settle_marks(connection, cluster, found.marks)
    _remember(kept, found, decisions, marks)
    return done


def _remember(kept: Kept, found: Conclusion, decisions: Sequence[Decision], marks: dict[str, str]) -> None:
    kept.generation += 1
    kept.runs = tuple(sorted(found.runs, key=lambda run: run.run_key))
    kept.clock_marks.update(marks)
    gone = frozenset(found.retract)
    decided = {d.subject_key for d in decisions}
    provisional = {d.subject_key for d in decisions if d.extra.get("provisional") == "1"}
    kept.provisional = (kept.provisional - gone - decided) | provisional
    kept.subjects = (kept.subjects - gone) | decided
    for key in gone:
        kept.episodes.pop(key, None)
    hosts = {d.subject_key: d.host for d in decisions}
    kept.episodes.update({key: (hosts.get(key, ""), span) for key, span in found.spans.items()})
    for sid, mark in found.marks.items():
        if (old := kept.marks.get(sid)) is not None:
            kept.marks[sid] = replace(old, decided=max(old.decided, mark))
    if found.whole:
        kept.oldest_rules = min((d.rules_version for d in decisions), default=None)
    remember(kept, found)
