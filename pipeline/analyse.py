"""From facts to decisions in memory: place, assemble runs, join, decide. The same functions in every path.

`diagnose` calls `analyse`; the warehouse path calls the steps one by one on what it reads back, so that both give
the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from classifiers.api import Ruleset
from classifiers.engine import decide
from classifiers.evidence.shipped import ranker_for
from classifiers.text.shipped import scorer_for
from pipeline.joining.join import join
from pipeline.placing.place import Clock, place
from pipeline.runs.assemble import assemble
from schemas.facts import Facts
from schemas.settings import Settings
from schemas.subject import Decision, JobRun, Subject


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that was concluded from some facts."""

    clocks: Mapping[str, Clock]
    runs: tuple[JobRun, ...]
    subjects: tuple[Subject, ...]
    decisions: tuple[Decision, ...]


def analyse(facts: Facts, ruleset: Ruleset, settings: Settings) -> Analysis:
    """Decide every subject of these facts. Pure."""
    clocks = place(facts.sources, facts.fragments, settings)
    runs = assemble(facts, clocks, ruleset, settings)
    subjects = join(runs, facts, clocks, ruleset, settings)
    decisions = decide_all(subjects, settings, ruleset.number)
    return Analysis(clocks, tuple(runs), tuple(subjects), tuple(decisions))


def decide_all(subjects: Sequence[Subject], settings: Settings, rules_version: int) -> list[Decision]:
    """Decisions of a batch of subjects, in the subjects' order. The models are those that the settings name."""
    scorer = scorer_for(settings.model) if settings.opinions in ("all", "text") else None
    ranker = ranker_for(settings.model) if settings.opinions in ("all", "evidence") else None
    return [decide(subject, settings, rules_version, scorer, ranker) for subject in subjects]


def ordered(decisions: Sequence[Decision]) -> list[Decision]:
    """Incidents as people read them: still running first, then by end, widest job first; host faults last, and of
    those a boot that nothing explains after the faults that were seen."""

    def key(d: Decision) -> tuple[bool, bool, bool, int, int, str]:
        run = d.run
        end = (run.end_us or run.log_end_us or 0) if run is not None else (d.onset_us or 0)
        width = (run.n_gpus or run.n_nodes or len(run.nodes)) if run is not None else 0
        running = bool(run is not None and run.still_running)
        unexplained = d.kind == "host_fault" and d.cause == "reboot"
        return (d.kind == "host_fault", unexplained, not running, -end, -width, d.incident_id)

    return sorted((d for d in decisions if d.incident), key=key)


def with_labels(decisions: Sequence[Decision], labels: Mapping[str, str]) -> list[Decision]:
    """Decisions with people's labels put over them: labels win."""
    return [
        replace(d, component=labels[d.incident_id], decided_by="label", confidence=1.0)
        if d.incident and d.incident_id in labels
        else d
        for d in decisions
    ]
