"""From the candidates of a subject to numbers: how the evidence of each lies in time, space and the run's life.

`rows(...)` gives one row a component that may be the cause, in the order of the candidates. No feature names a
component, a signal or a site: what is learned is how evidence of a real cause is shaped, not how often parts fail.
Pure. A change of a feature must raise VERSION, because stored weights fit only the features that they were made for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from classifiers.api import Opinion
from classifiers.engine.candidates import Candidate
from classifiers.engine.explain import before, linked
from classifiers.engine.outcome import Outcome
from classifiers.engine.resolve import cleared
from schemas.subject import Event, Subject
from schemas.taxonomy import is_named

#: Of the features; weights that were made for another one are refused.
VERSION = 1
#: Candidates that are looked at: the first ones by rank.
MOST = 40
#: A candidate with this share of the heaviest one's weight is a rival in time.
RIVAL = 0.4
_LEAST = 0.01


@dataclass(frozen=True, slots=True)
class Row:
    """One component that may be the cause. candidate: its best-placed candidate; None if only a text model names it.

    values: one number a name of NAMES, in that order.
    """

    component: str
    candidate: Candidate | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _View:
    """What all rows of a subject share."""

    subject: Subject
    result: Outcome
    named: tuple[Candidate, ...]  # best-placed candidate of each component, in order of rank
    every: tuple[Candidate, ...]
    heaviest: float
    opinion: Opinion | None


def _logit(p: float) -> float:
    p = min(max(p, _LEAST), 1 - _LEAST)
    return math.log(p / (1 - p))


def _end(subject: Subject) -> float | None:
    run = subject.run
    if run is None:
        return None
    end = run.end_us if run.end_us is not None else run.log_end_us
    return None if end is None else end / 1e6


def _rival(c: Candidate, view: _View) -> float:
    return max((o.weight for o in view.every if o.component != c.component), default=0.0)


def _gap(c: Candidate, view: _View) -> float:
    """log(1 + seconds from the candidate's first event to the end of the run); 0 where no clock tells."""
    end = _end(view.subject)
    return 0.0 if end is None or c.t is None else math.log1p(max(0.0, end - c.t))


def _order(c: Candidate, view: _View) -> float:
    """Rivals that it came before, less rivals that came before it, over all rivals: -1 to 1."""
    rivals = [
        o for o in view.named if o.component != c.component and o.root is not None and o.weight >= RIVAL * view.heaviest
    ]
    if c.root is None or not rivals:
        return 0.0
    told = [before(c.root, o.root) for o in rivals if o.root is not None]
    return (sum(t is True for t in told) - sum(t is False for t in told)) / len(rivals)


def _own(c: Candidate, view: _View) -> list[Event]:
    """Events of all candidates of the component."""
    found = {e.id: e for o in view.every if o.component == c.component for e in o.events}
    return list(found.values())


def _hosts(c: Candidate, view: _View) -> int:
    return len({h for e in _own(c, view) for h in (e.hosts or (e.host,)) if h})


def _explained(c: Candidate, view: _View) -> int:
    """Events of others that knowledge links to it as their cause."""
    root = c.root
    if root is None:
        return 0
    return sum(linked(root, e) and before(e, root) is not True for e in view.subject.events if e.id != root.id)


def _explainers(c: Candidate, view: _View) -> int:
    """Uncleared events that knowledge links to it as a cause of it."""
    root = c.root
    if root is None:
        return 0
    return sum(
        linked(e, root) and before(root, e) is not True
        for e in view.subject.events
        if e.id != root.id and not cleared(e)
    )


def _history(c: Candidate, view: _View) -> int:
    root = c.root
    if root is None or not (root.host or root.device):
        return 0
    return sum(
        e.count
        for e in view.subject.history
        if e.signal == root.signal and e.host == root.host and (not root.device or e.device == root.device)
    )


def _unseen(view: _View) -> float:
    """Share of the hosts of the subject whose kernel log is not there; 0 where no log of a host is."""
    seen = [row.seen for row in view.subject.coverage if row.what == "kernel log" and row.host]
    return seen.count(False) / len(seen) if any(seen) else 0.0


def _no_host_log(view: _View) -> bool:
    return not any(row.seen for row in view.subject.coverage if row.what == "kernel log" and row.host)


def _text(c: Candidate, view: _View) -> float:
    """What the text model gives this component; 0 where it was not asked."""
    if view.opinion is None:
        return 0.0
    if view.opinion.component == c.component:
        return view.opinion.confidence
    return dict(view.opinion.alternatives).get(c.component, 0.0)


def _against(c: Candidate, view: _View) -> float:
    """What the text model gives another named component that it prefers."""
    said = view.opinion
    if said is None or said.component == c.component or not is_named(said.component):
        return 0.0
    return said.confidence


def _root(test: Callable[[Event], object]) -> Callable[[Candidate, _View], float]:
    return lambda c, _: float(bool(c.root is not None and test(c.root)))


def _family(name: str) -> Callable[[Candidate, _View], float]:
    return lambda c, _: float(c.family == name)


_FEATURES: Mapping[str, Callable[[Candidate, _View], float]] = {
    "weight": lambda c, _: _logit(c.weight),
    "first": lambda c, v: float(c is v.named[0]),
    "first_weight": lambda c, v: _logit(c.weight) if c is v.named[0] else 0.0,
    "share": lambda c, v: c.weight / v.heaviest,
    "rival": _rival,
    "rivals": lambda _, v: math.log(len(v.named)),
    "final": lambda c, _: float(c.final),
    "alternative": lambda c, _: float(c.alt is not None),
    "job": _family("job"),
    "hardware": _family("hardware"),
    "scheduler": _family("scheduler"),
    "shape": _family("shape"),
    "model": _family("model"),
    "weak": _root(lambda e: e.strength == "weak"),
    "fatal": _root(lambda e: e.fatal == "y"),
    "harmless": _root(lambda e: e.fatal == "n"),
    "either": _root(lambda e: e.role == "either"),
    "warning": _root(lambda e: e.severity in ("info", "warning")),
    "incubating": _root(lambda e: e.maturity == "incubating"),
    "gap": _gap,
    "gap_known": lambda c, v: float(_end(v.subject) is not None and c.t is not None),
    "order": _order,
    "progress_before": _root(lambda e: e.progress_before > 0),
    "progress_after": _root(lambda e: e.progress_after > 0),
    "signals": lambda c, v: math.log1p(len({e.signal for e in _own(c, v)})),
    "lines": lambda c, v: math.log1p(sum(e.count for e in _own(c, v))),
    "devices": lambda c, v: math.log1p(len({(e.host, e.device) for e in _own(c, v) if e.device})),
    "hosts": lambda c, v: math.log1p(_hosts(c, v)),
    "ranks": lambda c, v: math.log1p(max((e.n_ranks for e in _own(c, v)), default=0)),
    "explains": lambda c, v: math.log1p(_explained(c, v)),
    "explained": lambda c, v: math.log1p(_explainers(c, v)),
    "history": lambda c, v: math.log1p(_history(c, v)),
    "unseen": lambda _, v: _unseen(v),
    "unseen_job": lambda c, v: _unseen(v) if c.family == "job" else 0.0,
    "no_host_log": lambda _, v: float(_no_host_log(v)),
    "timed_out": lambda _, v: float(any("timeout" in e.tags and not cleared(e) for e in v.subject.events)),
    "killed": lambda _, v: float(any("exit_code" in e.tags and not cleared(e) for e in v.subject.events)),
    "hanging": lambda _, v: float(v.result.hanging),
    "stated": lambda _, v: float(v.subject.run is not None and v.subject.run.state != ""),
    "no_run": lambda _, v: float(v.subject.run is None),
    "asked": lambda _, v: float(v.opinion is not None),
    "text": _text,
    "text_against": _against,
}
#: Names of the features, in the order of a row.
NAMES = tuple(_FEATURES)


def rows(subject: Subject, result: Outcome, ranked: Sequence[Candidate], opinion: Opinion | None = None) -> list[Row]:
    """One row a named component: see the module. opinion: what the text model said, None where it was not asked.

    A component that only the text model names has a row too, if its probability is the largest.
    """
    every = tuple(c for c in ranked[:MOST] if is_named(c.component))
    first: dict[str, Candidate] = {}
    for c in every:
        first.setdefault(c.component, c)
    named = list(first.values())
    spoken: Candidate | None = None
    if opinion is not None and is_named(opinion.component) and opinion.component not in first:
        spoken = Candidate(opinion.component, opinion.confidence, opinion.cause, (), "", "model")
        named.append(spoken)
        every = (*every, spoken)
    if not named:
        return []
    heaviest = max(c.weight for c in named) or 1.0
    view = _View(subject, result, tuple(named), every, heaviest, opinion)
    return [
        Row(c.component, None if c is spoken else c, tuple(round(float(f(c, view)), 6) for f in _FEATURES.values()))
        for c in named
    ]
