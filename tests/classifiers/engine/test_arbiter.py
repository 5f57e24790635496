"""When a model is asked, with which lines, and what its word is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from classifiers.api import Opinion
from classifiers.calibration import probability
from classifiers.engine import decide
from classifiers.engine.arbiter import MARGIN, excerpt
from classifiers.engine.evidence import NAMES
from classifiers.priors import PriorError
from schemas.settings import Settings
from schemas.subject import Decision, Event, Subject
from tests.classifiers.engine.build import event, run, said, subject

WEAK = {"strength": "weak", "role": "symptom", "tags": frozenset({"exception"}), "fatal": "maybe"}
#: An exception that no rule knows: the rules take it, weakly, for the program's own.
UNKNOWN_ERROR = said("weak_exception", "by_log", 1, text="x.StoreError: gone", fields=(("t", "StoreError"),), **WEAK)
#: A line that says nothing to the rules.
WORDS = said("weak_level", "by_log", 1, text="CRITICAL something of the store", **WEAK)


@dataclass
class Fixed:
    """A scorer of one opinion that keeps what it was asked."""

    said: Opinion | None
    version: str = "7"
    prior: Mapping[str, float] = field(default_factory=dict)
    asked: list[list[str]] = field(default_factory=list)

    def opinion(self, texts: Sequence[str]) -> Opinion | None:
        self.asked.append(list(texts))
        return self.said if texts else None


def thinks(component: str, confidence: float, *others: tuple[str, float]) -> Fixed:
    return Fixed(Opinion(component, "some_cause", confidence, others, 0))


def answer(s: Subject, scorer: Fixed | None, **settings: object) -> Decision:
    return decide(s, Settings(**settings), 7, scorer)


def test_rules_and_model_agree():
    d = answer(subject(UNKNOWN_ERROR), thinks("software.bug", 0.9, ("dependency", 0.06)))
    assert (d.component, d.confidence, d.decided_by) == ("software.bug", 0.9, "rule+model")
    assert ("dependency", 0.06) in d.alternatives
    assert any("text model: software.bug (0.90)" in step for step in d.why)


def test_a_surer_model_outweighs_a_generic_line_and_the_rule_is_shown():
    alone = answer(subject(UNKNOWN_ERROR), None)
    assert (alone.component, alone.decided_by) == ("software.bug", "rule")
    d = answer(subject(UNKNOWN_ERROR), thinks("dependency", 0.8))
    assert (d.component, d.cause, d.confidence, d.decided_by) == ("dependency", "some_cause", 0.8, "model")
    assert d.alternatives == (("software.bug", 0.2),)
    assert [i.event.id for i in d.evidence if i.role == "root"] == [UNKNOWN_ERROR.id]


def test_a_model_that_is_not_sure_enough_is_only_shown():
    d = answer(subject(UNKNOWN_ERROR), thinks("dependency", 0.54))
    assert (d.component, d.decided_by) == ("software.bug", "rule")
    assert [name for name, _ in d.alternatives] == ["dependency"]
    assert d.alternatives[0][1] == pytest.approx(1 - d.confidence, abs=0.01), "what the answer leaves, and not more"
    lower = answer(subject(UNKNOWN_ERROR), thinks("dependency", 0.54), model_threshold=0.5)
    assert (lower.component, lower.decided_by) == ("dependency", "model")


def test_what_only_the_model_knows():
    assert answer(subject(WORDS), None).component == "unknown"
    assert answer(subject(WORDS), thinks("dependency", 0.8)).component == "dependency"
    assert answer(subject(WORDS), thinks("dependency", 0.8), threshold=0.85).component == "unknown"
    assert answer(subject(WORDS), thinks("unknown", 0.9)).component == "unknown"


@pytest.mark.parametrize(
    "strong",
    [
        event("xid.79", "gpu.device", 0),
        event("dimm", "host.memory", 0, role="either"),
        said("enospc", "software.bug", 0),
    ],
)
def test_a_strong_rule_decides_and_the_model_is_not_asked(strong: Event):
    scorer = thinks("dependency", 0.99)
    d = answer(subject(strong, UNKNOWN_ERROR), scorer)
    assert (d.component, d.decided_by) == (strong.component, "rule")
    assert scorer.asked == []
    assert replace(d, model_version="") == answer(subject(strong, UNKNOWN_ERROR), None)


def test_a_light_strong_rule_is_not_overridden_while_it_is_sure_enough():
    light = event("odd", "host.cpu", 0, fatal="n", severity="error", family="syslog")
    scorer = thinks("dependency", 0.95)
    s = subject(replace(light, fatal="maybe", severity="warning"), WORDS)
    d = answer(s, scorer)
    assert d.component == "host.cpu"
    assert scorer.asked, "its weight is below one half, so the model is asked"
    assert dict(d.alternatives)["dependency"] > 0


def test_nothing_interrupted_stays_nothing_whatever_the_model_says():
    scorer = thinks("gpu.hbm", 0.99)
    done = subject(UNKNOWN_ERROR, run=run(state="COMPLETED", success=True, exit_code=0))
    d = answer(done, scorer)
    assert not d.incident
    assert scorer.asked == []
    assert d.model_version == "7"


def test_the_model_reads_what_came_before_the_first_time_out():
    timeout = said("watchdog", "unknown.nccl_timeout", 5, role="symptom", tags=frozenset({"timeout"}))
    late = said("weak_level", "by_log", 21, text="CRITICAL later", **WEAK)
    scorer = thinks("dependency", 0.9)
    answer(subject(late, timeout, WORDS), scorer)
    assert scorer.asked == [["CRITICAL something of the store"]]
    assert answer(subject(late, timeout), thinks("dependency", 0.9)).component == "unknown.nccl_timeout"


def test_cleared_lines_and_heads_of_tracebacks_are_not_read():
    head = replace(WORDS, id="head", text="Traceback", tags=frozenset({"traceback"}))
    old = replace(WORDS, id="old", text="CRITICAL but training went on", progress_after=50)
    twin = replace(WORDS, id="twin", offset=WORDS.offset + 5)
    assert excerpt([head, old, twin, WORDS]) == (WORDS,)


def test_the_order_of_events_does_not_matter():
    second = replace(WORDS, id="b", text="CRITICAL and more", t=(WORDS.t or 0) + 1, offset=WORDS.offset + 9)
    scorer = thinks("dependency", 0.9)
    assert answer(subject(WORDS, second), scorer) == answer(subject(second, WORDS), scorer)
    assert scorer.asked[0] == scorer.asked[1]


def test_a_prior_breaks_ties_only():
    a = event("a", "host.ssd", 0, fatal="n", role="cause", family="syslog", device="disk:sda")
    b = event("b", "gpu.hbm", 0, fatal="n", role="cause", family="syslog", device="pci:0000:01:00")
    a, b = (replace(e, fatal="maybe", severity="warning") for e in (a, b))
    uniform = answer(subject(a, b), None, threshold=0.1)
    preferred = answer(subject(a, b), None, threshold=0.1, prior="llama3")
    assert preferred.component == "gpu.hbm"
    assert answer(subject(a, b), None, threshold=0.1, prior="none") == uniform
    labels = Fixed(None, prior={"host.ssd": 1.0})
    assert answer(subject(a, b), labels, threshold=0.1, prior="labels").component == "host.ssd"
    heavy = replace(a, severity="error", fatal="y")
    assert answer(subject(heavy, b), None, prior="llama3").component == "host.ssd"


def test_an_unknown_prior_is_named():
    with pytest.raises(PriorError, match="'mars'"):
        answer(subject(WORDS), None, prior="mars")


def test_the_text_alone_can_be_measured():
    d = answer(subject(event("xid.79", "gpu.device", 0)), thinks("gpu.hbm", 0.9), opinions="text")
    assert (d.component, d.decided_by) == ("gpu.hbm", "model")
    assert (
        answer(subject(event("xid.79", "gpu.device", 0)), thinks("gpu.hbm", 0.4), opinions="text").component
        == "unknown"
    )


def test_a_bare_kill_is_not_for_a_model_to_read():
    """The line repeats the command and nothing else: who killed it is not in it."""
    words = "job.sh: line 9: 4727 Killed   python fit.py --layers 3"
    killed = said("exit.137", "by_log", 1, role="symptom", fatal="maybe", tags=frozenset({"exit_code"}), text=words)
    scorer = thinks("software.bug", 0.9)
    d = answer(subject(killed), scorer)
    assert (d.component, d.decided_by) == ("unknown", "rule")
    assert scorer.asked == []
    assert answer(subject(killed, UNKNOWN_ERROR), thinks("dependency", 0.9)).component == "dependency"


@dataclass
class Ranks:
    """An evidence model that gives the same chances to every subject's candidates, in the rules' order."""

    chances: tuple[float, ...]
    version: str = "3"
    asked: list[list[tuple[float, ...]]] = field(default_factory=list)

    def probabilities(self, rows: Sequence[Sequence[float]]) -> list[float]:
        self.asked.append([tuple(row) for row in rows])
        return list(self.chances[: len(rows)])


def ranked(s: Subject, chances: Sequence[float], scorer: Fixed | None = None, **settings: object) -> Decision:
    return decide(s, Settings(**settings), 7, scorer, Ranks(tuple(chances)))


DISK = event("disk_gone", "host.ssd", -3, family="syslog", device="disk:sda")
CARD = event("xid.79", "gpu.device", 0, device="pci:0000:01:00")


def test_the_evidence_model_says_how_sure_an_answer_is():
    d = ranked(subject(CARD, DISK), (0.71, 0.2))
    assert (d.component, d.confidence, d.decided_by, d.model_version) == ("host.ssd", 0.71, "rule", "3")
    assert d.alternatives == (("gpu.device", 0.2),)
    assert d.why[-1] == "evidence model: host.ssd (0.71)"
    assert ranked(subject(CARD, DISK), (0.71, 0.2), thinks("dependency", 0.9)).model_version == "7.3"


def test_an_answer_below_the_threshold_is_taken_back():
    d = ranked(subject(CARD), (0.49,))
    assert (d.component, d.confidence) == ("unknown", 0.51)
    assert "evidence model: gpu.device (0.49)" in d.why
    assert ranked(subject(CARD), (0.49,), threshold=0.4).component == "gpu.device"
    assert ranked(subject(CARD), (0.79,), threshold=0.8).component == "unknown"


def test_another_candidate_goes_first_only_by_a_margin():
    assert ranked(subject(CARD, DISK), (0.5, 0.5 + MARGIN / 2)).component == "host.ssd"
    d = ranked(subject(CARD, DISK), (0.2, 0.7))
    assert (d.component, d.confidence, d.decided_by) == ("gpu.device", 0.7, "model")
    assert ("host.ssd", 0.2) in d.alternatives
    assert [i.event.id for i in d.evidence if i.role == "root"] == [CARD.id]


def test_an_explicit_statement_is_not_put_aside():
    stopped = subject(CARD, run=run(state="PREEMPTED", exit_code=None))
    d = ranked(stopped, (0.6, 0.9))
    assert (d.component, d.confidence) == ("scheduler.preempted", 0.6)


def test_the_evidence_model_makes_no_answer_and_no_incident():
    assert ranked(subject(WORDS), (0.99,)).component == "unknown"
    model = Ranks((0.99,))
    done = subject(CARD, run=run(state="COMPLETED", success=True, exit_code=0))
    assert not decide(done, Settings(), 7, None, model).incident
    assert model.asked == []


def test_the_evidence_alone_can_be_measured():
    d = ranked(subject(CARD, DISK), (0.3, 0.6), opinions="evidence")
    assert (d.component, d.confidence, d.decided_by) == ("gpu.device", 0.6, "model")
    assert d.alternatives == (("host.ssd", 0.3),)
    assert ranked(subject(CARD, DISK), (0.3, 0.4), opinions="evidence").component == "unknown"
    assert decide(subject(CARD), Settings(opinions="evidence"), 7).component == "unknown"


def test_rows_do_not_depend_on_the_order_of_events():
    a, b = Ranks((0.5, 0.3, 0.1)), Ranks((0.5, 0.3, 0.1))
    decide(subject(CARD, DISK, UNKNOWN_ERROR), Settings(), 7, None, a)
    decide(subject(UNKNOWN_ERROR, DISK, CARD), Settings(), 7, None, b)
    assert a.asked == b.asked
    assert {len(row) for row in a.asked[0]} == {len(NAMES)}


def test_the_rules_score_is_shown_as_a_probability():
    """Never falling, and an answer at the default threshold is more likely right than not."""
    scores = [probability(n / 100) for n in range(101)]
    assert all(a <= b for a, b in pairwise(scores))
    assert 0.0 <= scores[0] < scores[28] < Settings().threshold <= scores[35]
    assert max(scores) == 0.97
