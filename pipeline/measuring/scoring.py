"""How good answers are: a pure function from cases with known causes and the answers given to them to a report.

Words. The *answer* to a case is the component of its first incident, `none` if there is none. *Strict*: it is the
expected one. *Acceptable*: it is one that a reviewer would let stand. *Abstained*: `unknown` or a refinement of it.
*Missed*: no incident where one is expected. *False alarm*: a named component outside the acceptable ones where nothing
was interrupted. *Wrong and sure*: a named component outside the acceptable ones with confidence 0.8 or more.
*Extra*: incidents beyond the first.

Intervals are Wilson's score intervals at 95 % (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from schemas.identity import short_host
from schemas.taxonomy import NONE, UNKNOWN, is_named

#: From which confidence on a wrong named answer counts as wrong and sure.
SURE = 0.8
#: Counts of Table 5 of arXiv 2407.21783 in the paper's order; the first row is "Faulty GPU".
TABLE5_COUNTS = (148, 72, 54, 35, 32, 19, 17, 7, 7, 6, 6, 3, 3, 2, 2, 2, 2, 2)
_Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Place:
    """Where the first failure was, as far as it is known."""

    host: str | None = None
    gpu: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reviewer says of one case. `acceptable` holds `component` too."""

    case: str
    component: str
    acceptable: frozenset[str]
    decidable: str = ""
    first_failing: Place = Place()


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to one case. `error`: the case could not be run; then it counts as wrong."""

    case: str
    component: str
    confidence: float | None = None
    cause: str = ""
    first_failing: Place = Place()
    incidents: int = 0
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """k of n with Wilson's 95 % interval; value and interval are None for n = 0."""

    k: int
    n: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One expected component: how many cases, how many of them right, and how far its name can be trusted."""

    component: str
    support: int
    strict: Share
    acceptable: Share
    answered: int  # how often this component was the answer, over all cases
    precision: Share  # of those, strictly right


@dataclass(frozen=True, slots=True)
class Constant:
    """How a fixed answer would have scored on the same cases."""

    answer: str
    strict: Share
    acceptable: Share


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case judged."""

    case: str
    expected: str
    answer: str
    confidence: float | None
    cause: str
    strict: bool
    acceptable: bool
    missed: bool
    false_alarm: bool
    wrong_sure: bool
    extra: int
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """All figures of one evaluation."""

    cases: int
    strict: Share
    acceptable: Share
    macro_f1: float
    abstained: int
    missed: int
    extra_incidents: int
    false_alarms: int
    wrong_sure: int
    errors: int
    slowest_s: float
    first_failing: dict[str, Share]  # `all`, `host`, `gpu`, `rank`
    by_class: list[ClassScore]
    by_decidable: dict[str, dict[str, Share]]
    best_constant_strict: Constant
    best_constant_acceptable: Constant
    none_else_unknown: Constant
    table5_constant: dict[str, float]
    verdicts: list[Verdict]

    def as_dict(self, *, verdicts: bool = True) -> dict[str, object]:
        """The report as plain data for JSON, with its schema's name."""
        data = asdict(self)
        if not verdicts:
            del data["verdicts"]
        return {"schema": "faultbeam.evaluation/1", **data}


def wilson(k: int, n: int) -> Share:
    """k successes of n with the 95 % score interval."""
    if n == 0:
        return Share(0, 0, None, None, None)
    p = k / n
    z2 = _Z95 * _Z95
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Share(k, n, p, max(0.0, centre - half), min(1.0, centre + half))


def macro_f1(pairs: Iterable[tuple[str, str]]) -> float:
    """Mean F1 over the classes that are expected at least once, from (expected, answered) pairs."""
    seen = list(pairs)
    expected = Counter(e for e, _ in seen)
    answered = Counter(a for _, a in seen)
    right = Counter(e for e, a in seen if e == a)
    if not expected:
        return 0.0
    return sum(2 * right[c] / (expected[c] + answered[c]) for c in expected) / len(expected)


def table5_constant() -> dict[str, float]:
    """Accuracy and macro-F1 of always answering "Faulty GPU" on Table 5: 0.353 and 0.029."""
    pairs = [(str(row), "0") for row, n in enumerate(TABLE5_COUNTS) for _ in range(n)]
    return {"accuracy": TABLE5_COUNTS[0] / sum(TABLE5_COUNTS), "macro_f1": macro_f1(pairs)}


def judge(expected: Expected, answer: Answer) -> Verdict:
    """One answer against one case."""
    ran = not answer.error
    acceptable = ran and answer.component in (expected.acceptable | {expected.component})
    named = ran and is_named(answer.component)
    return Verdict(
        case=expected.case,
        expected=expected.component,
        answer=answer.component,
        confidence=answer.confidence,
        cause=answer.cause,
        strict=ran and answer.component == expected.component,
        acceptable=acceptable,
        missed=answer.component == NONE and expected.component != NONE and not acceptable,
        false_alarm=named and expected.component == NONE and not acceptable,
        wrong_sure=named and not acceptable and (answer.confidence or 0.0) >= SURE,
        extra=max(0, answer.incidents - 1),
        seconds=answer.seconds,
        error=answer.error,
    )


