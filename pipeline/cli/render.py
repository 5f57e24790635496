"""A diagnosis as text for people: pure functions from documents to lines.

The first line of an incident says whether to restart, and without which hosts. What comes from logs is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pipeline.cli.output import plain

if TYPE_CHECKING:
    from schemas.diagnosis import Diagnosis, EvidenceDoc, IncidentDoc, NotSeenDoc

_ADVICE = {
    "restart": "RESTART",
    "restart_excluding": "RESTART WITHOUT",
    "do_not_restart": "DO NOT RESTART",
    "wait": "WAIT",
}
_TEXT = 300
_EVIDENCE = 12
_CONTEXT = 3


def diagnosis_lines(document: Diagnosis) -> Iterator[str]:
    """All incidents, then what was read."""
    if not document.incidents:
        yield "NOTHING WAS INTERRUPTED, as far as these inputs show."
        if document.health_events:
            yield ""
            yield "Seen, but it stopped nothing:"
            yield from _evidence(document.health_events)
    for number, incident in enumerate(document.incidents):
        if number:
            yield ""
            yield "-" * 72
        yield from incident_lines(incident)
    if document.incidents and document.health_events:
        yield ""
        yield f"{_count(len(document.health_events), 'other event')} stopped nothing (--format json shows them)."
    yield ""
    yield from _inputs(document)


def incident_lines(incident: IncidentDoc, *, evidence: bool = True) -> Iterator[str]:
    """One incident: what to do, what it was, on what evidence (where wanted), what is missing."""
    yield restart_line(incident)
    yield ""
    yield from _facts(incident)
    if evidence:
        yield ""
        yield "Evidence" if incident.evidence else "Evidence: none was found"
        yield from _evidence(incident.evidence)
    if incident.alternatives:
        yield ""
        others = ", ".join(f"{a.component} {a.confidence:.2f}" for a in incident.alternatives)
        yield f"If it was not that: {others}"
    if incident.not_seen:
        yield ""
        yield "Not seen, and how to get it"
        for gap in incident.not_seen:
            yield from not_seen_lines(gap)


def restart_line(incident: IncidentDoc) -> str:
    """`RESTART WITHOUT node7: why`."""
    restart = incident.restart
    lead = _ADVICE[restart.advice]
    if restart.exclude_hosts:
        hosts = ", ".join(plain(h) for h in restart.exclude_hosts)
        lead += f" {hosts}" if restart.advice == "restart_excluding" else f" (exclude {hosts})"
    return f"{lead}: {plain(restart.why)}" if restart.why else lead


def _facts(incident: IncidentDoc) -> Iterator[str]:
    rows: list[tuple[str, str]] = []
    if incident.job_id:
        attempt = f", attempt {incident.attempt + 1}" if incident.attempt else ""
        rows.append(("Job", f"{plain(incident.job_id)}{attempt}"))
    rows.append(("What", plain(incident.summary)))
    row = f" ({incident.llama3_row})" if incident.llama3_row else ""
    rows.append(("Cause", f"{incident.component}{row}, {plain(incident.cause)}"))
    rows.append(("Confidence", f"{incident.confidence:.2f}, by {incident.decided_by}"))
    where = incident.first_failing
    named = [("host", where.host), ("GPU", where.gpu), ("rank", where.rank)]
    place = ", ".join(f"{name} {plain(value)}" for name, value in named if value is not None)
    if place:
        rows.append(("First failing", place))
    for name, stamp in (
        ("Started", incident.started_at),
        ("Last progress", incident.last_progress_at),
        ("Onset", incident.onset_at),
        ("Interrupted", incident.interrupted_at),
    ):
        if stamp:
            rows.append((name, _second(stamp)))
    if incident.still_running:
        rows.append(("State", "still allocated and making no progress"))
    elif incident.outcome:
        rows.append(("Scheduler", f"{plain(incident.outcome)}, counts as {incident.counts_as or 'nothing'}"))
    resume = incident.restart.resume_from
    if resume is not None:
        saved = [("step", resume.step), ("at", resume.time), ("in", resume.path)]
        rows.append(("Resume from", " ".join(f"{k} {plain(v)}" for k, v in saved if v is not None)))
    if incident.restart.lost_gpu_hours is not None:
        rows.append(("Lost work", f"{incident.restart.lost_gpu_hours:.1f} GPU-hours"))
    action = incident.action
    if action.kind != "none":
        source = f" [{plain(action.source)}]" if action.source else ""
        rows.append(("Action", f"{action.kind} {plain(action.target)}: {plain(action.why)}{source}"))
    rows.append(("Incident", incident.incident_id))
    for name, value in rows:
        yield f"{name:<14}{value}"


def _evidence(items: Sequence[EvidenceDoc]) -> Iterator[str]:
    """What decides in full; of what only stood around it, the last few."""
    deciding = [i for i in items if i.role != "context"][:_EVIDENCE]
    around = [i for i in items if i.role == "context"][-_CONTEXT:]
    for item in (*deciding, *around):
        yield from evidence_lines(item)
    left = len(items) - len(deciding) - len(around)
    if left:
        yield f"  ... and {left} more (--format json shows all)"


def evidence_lines(item: EvidenceDoc) -> Iterator[str]:
    """Two lines: role, time, place and file:line; then the quoted text."""
    where = " ".join(plain(v) for v in (item.host, item.device) if v)
    rank = f" rank {item.rank}" if item.rank is not None else ""
    many = f" x{item.count}" if item.count > 1 else ""
    at = f"{plain(item.source)}:{item.line}" if item.line is not None else f"{plain(item.source)} at byte {item.offset}"
    head = f"  {item.role:<9}{_second(item.time):<20} {where}{rank}  {plain(item.signal)}{many}"
    yield f"{head.rstrip()}  {at}"
    text = plain(item.text)
    yield f"           | {text if len(text) <= _TEXT else text[:_TEXT] + ' ...'}"


def _second(stamp: str | None) -> str:
    """A time to the second, which is what people compare; the JSON document has all digits."""
    return "time not known" if stamp is None else f"{stamp[:19]}Z"


def not_seen_lines(gap: NotSeenDoc) -> Iterator[str]:
    """What is missing, for which time, and the command for it."""
    period = f", {gap.from_ or '...'} to {gap.to or '...'}" if gap.from_ or gap.to else ""
    host = f"{plain(gap.host)}: " if gap.host else ""
    yield f"  {host}{plain(gap.what)}{period}"
    if gap.get:
        yield f"    $ {plain(gap.get)}"


def _inputs(document: Diagnosis) -> Iterator[str]:
    inputs = document.inputs
    total = sum(i.bytes for i in inputs)
    yield (
        f"Read {_count(len(inputs), 'input')}, {total:,} bytes, "
        f"{_count(sum(i.signal_lines for i in inputs), 'line')} with a signal."
    )
    for item in inputs:
        if item.note or item.unparsed_lines:
            unparsed = f"{_count(item.unparsed_lines, 'line')} not understood" if item.unparsed_lines else ""
            note = "; ".join(part for part in (unparsed, plain(item.note)) if part)
            yield f"  {plain(item.source)} ({item.format}): {note}"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
