"""Every rule of the shipped set: its samples, its anchors, and that both engines see them alike."""

from __future__ import annotations

import pytest

from classifiers.api import Meaning, Rule
from classifiers.knowledge import load_ruleset
from classifiers.matching import hit_lines, make_engine
from schemas.taxonomy import DECIDING_WORDS, components

RULES = load_ruleset()
#: What meaning() may leave to the engine.
OPEN = DECIDING_WORDS - {"by_xid", "by_exitcode", "by_cuda_error", "by_event", "by_group", "by_nested"}


@pytest.fixture(scope="module")
def engines():
    return make_engine(RULES, "hyperscan"), make_engine(RULES, "re2")


@pytest.mark.parametrize("rule", RULES.rules.values(), ids=lambda r: r.id)
def test_every_rule_finds_its_samples(rule: Rule, engines) -> None:
    for sample in rule.must_match:
        line = f"before\n{sample}\nafter\n".encode()
        fast, slow = (hit_lines(engine, line) for engine in engines)
        assert fast == slow
        assert [(start, stop) for start, stop, _ in fast] == [(7, 7 + len(sample.encode()))]
        ids = fast[0][2]
        assert rule.id in ids
        family = rule.families[0] if rule.families else rule.family
        found = RULES.match(sample, family, ids)
        assert found == RULES.match(sample, family)
        matched = [r.id for r, _ in found]
        # A weak or generic rule gives way where a specific one explains the line.
        assert rule.id in matched or rule.strength == "weak" or "generic" in rule.tags
        for matched_rule, fields in found:
            meaning = RULES.meaning(matched_rule.id, fields)
            assert isinstance(meaning, Meaning)
            assert meaning.component in components() or meaning.component in OPEN, meaning
            assert meaning.alt is None or meaning.alt in components()
            assert meaning.role in {"cause", "symptom", "either", "context", "unknown"}
            assert meaning.severity in {"critical", "error", "warning", "info"}
    for sample in rule.must_not_match:
        assert rule.id not in {r.id for r, _ in RULES.match(sample, rule.family)}


def test_specific_rules_come_first() -> None:
    line = "NVRM: Xid (PCI:0000:4d:00): 45, pid=88231, name=python3, Ch 00000012 caused by previous Xid 94"
    assert [r.id for r, _ in RULES.match(line, "kernel")] == ["nv_xid45_cause"]
    line = (
        "node017:88231:88911 [3] NCCL WARN NET/IB : Got completion from peer 10.1.2.3<45678> with status=12 opcode=0 "
        "len=0 vendor err 129 (Recv)"
    )
    assert [r.id for r, _ in RULES.match(line, "job")] == ["nccl_ib_completion"]


def test_links_name_signals_that_exist() -> None:
    """A glob of a causal link that fits no rule is a slip of the pen."""
    import fnmatch

    signals = {r.signal for r in RULES.rules.values()}
    coded = {"xid.79", "sxid.12028", "nccl.ib_completion.12", "nccl.ib_event.10", "exit.137"}
    for rule in RULES.rules.values():
        for link in rule.links:
            fits = any(fnmatch.fnmatchcase(s, link.cause) for s in signals | coded)
            assert fits or link.cause.startswith(("xid.", "sxid.")), (rule.id, link.cause)


def test_unverified_rows_say_so() -> None:
    assert not RULES.rules["lustre_lbug"].verified
    assert RULES.rules["nv_xid"].verified


def test_families_are_respected() -> None:
    assert not RULES.match("PermissionError: [Errno 13] Permission denied: '/x'", "kernel")
    assert RULES.match("PermissionError: [Errno 13] Permission denied: '/x'", "job")


@pytest.mark.parametrize(
    "line",
    [
        "acme.errors.ShardTorn: no",
        "acme.trainer.errors.ShardError: shard 12 is torn",
        "2026-03-03 04:22:45,123 - trainer - ERROR - giving up",
        "ERROR: cannot go on",
        "panic: everything is lost",
        "worker process exited with exit code 3",
        "Segmentation fault (core dumped)",
        "[rank3]: Traceback (most recent call last):",
    ],
)
def test_failures_that_nobody_knows_survive(line: str, engines) -> None:
    """A failure line of any framework leaves a weak signal (the first sample is no failure line)."""
    found = [r for r, _ in RULES.match(line, "job")]
    if line.endswith(": no"):
        assert not found
        return
    assert found
    assert all(r.strength == "weak" for r in found)
    assert len(hit_lines(engines[0], line.encode())) == 1
