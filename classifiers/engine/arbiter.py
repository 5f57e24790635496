"""The arbiter: whether a model is asked, with which lines, and what becomes of its opinion. Pure.

The text model is asked exactly when no strong rule decides: the chosen candidate weighs less than DECIDED, or all
candidates rest on generic failure lines. It never overrides a strong rule that is sure enough to answer, and it is not
asked whether anything was interrupted. Where rule and model differ, both are shown. A prior speaks only where two weak
opinions are equally good.

The evidence model is asked about every answer that rests on a candidate of the rules: its probability is the confidence
(an answer of the text model alone has that one's, which is calibrated too). It takes an answer back where that is below
the threshold, and puts another candidate in its place where it is surer of it by MARGIN,
unless an explicit statement decided. It gives no answer where rules and text model give none. Without it, the
confidence of an answer of the rules is their score by a fitted curve (`classifiers.calibration.probability`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from classifiers.api import Opinion, Ranker, Scorer
from classifiers.calibration import SUREST, probability
from classifiers.engine.candidates import Candidate
from classifiers.engine.choose import CEILING
from classifiers.engine.evidence import rows
from classifiers.engine.explain import before
from classifiers.engine.outcome import Outcome
from classifiers.engine.resolve import cleared
from classifiers.priors import prior_of
from schemas.settings import Settings
from schemas.subject import Event, Subject
from schemas.taxonomy import is_named

#: A candidate of this weight decides without a model.
DECIDED = 0.5
#: Opinions whose confidences differ by no more than this are equally good.
TIE = 0.05
#: How much surer of another candidate the evidence model has to be to put it first.
MARGIN = 0.1
#: One line of job output that fits two components cannot be surer than how often the first of the two is the one:
#: 72 of 91 for HBM against SRAM in Table 5 of the Llama 3 paper.
ONE_OF_TWO = 0.79
#: Alternatives below this are not worth a line.
LEAST = 0.01
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
    evidence: tuple[str, float] | None = None  # component that the evidence model prefers, with its probability


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


def asked(
    subject: Subject, ranked: Sequence[Candidate], scorer: Scorer | None, *, alone: bool = False
) -> tuple[tuple[Event, ...], Opinion | None]:
    """The lines that the text model is given and what it says; no opinion where it is not to be asked.

    alone: it is asked whatever the rules say (to measure it).
    """
    if scorer is None or not (alone or undecided(ranked)):
        return (), None
    lines = excerpt(subject.events, everything=alone)
    if not alone and all(e.signal in _KILLED for e in lines):
        return lines, None
    return lines, scorer.opinion([e.text for e in lines])


def arbitrate(
    subject: Subject,
    result: Outcome,
    ranked: Sequence[Candidate],
    sure: float,
    others: Sequence[tuple[str, float]],
    settings: Settings,
    scorer: Scorer | None,
    ranker: Ranker | None = None,
) -> Verdict:
    """One answer from the ranked candidates and, where they are to be asked, the models. Rounded before thresholds.

    sure: the rules' score of the first candidate; others: (component, score) of its rivals.
    """
    if settings.opinions == "evidence":
        return _by_evidence(subject, result, ranked, settings, ranker)
    said = _said(subject, ranked, sure, others, settings, scorer)
    if settings.opinions == "text":
        return said
    if ranker is None or said.decided_by == "model":
        return _by_curve(said)
    return _weighed(subject, result, ranked, said, settings, ranker)


def _by_curve(said: Verdict) -> Verdict:
    """The verdict with the rules' score as a probability; rivals share what is left as they did."""
    if said.decided_by != "rule":
        return said
    p = _capped(said.top, probability(said.confidence))
    return replace(said, confidence=p, others=_rescaled(said.others, said.confidence, p))


def _capped(top: Candidate | None, p: float) -> float:
    """The probability of a candidate, no larger than its line allows."""
    return min(p, ONE_OF_TWO) if top is not None and top.alt and top.family == "job" else p


def _rescaled(pairs: Sequence[tuple[str, float]], score: float, p: float) -> tuple[tuple[str, float], ...]:
    part = (1 - p) / (1 - score) if score < 1 else 1.0
    return tuple((name, q) for name, w in pairs if (q := round(min(1 - p, w * part), 3)) >= LEAST)


