"""Subjects with known causes, as rows for the evidence model: labelled cases, and simulated clusters.

A sample is one interrupted subject: a row a candidate, and which of them a reviewer would accept. Each one is taken
three times: as it is, and with the rule behind its answer taken away (its lines *gone*, or *muted*: still marked as a
failure without a meaning). The latter two are what a kind of failure looks like that nobody has written a rule for,
and the only honest source of wrong answers among cases that rules were tuned on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from classifiers.api import Scorer
from classifiers.engine.arbiter import asked
from classifiers.engine.evidence import Row, rows
from classifiers.engine.weigh import Weighed, weigh
from pipeline.diagnose import DiagnosisResult, diagnose
from pipeline.measuring.evaluate import load_cases, run_case
from pipeline.measuring.simulated import LOGS, load_truth
from pipeline.simulate import simulate
from pipeline.simulate.settings import HSDP_MIX, LLAMA3_MIX, SideJobs, SimSettings
from schemas.diagnosis import Diagnosis
from schemas.settings import Settings
from schemas.subject import Decision, Event, Subject

#: How a sample was taken; see the module.
KINDS = ("whole", "gone", "muted")


@dataclass(frozen=True, slots=True)
class EvidenceSample:
    """One subject. name: of case or attempt. cluster, template: it and all that share one of them are held out
    together. raw: the score of the rules' own answer, 0 for none. right: for each row, whether it is acceptable."""

    name: str
    kind: str
    cluster: str
    template: str
    expected: str
    acceptable: frozenset[str]
    raw: float
    rows: tuple[Row, ...]
    right: tuple[bool, ...]
    simulated: bool = False


def sample_of(weighed: Weighed, scorer: Scorer | None) -> tuple[Row, ...]:
    """The rows of a weighed subject, with the text model asked where the arbiter would ask it."""
    _, opinion = asked(weighed.subject, weighed.ranked, scorer)
    return tuple(rows(weighed.subject, weighed.result, weighed.ranked, opinion))


def _muted(event: Event) -> Event:
    return replace(
        event,
        component="by_log",
        alt=None,
        role="symptom",
        strength="weak",
        tags=frozenset({"exception"}),
        links=(),
        back=None,
        back_component="",
    )


def variants(subject: Subject, answer: Decision) -> Iterator[tuple[str, Subject]]:
    """The subject as it is, and without the rule that its answer rests on."""
    yield "whole", subject
    root = next((i.event for i in answer.evidence if i.role == "root"), None)
    if root is None:
        return
    yield "gone", replace(subject, events=tuple(e for e in subject.events if e.rule != root.rule))
    if root.strength != "weak" and root.family == "job":
        told = tuple(_muted(e) if e.rule == root.rule else e for e in subject.events)
        yield "muted", replace(subject, events=told)


def _by_rules(settings: Settings) -> Settings:
    """So that no sample depends on the models that are in use."""
    return settings.model_copy(update={"opinions": "rules"})


def _samples(
    name: str,
    cluster: str,
    expected: str,
    acceptable: frozenset[str],
    subject: Subject,
    answer: Decision,
    scorer: Scorer | None,
    *,
    simulated: bool = False,
) -> Iterator[EvidenceSample]:
    root = next((i.event.rule for i in answer.evidence if i.role == "root"), answer.cause)
    for kind, one in variants(subject, answer):
        weighed = weigh(one)
        found = sample_of(weighed, scorer) if weighed.result.interrupted else ()
        if not found:
            continue
        top = weighed.ranked[0].component if weighed.ranked else ""
        raw = weighed.sure if top == found[0].component else 0.0
        right = tuple(r.component in acceptable for r in found)
        yield EvidenceSample(name, kind, cluster, root, expected, acceptable, raw, found, right, simulated)


def case_samples(folder: Path, settings: Settings, scorer: Scorer | None) -> list[EvidenceSample]:
    """Samples of a folder of cases (see `pipeline.measuring.evaluate`). Each case is a cluster of its own."""
    settings = _by_rules(settings)
    out: list[EvidenceSample] = []
    for case in load_cases(folder):
        results: list[DiagnosisResult] = []

        def once(target: Path, results: list[DiagnosisResult] = results) -> Diagnosis:
            results.append(diagnose([target], settings))
            return results[-1].document

        run_case(case, once)
        if not results or not results[0].decisions:
            continue
        answer = results[0].decisions[0]
        subject = {s.key: s for s in results[0].analysis.subjects}[answer.subject_key]
        e = case.expected
        out += _samples(e.case, e.case, e.component, e.acceptable, subject, answer, scorer)
    return out


def simulated_samples(folder: Path, name: str, settings: Settings, scorer: Scorer | None) -> list[EvidenceSample]:
    """Samples of a cluster that `faultbeam simulate` wrote. name: of the cluster."""
    settings = _by_rules(settings)
    truth = {(t.job_id, t.attempt): t for t in load_truth(folder)}
    result = diagnose([folder / LOGS], settings)
    subjects = {s.key: s for s in result.analysis.subjects}
    out: list[EvidenceSample] = []
    for answer in result.decisions:
        run = answer.run
        told = truth.get((run.job_id or "", run.attempt)) if run is not None else None
        if told is None:
            continue
        subject = subjects[answer.subject_key]
        out += _samples(
            f"{name}/{told.case}", name, told.component, told.acceptable, subject, answer, scorer, simulated=True
        )
    return out


def training_clusters(seed: int) -> Iterator[SimSettings]:
    """The clusters that the model is trained on: both mixes and sites, host logs withheld, neighbours' faults, noise,
    clocks that disagree. Only the usual wording: the other one stays unseen."""
    number = 0
    for mix in (LLAMA3_MIX, HSDP_MIX):
        for site in ("slurm", "k8s"):
            for withheld in (0.0, 0.3):
                number += 1
                yield SimSettings(
                    seed=100 * seed + number,
                    site=site,
                    days=8.0,
                    hosts=24,
                    interruptions=70,
                    planned=4,
                    mix={name: float(n) for name, n in mix.items()},
                    frameworks=["megatron", "torchtitan", "nemo", "lightning"],
                    withheld=withheld,
                    skew_s=0.3 if withheld == 0.0 else 1.5,
                    noise_lines_per_host_day=6.0,
                    noise_hosts=0.3,
                    recovered_faults=8,
                    neighbour_faults=0.4,
                    in_job_restarts=0.2,
                    side_jobs=SideJobs(completed=6, cancelled=4, timed_out=4, preempted=4),
                )


def cluster_samples(seed: int, settings: Settings, scorer: Scorer | None) -> list[EvidenceSample]:
    """Simulate the training clusters in a temporary place, and read them."""
    out: list[EvidenceSample] = []
    for made in training_clusters(seed):
        name = f"{made.site}-{made.seed}"
        with tempfile.TemporaryDirectory(prefix="clusters-") as scratch:
            simulate(Path(scratch) / "site", made)
            out += simulated_samples(Path(scratch) / "site", name, settings, scorer)
    return out
