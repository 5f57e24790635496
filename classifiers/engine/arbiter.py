"""The arbiter: whether a model is asked, with which lines, and what becomes of its opinion. Pure.

A model is asked exactly when no strong rule decides: the chosen candidate weighs less than DECIDED, or all candidates
rest on generic failure lines. It never overrides a strong rule that is sure enough to answer, and it is not asked
whether anything was interrupted. Where rule and model differ, both are shown. A prior speaks only where two weak
opinions are equally good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from classifiers.api import Opinion, Scorer
from classifiers.engine.candidates import Candidate
from classifiers.engine.choose import CEILING
from classifiers.engine.explain import before
from classifiers.engine.resolve import cleared
from classifiers.priors import prior_of
from schemas.settings import Settings
from schemas.subject import Event, Subject
from schemas.taxonomy import is_named

#: A candidate of this weight decides without a model.
DECIDED = 0.5
#: Opinions whose confidences differ by no more than this are equally good.
TIE = 0.05
#: Lines given to a model.
LINES = 12
#: Exit by SIGKILL. The line only repeats the command; who killed it stands elsewhere or nowhere: nothing to read.
_KILLED = frozenset({"exit.137", "exit.9", "exit.-9", "weak_killed"})
_SAYS_NOTHING = frozenset({"advice", "corrected", "teardown", "recovered"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What rules and model say together. top None: unknown. others: (component, confidence), largest first."""

    top: Candidate | None
    confidence: float
    others: tuple[tuple[str, float], ...]
    decided_by: str  # rule | model | rule+model
    opinion: Opinion | None = None


def undecided(ranked: Sequence[Candidate]) -> bool:
    """Whether no strong rule decides."""
    if not ranked or not is_named(ranked[0].component) or ranked[0].weight < DECIDED:
        return True
    return all(c.root is not None and c.root.strength == "weak" for c in ranked)


def excerpt(events: Sequence[Event], *, everything: bool = False) -> tuple[Event, ...]:
    """The failure lines that no strong rule explains, in order of time, up to the first collective time-out.

    What was printed after a time-out is most often its consequence. everything: lines with a strong rule too (to
    measure the model alone); then time-outs do not end the excerpt.
    """
    own = [e for e in events if not cleared(e) and not _SAYS_NOTHING & e.tags and e.text.strip()]
    if everything:
        kept = [e for e in own if e.role != "context" and e.component not in ("informational", "clock")]
    else:
        timeouts = [e for e in own if "timeout" in e.tags and e.strength != "weak"]
        kept = [
            e
            for e in own
            if (e.strength == "weak" or e.component in ("by_nested", "by_log"))
            and "traceback" not in e.tags
            and not any(before(t, e) is True for t in timeouts)
        ]
    kept.sort(key=lambda e: (e.t is None, e.t or 0.0, e.source, e.offset, e.id))
    first: dict[str, Event] = {}
    for event in kept:
        first.setdefault(event.text, event)
    return tuple(first.values())[:LINES]


def arbitrate(
    subject: Subject,
    ranked: Sequence[Candidate],
    sure: float,
    others: Sequence[tuple[str, float]],
    settings: Settings,
    scorer: Scorer | None,
) -> Verdict:
    """One answer from the ranked candidates and, where it is to be asked, the model. Rounded before thresholds."""
    prior = prior_of(settings.prior, scorer.prior if scorer is not None else {})
    top = ranked[0] if ranked and is_named(ranked[0].component) else None
    alone = settings.opinions == "text"
    if top is not None and prior and not alone:
        top, sure = _broken_tie(ranked, top, sure, prior)
    by_rule = Verdict(top if sure >= settings.threshold else None, sure, tuple(others), "rule")
    if scorer is None or not (alone or undecided(ranked)):
        return by_rule
    lines = excerpt(subject.events, everything=alone)
    if not alone and all(e.signal in _KILLED for e in lines):
        return by_rule
    opinion = scorer.opinion([e.text for e in lines])
    if opinion is None or not is_named(opinion.component):
        return Verdict(None, 0.0, (), "model") if alone else by_rule
    needed = max(settings.threshold, settings.model_threshold)
    spoken = _candidate(opinion, lines)
    if alone or top is None:
        agreed = opinion.confidence >= needed
        return Verdict(spoken if agreed else None, opinion.confidence, _shown(opinion, ()), "model", opinion)
    if top.component == opinion.component:
        both = round(min(CEILING, max(sure, opinion.confidence)), 3)
        if both < (settings.threshold if sure >= settings.threshold else needed):
            return by_rule
        return Verdict(top, both, _shown(opinion, others, top.component), "rule+model", opinion)
    strong = top.root is None or top.root.strength != "weak"
    overrides = opinion.confidence >= needed and (
        sure < settings.threshold or (not strong and _wins(opinion, top, sure, prior))
    )
    if overrides:
        rule = (top.component, round(min(sure, 1 - opinion.confidence), 3))
        return Verdict(spoken, opinion.confidence, _shown(opinion, (rule,)), "model", opinion)
    if by_rule.top is None:
        return by_rule
    model = (opinion.component, round(min(opinion.confidence, 1 - sure), 3))
    return Verdict(top, sure, _merged((model, *others), top.component), "rule", opinion)


def _wins(opinion: Opinion, top: Candidate, sure: float, prior: Mapping[str, float]) -> bool:
    if abs(opinion.confidence - sure) <= TIE:
        return prior.get(opinion.component, 0.0) > prior.get(top.component, 0.0)
    return opinion.confidence > sure


def _broken_tie(
    ranked: Sequence[Candidate], top: Candidate, sure: float, prior: Mapping[str, float]
) -> tuple[Candidate, float]:
    """Among weak candidates of nearly equal weight the one with the larger prior."""
    if top.weight >= DECIDED or top.final:
        return top, sure
    equal = [c for c in ranked if is_named(c.component) and abs(c.weight - top.weight) <= TIE and not c.final]
    best = max(equal, key=lambda c: (prior.get(c.component, 0.0), c is top, c.weight, c.component))
    return (best, round(min(sure, best.weight), 3)) if best is not top else (top, sure)


def _candidate(opinion: Opinion, lines: Sequence[Event]) -> Candidate:
    lead = lines[opinion.line]
    return Candidate(
        component=opinion.component,
        weight=opinion.confidence,
        cause=opinion.cause,
        events=(lead, *(e for e in lines if e is not lead)),
        why="a text model reads the failure lines, which no rule knows",
        family="model",
    )


def _shown(opinion: Opinion, rules: Sequence[tuple[str, float]], chosen: str = "") -> tuple[tuple[str, float], ...]:
    return _merged((*rules, *opinion.alternatives), chosen or opinion.component)


def _merged(pairs: Sequence[tuple[str, float]], chosen: str) -> tuple[tuple[str, float], ...]:
    best: dict[str, float] = {}
    for name, p in pairs:
        if name != chosen:
            best[name] = max(best.get(name, 0.0), p)
    return tuple(sorted(best.items(), key=lambda item: (-item[1], item[0]))[:4])