def _by_evidence(
    subject: Subject, result: Outcome, ranked: Sequence[Candidate], settings: Settings, ranker: Ranker | None
) -> Verdict:
    """The evidence model alone: of the rules' candidates the one whose evidence looks most like a cause."""
    found = rows(subject, result, ranked)
    if ranker is None or not found:
        return Verdict(None, 0.0, (), "model")
    chances = ranker.probabilities([row.values for row in found])
    best = max(range(len(found)), key=lambda i: (round(chances[i], 9), -i))
    p = round(min(SUREST, chances[best]), 3)
    others = _merged([(r.component, round(q, 3)) for r, q in zip(found, chances, strict=True) if q >= LEAST], "")
    name = found[best].component
    return Verdict(
        found[best].candidate if p >= settings.threshold else None,
        p,
        tuple(pair for pair in others if pair[0] != name),
        "model",
        evidence=(name, p),
    )


def _weighed(
    subject: Subject,
    result: Outcome,
    ranked: Sequence[Candidate],
    said: Verdict,
    settings: Settings,
    ranker: Ranker,
) -> Verdict:
    """What rules and text model say, weighed by the evidence model; see the module."""
    found = rows(subject, result, ranked, said.opinion)
    chances = dict(zip((r.component for r in found), ranker.probabilities([r.values for r in found]), strict=True))
    top = said.top
    if top is None or top.component not in chances:
        return _by_curve(said)
    best = max(found, key=lambda r: (round(chances[r.component], 9), r.component == top.component, r.component))
    chosen, decided_by = top, said.decided_by
    if (
        best.candidate is not None
        and best.component != top.component
        and not top.final
        and chances[best.component] - chances[top.component] >= MARGIN
    ):
        chosen, decided_by = best.candidate, "model"
    p = _capped(chosen, round(min(SUREST, chances[chosen.component]), 3))
    mentioned = _rescaled([o for o in said.others if o[0] not in chances], said.confidence, p)
    rivals = [(name, round(q, 3)) for name, q in chances.items() if q >= LEAST]
    return Verdict(
        chosen if p >= settings.threshold else None,
        p,
        _merged([*rivals, *mentioned], chosen.component),
        decided_by,
        said.opinion,
        (best.component, round(min(SUREST, chances[best.component]), 3)),
    )


def _said(
    subject: Subject,
    ranked: Sequence[Candidate],
    sure: float,
    others: Sequence[tuple[str, float]],
    settings: Settings,
    scorer: Scorer | None,
) -> Verdict:
    """What rules and text model say; the confidence of an answer of the rules is their score."""
    prior = prior_of(settings.prior, scorer.prior if scorer is not None else {})
    top = ranked[0] if ranked and is_named(ranked[0].component) else None
    alone = settings.opinions == "text"
    if top is not None and prior and not alone:
        top, sure = _broken_tie(ranked, top, sure, prior)
    enough = probability(sure) >= settings.threshold
    by_rule = Verdict(top if enough else None, sure, tuple(others), "rule")
    lines, opinion = asked(subject, ranked, scorer, alone=alone)
    if opinion is None and not (alone and scorer is not None):
        return by_rule
    if opinion is None or not is_named(opinion.component):
        return Verdict(None, 0.0, (), "model") if alone else by_rule
    needed = max(settings.threshold, settings.model_threshold)
    spoken = _candidate(opinion, lines)
    if alone or top is None:
        agreed = opinion.confidence >= needed
        return Verdict(spoken if agreed else None, opinion.confidence, _shown(opinion, ()), "model", opinion)
    if top.component == opinion.component:
        both = round(min(CEILING, max(probability(sure), opinion.confidence)), 3)
        if not enough and opinion.confidence < needed:
            return by_rule
        return Verdict(top, both, _shown(opinion, others, top.component), "rule+model", opinion)
    strong = top.root is None or top.root.strength != "weak"
    overrides = opinion.confidence >= needed and (not enough or (not strong and _wins(opinion, top, sure, prior)))
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
