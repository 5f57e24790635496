"""The story of one incident in the order of time, for `explain`: pure functions from a decision to lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pipeline.cli.output import plain, when
from pipeline.cli.render import incident_lines
from schemas.subject import ASSUMED, Decision, EvidenceItem

#: From which uncertainty on a time is shown with it, seconds.
_LOOSE_S = 5.0
_ROLE = {
    "root": "the cause",
    "cascade": "followed from it",
    "teardown": "others stopping",
    "context": "around it",
}


def explain_lines(decision: Decision) -> Iterator[str]:
    """Time line, reasons for this cause, reasons against the next, then the incident as `diagnose` prints it."""
    from pipeline.document import incident

    yield "Time line (UTC)"
    yield from timeline_lines(decision)
    yield ""
    yield "Why this cause"
    steps = tuple(step for step in decision.why if not step.startswith(ASSUMED))
    yield from _numbered(steps or ("no step of the reasoning was recorded",))
    yield ""
    yield "Why not the next"
    yield from _alternatives(decision)
    if decision.assumptions:
        yield ""
        yield "Assumed"
        yield from (f"  {plain(word)}" for word in decision.assumptions)
    yield ""
    yield "-" * 72
    yield from incident_lines(incident(decision), evidence=False)


def timeline_lines(decision: Decision) -> Iterator[str]:
    """Evidence and the run's own marks, by time; what has no time stands at the end, in its order in the logs."""
    marks: list[tuple[float, int, list[str]]] = []
    run = decision.run
    if run is not None:
        for us, text in (
            (run.start_us, f"start of attempt {run.attempt + 1} of {run.label}"),
            (run.last_progress_us, "last progress" + (f", step {run.last_step}" if run.last_step is not None else "")),
            (run.end_us if run.end_known else None, f"end{': ' + plain(run.state) if run.state else ''}"),
        ):
            if us is not None:
                marks.append((us / 1e6, 0, [f"  {when(us) or '':<21} {text}"]))
    timed = [i for i in decision.evidence if i.event.t is not None]
    for item, times in _collapsed(sorted(timed, key=lambda i: (i.event.t or 0.0, i.event.offset))):
        marks.append((item.event.t or 0.0, 1 + item.event.offset, list(_item(item, times))))
    for _, _, lines in sorted(marks, key=lambda m: (m[0], m[1])):
        yield from lines
    without_time = [i for i in decision.evidence if i.event.t is None]
    for item, times in _collapsed(sorted(without_time, key=lambda i: (i.event.source, i.event.offset))):
        yield from _item(item, times)


def _collapsed(items: Sequence[EvidenceItem]) -> Iterator[tuple[EvidenceItem, int]]:
    """Neighbours that only say the same again, like one save after the other: the last of them, and how many."""
    for _, run in groupby(items, key=lambda i: (i.role, i.event.signal, i.event.host, i.event.device)):
        held = list(run)
        if held[0].role == "context":
            yield held[-1], len(held)
        else:
            yield from ((item, 1) for item in held)


def _item(item: EvidenceItem, times: int = 1) -> Iterator[str]:
    event = item.event
    stamp = when(round(event.t * 1e6)) if event.t is not None else "time not known"
    where = " ".join(plain(v) for v in (event.host, event.device) if v)
    rank = f" rank {event.rank}" if event.rank is not None else ""
    if event.n_ranks > 1:
        rank = f" {event.n_ranks} ranks, first {event.rank}"
    many = f" x{event.count}" if event.count > 1 else ""
    at = f"{plain(event.source)}:{event.line}" if event.line is not None else f"{plain(event.source)}@{event.offset}"
    lead = f"  {stamp:<21} {_ROLE.get(item.role, item.role):<17}"
    # A stamp may be borrowed from an earlier line: what was printed between the two could be as late as this.
    loose = f", time +-{event.unc:.0f} s" if event.t is not None and event.unc >= _LOOSE_S else ""
    before = f", the last of {times}" if times > 1 else ""
    yield f"{lead}{plain(event.signal)}{many}  {where}{rank}".rstrip() + f"  [{at}{loose}{before}]"
    text = plain(event.text)
    yield f"{'':<24}| {text[:400]}{' ...' if len(text) > 400 else ''}"


def _numbered(steps: tuple[str, ...]) -> Iterator[str]:
    for number, step in enumerate(steps, start=1):
        yield f"  {number}. {plain(step)}"


def _alternatives(decision: Decision) -> Iterator[str]:
    if not decision.alternatives:
        yield "  nothing else in these logs comes into question"
    for component, confidence in decision.alternatives:
        own = [i for i in decision.evidence if i.event.component == component or i.event.alt == component]
        if own:
            first = own[0]
            said = f"{plain(first.event.signal)} was seen, as {_ROLE.get(first.role, first.role)}"
        else:
            said = "no line of these logs names it; it is what such a signal means now and then"
        yield f"  {component} {confidence:.2f}: {said}"
