"""`diagnose`: why did this stop, or hang? The whole path in memory, without Beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.analyse import Analysis, analyse, ordered, with_labels
from pipeline.document import document
from schemas.diagnosis import Diagnosis
from schemas.facts import Facts, Quarantine
from schemas.identity import short_host
from schemas.settings import Settings
from schemas.subject import Decision

if TYPE_CHECKING:
    from classifiers.knowledge import RulesetImpl
    from sql.store import Store

#: How far from `--around` an incident may lie, microseconds.
AROUND_US = 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class DiagnosisResult:
    """The document and what it was made from. `decisions` holds the incidents in the document's order."""

    document: Diagnosis
    decisions: list[Decision]
    facts: Facts
    analysis: Analysis

    @property
    def quarantine(self) -> tuple[Quarantine, ...]:
        return self.facts.quarantine


def _concerns(d: Decision, job: str | None, host: str | None, since: int | None, until: int | None) -> bool:
    run = d.run
    if job is not None and (run is None or run.job_id != job):
        return False
    if host is not None:
        names = {short_host(host)}
        touched = {h for item in d.evidence for h in item.event.hosts} | {d.host} | set(run.nodes if run else ())
        if not names & touched:
            return False
    end = (run.end_us or run.log_end_us) if run is not None else d.onset_us
    start = (run.start_us or run.log_start_us or end) if run is not None else d.onset_us
    if since is not None and end is not None and end < since:
        return False
    return not (until is not None and start is not None and start > until)


def diagnose(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    job: str | None = None,
    host: str | None = None,
    around_us: int | None = None,
    since_us: int | None = None,
    until_us: int | None = None,
    store: Store | None = None,
    ruleset: RulesetImpl | None = None,
) -> DiagnosisResult:
    """Read the inputs, decide every subject, and keep those that were asked for.

    Args:
        paths: files, folders, archives, or `-` for standard input.
        settings: zone, windows, thresholds.
        job, host: only incidents of this job, or that touched this host.
        around_us, since_us, until_us: microseconds UTC; only incidents that overlap.
        store: a warehouse that adds labels and the history of hosts.
        ruleset: other knowledge than the installed one.
    """
    from classifiers.knowledge import load_ruleset
    from pipeline.scanning.scan import scan_paths

    ruleset = ruleset or load_ruleset()
    if store is None:
        facts = known = scan_paths(paths, settings, ruleset)
    else:
        facts, known = _beside(store, paths, settings, ruleset)
    analysis = analyse(known, ruleset, settings)
    decisions: Sequence[Decision] = analysis.decisions
    if store is not None:
        decisions = with_labels(decisions, store.current_labels())
        mine = {s.source_id for s in facts.sources}
        decisions = [d for d in decisions if _touches(d, mine)]
    if around_us is not None:
        since_us = max(since_us or 0, around_us - AROUND_US)
        until_us = min(until_us or around_us + AROUND_US, around_us + AROUND_US)
    wanted = [d for d in decisions if _concerns(d, job, host, since_us, until_us)]
    incidents = ordered(wanted)
    quiet = [d for d in wanted if not d.incident]
    return DiagnosisResult(document(incidents, quiet, facts.sources), incidents, facts, analysis)


def _beside(store: Store, paths: Sequence[str | Path], settings: Settings, ruleset: RulesetImpl) -> tuple[Facts, Facts]:
    """(facts of the inputs, these with the warehouse's), each file under the id that it has beside the others."""
    from pipeline.scanning.scan import scan_sources
    from pipeline.sources import Source, discover
    from pipeline.sources.split import settle
    from schemas.facts import merge_facts
    from schemas.renaming import renamed

    found = list(discover(paths, settings))
    sources = [f for f in found if isinstance(f, Source)]
    known = store.source_trails(settings.cluster, {s.base for s in sources})
    sources, moves = settle(sources, known, settings)
    facts = scan_sources(sources, settings, ruleset, [f for f in found if not isinstance(f, Source)])
    return facts, merge_facts([renamed(store.read_facts(settings.cluster), moves), facts])


def _touches(d: Decision, sources: set[str]) -> bool:
    """Whether a decision rests on one of these sources: with a warehouse, only those are the answer."""
    used = {item.event.source_id for item in (*d.evidence, *d.health)}
    return bool(sources & used) or bool(d.run is not None and sources & set(d.run.source_ids))
