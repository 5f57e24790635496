"""A subject weighed by rules alone: was anything interrupted, by which candidates, how sure. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from classifiers.engine.candidates import Candidate
from classifiers.engine.choose import confidence, gather, rank
from classifiers.engine.explain import before, believed
from classifiers.engine.outcome import Outcome, outcome
from classifiers.engine.resolve import cleared
from schemas.subject import Subject


@dataclass(frozen=True, slots=True)
class Weighed:
    """subject: with its events as they are believed. ranked: the chosen candidate first. sure: its score, 0 to 1, not
    yet a probability. others: (component, score) of rivals, largest first. Empty where nothing was interrupted."""

    subject: Subject
    result: Outcome
    ranked: tuple[Candidate, ...] = ()
    sure: float = 0.0
    others: tuple[tuple[str, float], ...] = ()


def weigh(subject: Subject) -> Weighed:
    """What the rules make of a subject."""
    subject = replace(subject, events=believed(subject.events))
    result = outcome(subject)
    if not result.interrupted:
        return Weighed(subject, result)
    ranked = rank(gather(subject, result), result, hang_seen=_timed_out_before_end(subject))
    sure, others = confidence(ranked)
    return Weighed(subject, result, tuple(ranked), sure, tuple(others))


def _timed_out_before_end(subject: Subject) -> bool:
    cancel = [e for e in subject.events if "cancel" in e.tags]
    timeouts = [e for e in subject.events if "timeout" in e.tags and not cleared(e)]
    return any(not any(before(c, t) is True for c in cancel) for t in timeouts)