def _constant(name: str, expected: Sequence[Expected], answer: Callable[[Expected], str]) -> Constant:
    given = [(e, answer(e)) for e in expected]
    return Constant(
        answer=name,
        strict=wilson(sum(a == e.component for e, a in given), len(given)),
        acceptable=wilson(sum(a in (e.acceptable | {e.component}) for e, a in given), len(given)),
    )


def _always(component: str) -> Callable[[Expected], str]:
    return lambda _: component


def _best_constant(expected: Sequence[Expected], measure: Callable[[Constant], int]) -> Constant:
    """The constant answer with the most hits; among equals the first by name."""
    candidates = sorted({c for e in expected for c in (e.acceptable | {e.component})})
    constants = [_constant(c, expected, _always(c)) for c in candidates]
    return max(constants, key=measure, default=Constant(UNKNOWN, wilson(0, 0), wilson(0, 0)))


def _first_failing(expected: Sequence[Expected], answers: Mapping[str, Answer]) -> dict[str, Share]:
    hits: dict[str, list[bool]] = {"host": [], "gpu": [], "rank": []}
    for case in expected:
        want, got = case.first_failing, answers[case.case].first_failing
        if want.host is not None:
            hits["host"].append(got.host is not None and short_host(got.host) == short_host(want.host))
        if want.gpu is not None:
            hits["gpu"].append(got.gpu == want.gpu)
        if want.rank is not None:
            hits["rank"].append(got.rank == want.rank)
    every = [hit for field in hits.values() for hit in field]
    return {name: wilson(sum(h), len(h)) for name, h in {"all": every, **hits}.items()}


def _by_class(verdicts: Sequence[Verdict]) -> list[ClassScore]:
    support = Counter(v.expected for v in verdicts)
    scores = []
    for component in sorted(support, key=lambda c: (-support[c], c)):
        own = [v for v in verdicts if v.expected == component]
        given = [v for v in verdicts if v.answer == component and not v.error]
        scores.append(
            ClassScore(
                component=component,
                support=len(own),
                strict=wilson(sum(v.strict for v in own), len(own)),
                acceptable=wilson(sum(v.acceptable for v in own), len(own)),
                answered=len(given),
                precision=wilson(sum(v.strict for v in given), len(given)),
            )
        )
    return scores


def _by_decidable(expected: Sequence[Expected], verdicts: Sequence[Verdict]) -> dict[str, dict[str, Share]]:
    groups: dict[str, list[Verdict]] = {}
    for case, verdict in zip(expected, verdicts, strict=True):
        groups.setdefault(case.decidable or "not said", []).append(verdict)
    return {
        name: {
            "strict": wilson(sum(v.strict for v in held), len(held)),
            "acceptable": wilson(sum(v.acceptable for v in held), len(held)),
        }
        for name, held in sorted(groups.items())
    }


def score(expected: Sequence[Expected], answers: Iterable[Answer]) -> Report:
    """Judge every case. Each case has exactly one answer, found by the case's name; `KeyError` names one without."""
    by_case = {a.case: a for a in answers}
    verdicts = [judge(e, by_case[e.case]) for e in expected]
    n = len(verdicts)
    return Report(
        cases=n,
        strict=wilson(sum(v.strict for v in verdicts), n),
        acceptable=wilson(sum(v.acceptable for v in verdicts), n),
        macro_f1=macro_f1((v.expected, v.answer if not v.error else "error") for v in verdicts),
        abstained=sum(v.answer.startswith(UNKNOWN) for v in verdicts),
        missed=sum(v.missed for v in verdicts),
        extra_incidents=sum(v.extra for v in verdicts),
        false_alarms=sum(v.false_alarm for v in verdicts),
        wrong_sure=sum(v.wrong_sure for v in verdicts),
        errors=sum(bool(v.error) for v in verdicts),
        slowest_s=max((v.seconds for v in verdicts), default=0.0),
        first_failing=_first_failing(expected, by_case),
        by_class=_by_class(verdicts),
        by_decidable=_by_decidable(expected, verdicts),
        best_constant_strict=_best_constant(expected, lambda c: c.strict.k),
        best_constant_acceptable=_best_constant(expected, lambda c: c.acceptable.k),
        none_else_unknown=_constant(
            "none where none, else unknown", expected, lambda e: NONE if e.component == NONE else UNKNOWN
        ),
        table5_constant=table5_constant(),
        verdicts=verdicts,
    )
