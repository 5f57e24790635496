"""Evaluation against a simulated cluster's truth: one scan, and the answer to every attempt held against the plan.

A folder that `faultbeam simulate` wrote holds `logs` and `truth/attempts.tsv`. Each attempt is a case; the answer is
the incident of that job and attempt, `none` where there is none. What the scan gave can be looked at again with other
evidence windows, or without the logs of some hosts: those are withheld by a hash of seed and name, so that the same
hosts are missing whatever else changes.

Words beyond those of `pipeline.measuring.scoring`. *Host*: the first failing host is asked for where the cause sits on
one host and is seen there; an exception of a program and a fault of the fabric have no host of their own. *Precision
when answering*: of the answers that named a component, those that are acceptable. *Hidden*: the log of the culprit's
host is missing (withheld by the simulation or here).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from classifiers.api import Ruleset
from pipeline.analyse import analyse, ordered
from pipeline.document import document
from pipeline.measuring.evaluate import EvaluationError
from pipeline.measuring.scoring import Answer, Expected, Place, Report, Share, score, wilson
from schemas.diagnosis import IncidentDoc
from schemas.facts import Facts
from schemas.identity import digest, short_host
from schemas.settings import Settings
from schemas.taxonomy import NONE, UNKNOWN, is_named

TRUTH = Path("truth") / "attempts.tsv"
LOGS = "logs"
#: What the end of an attempt without a fault is called.
ENDS = {
    "completed": NONE,
    "cancelled": "scheduler.cancelled",
    "timed_out": "scheduler.time_limit",
    "preempted": "scheduler.preempted",
}
#: Causes whose place is no single host, or whose host no log has to tell.
HOSTLESS = frozenset({"software.bug", "net.fabric", "dependency"})
#: Folders whose entries are the logs of one host each, named after it.
_OF_HOSTS = frozenset({"hosts", "nodes", "bmc"})
_HASH_DIGITS = 8


@dataclass(frozen=True, slots=True)
class TrueAttempt:
    """One row of the truth. hidden: the log of its host is missing."""

    job_id: str
    attempt: int
    component: str
    acceptable: frozenset[str]
    host: str
    hidden: bool

    @property
    def case(self) -> str:
        return f"{self.job_id}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class ComponentScore:
    """How the attempts of one true component were answered."""

    component: str
    support: int
    right: Share  # acceptable
    abstained: int
    host: Share  # first failing host right, where one is asked for


@dataclass(frozen=True, slots=True)
class SimulatedReport:
    """All figures of one reading of a simulated cluster.

    accuracy: acceptable answers over all attempts, those that ended well too. abstained: unknown answers over the
    attempts whose cause has a name. hidden: what became of the attempts whose culprit's host log is missing. stray:
    incidents of no attempt. host_faults: faults of hosts where nothing of the job ran.
    """

    attempts: int
    accuracy: Share
    strict: Share
    named: Share  # of named answers, the acceptable ones: precision when answering
    abstained: Share
    host_top1: Share
    host_top1_named: Share  # of those with a named answer
    wrong_sure: int
    hidden: dict[str, int]
    stray: int
    host_faults: int
    by_component: list[ComponentScore]
    report: Report = field(repr=False)

    def as_dict(self, *, verdicts: bool = False) -> dict[str, object]:
        """Plain data for JSON. verdicts: one entry an attempt too."""
        data: dict[str, Any] = asdict(self) | {"report": self.report.as_dict(verdicts=verdicts)}
        return data


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the same logs, and how it scored."""

    window_before_s: float
    window_after_s: float
    withheld_hosts: int
    score: SimulatedReport


def is_simulation(folder: Path) -> bool:
    """Whether `faultbeam simulate` wrote this folder."""
    return (folder / TRUTH).is_file() and (folder / LOGS).is_dir()


def load_truth(folder: Path) -> list[TrueAttempt]:
    """The attempts of a simulation, as planned. `EvaluationError` names the row that is none."""
    path = folder / TRUTH
    out = []
    with path.open(encoding="utf-8", newline="") as handle:
        for number, row in enumerate(csv.DictReader(handle, dialect="excel-tab"), start=2):
            try:
                component = ENDS.get(row["kind"], row["component"])
                also = frozenset(c for c in row["acceptable"].split(";") if c)
                out.append(
                    TrueAttempt(
                        job_id=row["job_id"],
                        attempt=int(row["attempt"]),
                        component=component,
                        acceptable=also | {component},
                        host=short_host(row["host"]) if row["host"] else "",
                        hidden=row["logs_withheld"] == "1",
                    )
                )
            except (KeyError, ValueError, AttributeError, TypeError) as error:
                what = f"{type(error).__name__}: {error}"
                msg = f"{path}:{number}: not a row of a simulation's truth ({what}); simulate it anew"
                raise EvaluationError(msg) from error
    if not out:
        msg = f"{path}: no attempts in it; simulate it anew"
        raise EvaluationError(msg)
    return out


def _host_of(inner_path: str) -> str:
    """The host whose log a path of a simulated site is, or ""."""
    parts = PurePosixPath(inner_path).parts
    for folder, entry in pairwise(parts):
        if folder in _OF_HOSTS:
            return short_host(entry.split(".", 1)[0])
    return ""


def withheld(host: str, share: float, seed: int) -> bool:
    """Whether the logs of a host are withheld: by a hash, so that it depends on nothing else."""
    return int(digest("withheld", seed, host)[:_HASH_DIGITS], 16) < share * float(16**_HASH_DIGITS)


