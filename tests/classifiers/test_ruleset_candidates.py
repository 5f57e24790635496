"""Finding the rules of a text: anchor by anchor, and by one automaton, must be the same."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from classifiers.knowledge.ruleset import MANY_TEXTS, RulesetImpl

RULES = load_ruleset()
SAMPLES = sorted({sample for rule in RULES.rules.values() for sample in rule.must_match})


def _asked_often() -> RulesetImpl:
    rules = RulesetImpl(RULES.rules.values(), RULES.number, RULES.stamp)
    for _ in range(MANY_TEXTS + 1):
        rules.candidates("")
    return rules


OFTEN = _asked_often()


def test_every_sample_has_the_same_rules_either_way() -> None:
    seldom = RulesetImpl(RULES.rules.values(), RULES.number, RULES.stamp)
    for start in range(0, len(SAMPLES), MANY_TEXTS - 1):
        for sample in SAMPLES[start : start + MANY_TEXTS - 1]:
            assert OFTEN.candidates(sample) == seldom.candidates(sample), sample
        seldom = RulesetImpl(RULES.rules.values(), RULES.number, RULES.stamp)


@given(st.lists(st.one_of(st.sampled_from(SAMPLES), st.text(max_size=40)), min_size=1, max_size=4))
def test_glued_and_foreign_texts_too(parts: list[str]) -> None:
    text = " ".join(parts).replace("\n", " ").replace("\r", " ")
    fresh = RulesetImpl(RULES.rules.values(), RULES.number, RULES.stamp)
    assert OFTEN.candidates(text) == fresh.candidates(text)


def test_a_rule_set_that_was_asked_often_can_still_be_sent_to_a_worker() -> None:
    sent = pickle.loads(pickle.dumps(OFTEN))
    assert sent.candidates(SAMPLES[0]) == OFTEN.candidates(SAMPLES[0])
