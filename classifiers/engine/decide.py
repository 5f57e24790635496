"""From a subject to its decision: outcome, candidates, choice, roles, advice. Pure: no clock, no environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from classifiers.api import Ranker, Scorer
from classifiers.calibration import probability
from classifiers.engine import advice
from classifiers.engine.arbiter import Verdict, arbitrate
from classifiers.engine.candidates import Candidate
from classifiers.engine.explain import before, linked
from classifiers.engine.first import first_failing
from classifiers.engine.outcome import Outcome
from classifiers.engine.ranks import gpu_name
from classifiers.engine.resolve import cleared, resolve
from classifiers.engine.weigh import weigh
from schemas.identity import digest, incident_id
from schemas.settings import Settings
from schemas.subject import ASSUMED, Decision, Event, EvidenceItem, Subject
from schemas.taxonomy import NCCL_TIMEOUT, UNKNOWN, is_named

#: Evidence kept with a decision; what is more is counted in the events themselves.
MAX_EVIDENCE = 60


def decide(
    subject: Subject,
    settings: Settings,
    rules_version: int = 0,
    scorer: Scorer | None = None,
    ranker: Ranker | None = None,
) -> Decision:
    """The decision for one subject. Equal subjects give equal decisions, whatever the order of their events.

    scorer: a text model that is asked where no strong rule decides; ranker: an evidence model that is asked how likely
    the answer is (see `classifiers.engine.arbiter`).
    """
    made = _decide(subject, settings, rules_version, scorer, ranker)
    version = ".".join(m.version for m in (scorer, ranker) if m is not None)
    return made if not version else replace(made, model_version=version)


def _decide(
    subject: Subject, settings: Settings, rules_version: int, scorer: Scorer | None, ranker: Ranker | None
) -> Decision:
    weighed = weigh(subject)
    subject, result, ranked = weighed.subject, weighed.result, weighed.ranked
    if not result.interrupted:
        return _quiet(subject, result, rules_version)
    verdict = arbitrate(subject, result, ranked, weighed.sure, weighed.others, settings, scorer, ranker)
    top = verdict.top
    if top is None:
        made = _unknown(subject, result, ranked, verdict.confidence, rules_version)
        return replace(made, why=_asked(made, verdict)) if verdict.evidence is not None else made
    made = _build(subject, result, top, top.component, top.cause, verdict.confidence, verdict.others, rules_version)
    return replace(made, decided_by=verdict.decided_by, why=_asked(made, verdict))


def _asked(made: Decision, verdict: Verdict) -> tuple[str, ...]:
    """The reasoning with what the models said."""
    text = (
        ()
        if verdict.opinion is None
        else (f"text model: {verdict.opinion.component} ({verdict.opinion.confidence:.2f})",)
    )
    evidence = (
        () if verdict.evidence is None else (f"evidence model: {verdict.evidence[0]} ({verdict.evidence[1]:.2f})",)
    )
    return (*made.why, *text, *evidence)


def _unknown(
    subject: Subject, result: Outcome, ranked: Sequence[Candidate], sure: float, rules_version: int
) -> Decision:
    timeouts = [e for e in subject.events if "timeout" in e.tags and not cleared(e)]
    name = NCCL_TIMEOUT if timeouts else UNKNOWN
    cause = "nccl_watchdog_timeout" if timeouts else "no_cause_found"
    others = [(c.component, round(min(probability(c.weight), 0.49), 3)) for c in ranked[:3] if is_named(c.component)]
    unique = list(dict.fromkeys(others))
    return _build(
        subject, result, None, name, cause, round(min(0.9, 1 - sure), 3), unique, rules_version, tuple(timeouts)
    )


def _build(
    subject: Subject,
    result: Outcome,
    top: Candidate | None,
    name: str,
    cause: str,
    sure: float,
    others: Sequence[tuple[str, float]],
    rules_version: int,
    roots: tuple[Event, ...] = (),
) -> Decision:
    lead = top.events if top else roots
    root = lead[0] if lead else None
    evidence = _roles(subject, lead, subject.run.end_us if subject.run else None)
    run = subject.run
    host, gpu, rank_no = first_failing(subject, root, name)
    onset = _onset(root)
    if onset is None and result.hanging and run is not None:
        onset = run.last_progress_us
    key = _incident_key(subject, root, name)
    facts = dict(f.split("=", 1) for f in subject.facts if "=" in f)
    bdf = root.device.removeprefix("pci:") if root is not None else ""
    return Decision(
        subject_key=subject.key,
        kind=subject.kind,
        incident=True,
        incident_id=key,
        fault_id=_fault_id(root, name, key),
        component=name,
        cause=cause,
        confidence=sure,
        decided_by="rule",
        summary=_summary(subject, result, name, top, root),
        first_host=host,
        first_gpu=gpu,
        first_rank=rank_no,
        onset_us=onset,
        evidence=evidence,
        alternatives=tuple(others),
        not_seen=advice.not_seen(subject, name),
        restart=advice.restart(subject, name, top),
        action=advice.action(subject, name, top),
        health=tuple(i for i in _health(subject) if all(i.event.id != e.event.id for e in evidence)),
        why=(*_why(result, top, others, roots), *_assumed(subject)),
        run=run,
        host=host or subject.host,
        device=root.device if root is not None else "",
        gpu_uuid=gpu_name(subject.facts, "uuid", root.host if root is not None else "", bdf),
        gpu_serial=gpu_name(subject.facts, "serial", root.host if root is not None else "", bdf),
        driver_version=facts.get("driver_version", ""),
        rules_version=rules_version,
        revision=len(subject.events),
    )


def _quiet(subject: Subject, result: Outcome, rules_version: int) -> Decision:
    return Decision(
        subject_key=subject.key,
        kind=subject.kind,
        incident=False,
        incident_id="",
        fault_id="",
        component="",
        cause="",
        confidence=0.0,
        decided_by="rule",
        summary=result.why,
        first_host=None,
        first_gpu=None,
        first_rank=None,
        onset_us=None,
        evidence=(),
        health=_health(subject),
        why=(result.why,),
        run=subject.run,
        host=subject.host,
        rules_version=rules_version,
        revision=len(subject.events),
    )


def _health(subject: Subject) -> tuple[EvidenceItem, ...]:
    """Faults that stopped nothing: hardware, system and service signals, corrected or cleared ones too."""
    items = []
    for event in subject.events:
        if "recorder" in event.tags and event.role == "context":
            items.append(EvidenceItem(event, "context"))  # a rank that keeps the others waiting
            continue
        name, _ = resolve(event)
        if event.family == "job" or not name or not is_named(name) or event.role == "context":
            continue
        items.append(EvidenceItem(event, "context"))
    return tuple(items[:MAX_EVIDENCE])


def _roles(subject: Subject, lead: Sequence[Event], end_us: int | None) -> tuple[EvidenceItem, ...]:
    """Root, cascade (what the root explains), teardown (others stopping), context (the rest)."""
    root_ids = {e.id for e in lead[:1]}
    lead_ids = {e.id for e in lead}
    items = []
    for event in subject.events:
        if event.id in root_ids:
            role = "root"
        elif (cleared(event) and event.id not in lead_ids) or event.component in ("informational", "clock"):
            role = "context"
        elif "teardown" in event.tags or _after_end(event, end_us):
            role = "teardown"
        elif event.id in lead_ids or (lead and (linked(lead[0], event) or before(event, lead[0]) is not True)):
            role = "cascade"
        else:
            role = "context"
        if role == "context" and event.component == "informational" and not event.tags & {"restart", "ckpt_saved"}:
            continue
        items.append(EvidenceItem(event, role))
    order = {"root": 0, "cascade": 1, "teardown": 2, "context": 3}
    items.sort(
        key=lambda i: (order[i.role], i.event.t is None, i.event.t or 0.0, i.event.source, i.event.offset, i.event.id)
    )
    return tuple(items[:MAX_EVIDENCE])


def _after_end(event: Event, end_us: int | None) -> bool:
    return end_us is not None and event.t is not None and event.t > end_us / 1e6 + max(2.0, event.unc)


def _incident_key(subject: Subject, root: Event | None, name: str) -> str:
    if subject.kind == "job_interruption":
        return incident_id("job_interruption", subject.key)
    minute = int(root.t // 60) if root is not None and root.t is not None else (root.order if root is not None else 0)
    device = root.device if root is not None else ""
    return incident_id("host_fault", subject.host or (root.source_id if root else ""), device, name, minute)


def _fault_id(root: Event | None, name: str, own: str) -> str:
    """One id for interruptions that share a fault: the root's host, device and minute, or the site's quarter hour."""
    if name == "facility" and root is not None and root.t is not None:
        return digest("fault", "facility", int(root.t // 1800))
    if root is None or root.family == "job" or not root.host or root.t is None:
        return digest("fault", own)
    return digest("fault", root.host, root.device, name, int(root.t // 60))


def _summary(subject: Subject, result: Outcome, name: str, top: Candidate | None, root: Event | None) -> str:
    who = f"Job {subject.run.label}" if subject.run is not None else f"Host {subject.host or '(name not known)'}"
    how = {"host fault": "had a fault", "hanging": "hangs"}.get(result.word, f"was interrupted ({result.word})")
    if top is None:
        return f"{who} {how}; the evidence names no cause."
    where = f" on {root.host}" if root is not None and root.host and root.host != subject.host else ""
    device = f" {root.device}" if root is not None and root.device else ""
    return f"{who} {how}: {top.why.rstrip('.')}{where}{device} -> {name} ({top.cause})."


def _onset(root: Event | None) -> int | None:
    """When the root began: a watchdog's line comes its whole waiting time after the collective that it waited for."""
    if root is None or root.t is None:
        return None
    ran_ms = root.field("ran") if "timeout" in root.tags else ""
    return int(root.t * 1e6) - (int(ran_ms) * 1000 if ran_ms.isdigit() and len(ran_ms) < 10 else 0)


def _assumed(subject: Subject) -> tuple[str, ...]:
    """Clocks that were taken to be off, in words: the order of events rests on it."""
    return tuple(f"{ASSUMED}{fact[8:]}" for fact in subject.facts if fact.startswith("assumed="))


def _why(
    result: Outcome, top: Candidate | None, others: Sequence[tuple[str, float]], waited: Sequence[Event] = ()
) -> tuple[str, ...]:
    steps = [result.why]
    if top is not None:
        steps.append(f"{top.cause}: {top.why} (weight {top.weight:.2f}, {top.family})")
    elif waited:
        steps.append(f"a collective timed out ({waited[0].signal}), and nothing in these logs says why")
    else:
        steps.append("no event in the window is known to cause a stop")
    steps.extend(f"not {name}: weight {weight:.2f}" for name, weight in others)
    return tuple(steps)