def without_hosts(facts: Facts, share: float, seed: int) -> tuple[Facts, frozenset[str]]:
    """The facts as if the logs of some hosts had never arrived, and which hosts' logs those were."""
    owners = {s.source_id: host for s in facts.sources for path in s.inner_paths if (host := _host_of(path))}
    gone = {sid for sid, host in owners.items() if withheld(host, share, seed)}
    if not gone:
        return facts, frozenset()
    kept = Facts(
        sources=tuple(s for s in facts.sources if s.source_id not in gone),
        signals=tuple(s for s in facts.signals if s.source_id not in gone),
        progress=tuple(p for p in facts.progress if p.source_id not in gone),
        fragments=tuple(f for f in facts.fragments if f.source_id not in gone),
        quarantine=facts.quarantine,
        telemetry=facts.telemetry,
    )
    return kept, frozenset(owners[sid] for sid in gone)


def read(
    folder: Path,
    settings: Settings,
    windows: Sequence[tuple[float, float]] = (),
    withhold: float = 0.0,
    seed: int = 1,
) -> list[Reading]:
    """Scan the logs once, then answer every attempt: once for each evidence window (before, after; seconds), or once
    with the settings' own window. withhold: the share of hosts whose logs are left out, drawn by `seed`."""
    from classifiers.knowledge import load_ruleset
    from pipeline.scanning.scan import scan_paths

    truth = load_truth(folder)
    ruleset = load_ruleset()
    facts = scan_paths([folder / LOGS], settings, ruleset)
    facts, gone = without_hosts(facts, withhold, seed)
    truth = [
        replace(t, hidden=t.hidden or (bool(t.host) and withhold > 0 and withheld(t.host, withhold, seed)))
        for t in truth
    ]
    own = (settings.window_before_s, settings.window_after_s)
    return [
        Reading(before, after, len(gone), judge_all(truth, answers(facts, ruleset, settings, before, after)))
        for before, after in windows or (own,)
    ]


def answers(facts: Facts, ruleset: Ruleset, settings: Settings, before: float, after: float) -> list[IncidentDoc]:
    """The incidents that these facts give with one evidence window."""
    chosen = settings.model_copy(update={"window_before_s": before, "window_after_s": after})
    analysis = analyse(facts, ruleset, chosen)
    return list(document(ordered(analysis.decisions), [], facts.sources).incidents)


def judge_all(truth: Sequence[TrueAttempt], incidents: Iterable[IncidentDoc]) -> SimulatedReport:
    """Hold incidents against the plan. Pure."""
    by_attempt: dict[tuple[str, int], list[IncidentDoc]] = defaultdict(list)
    host_faults = 0
    for incident in incidents:
        if incident.kind == "host_fault":
            host_faults += 1
        else:
            by_attempt[incident.job_id or "", incident.attempt].append(incident)
    expected, given = [], []
    for t in truth:
        found = by_attempt.pop((t.job_id, t.attempt), [])
        asked = t.host if t.component not in HOSTLESS else ""
        expected.append(
            Expected(t.case, t.component, t.acceptable, "hidden" if t.hidden else "seen", Place(host=asked or None))
        )
        given.append(_answer(t.case, found))
    report = score(expected, given)
    return _report(truth, given, report, sum(map(len, by_attempt.values())), host_faults)


def _answer(case: str, found: Sequence[IncidentDoc]) -> Answer:
    if not found:
        return Answer(case, NONE)
    first = found[0]
    place = Place(first.first_failing.host, first.first_failing.gpu, first.first_failing.rank)
    return Answer(case, first.component, first.confidence, first.cause, place, len(found))


def _report(
    truth: Sequence[TrueAttempt], given: Sequence[Answer], report: Report, stray: int, host_faults: int
) -> SimulatedReport:
    rows = list(zip(truth, given, report.verdicts, strict=True))
    named = [v.acceptable for _, a, v in rows if is_named(a.component)]
    asked = [
        (t, is_named(a.component), short_host(a.first_failing.host or "") == t.host)
        for t, a, _ in rows
        if t.host and t.component not in HOSTLESS
    ]
    nameable = [a.component.startswith(UNKNOWN) for t, a, _ in rows if is_named(t.component)]
    hidden = [(a, v) for t, a, v in rows if t.hidden]
    return SimulatedReport(
        attempts=len(rows),
        accuracy=report.acceptable,
        strict=report.strict,
        named=wilson(sum(named), len(named)),
        abstained=wilson(sum(nameable), len(nameable)),
        host_top1=wilson(sum(hit for _, _, hit in asked), len(asked)),
        host_top1_named=wilson(sum(hit for _, is_one, hit in asked if is_one), sum(is_one for _, is_one, _ in asked)),
        wrong_sure=report.wrong_sure,
        hidden={
            "attempts": len(hidden),
            "abstained": sum(a.component.startswith(UNKNOWN) and not v.acceptable for a, v in hidden),
            "right": sum(v.acceptable for _, v in hidden),
            "wrong": sum(is_named(a.component) and not v.acceptable for a, v in hidden),
        },
        stray=stray,
        host_faults=host_faults,
        by_component=[
            ComponentScore(
                component=c.component,
                support=c.support,
                right=c.acceptable,
                abstained=sum(a.component.startswith(UNKNOWN) for t, a, _ in rows if t.component == c.component),
                host=wilson(
                    sum(hit for t, _, hit in asked if t.component == c.component),
                    sum(t.component == c.component for t, _, _ in asked),
                ),
            )
            for c in report.by_class
        ],
        report=report,
    )
