"""One bad rule for each lint, and the shipped rules clean."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from classifiers.api import CausalLink, Rule
from classifiers.errors import RuleError
from classifiers.knowledge import load_ruleset
from classifiers.knowledge.files import RULES, parse_rule
from classifiers.knowledge.healthy import healthy_text
from classifiers.lint import Finding, lint_rules, lint_ruleset

GOOD = Rule(
    id="nic_gone",
    signal="nic_gone",
    family="kernel",
    component="net.nic",
    alt=None,
    role="cause",
    severity="critical",
    fatal="y",
    anchors=("acme_nic: adapter gone",),
    pattern=r"acme_nic: adapter gone from (?P<bdf>[0-9a-f:.]{7,12})",
    key=("bdf",),
    meaning="the adapter left the bus",
    action="drain_host",
    action_source="its maker's manual",
    source="its maker's manual",
    must_match=("acme_nic: adapter gone from 0000:3b:00.0",),
    must_not_match=("acme_nic: adapter gone",),
)


def found(rule: Rule, lint: str) -> list[Finding]:
    return [f for f in lint_rules([rule], hot=lint == "hot-anchor") if f.lint == lint]


def test_good_rule_has_no_finding() -> None:
    assert lint_rules([GOOD]) == []


@pytest.mark.parametrize(
    ("lint", "change", "words"),
    [
        ("pattern", {"pattern": "acme_nic: adapter gone(", "key": ()}, "does not compile"),
        ("pattern", {"key": ("host",)}, "not a named group"),
        ("backtracking", {"pattern": r"acme_nic: adapter gone (?:\w+\s?)+x", "key": ()}, "nests"),
        ("backtracking", {"pattern": r"acme_nic: adapter gone (?:a|ab|b)*x", "key": ()}, "alternatives"),
        ("backtracking", {"pattern": r"acme_nic: adapter gone.*a.*b.*c", "key": ()}, "in a row"),
        ("backtracking", {"pattern": r"acme_nic: adapter gone(?= from)", "key": ()}, "look-around"),
        ("backtracking", {"pattern": r"(?P<a>x)acme_nic: adapter gone(?P=a)", "key": ()}, "back-reference"),
        ("engines", {"pattern": r"acme_nic: adapter gone .{1,4000}x", "key": ()}, "refuses"),
        ("anchors", {"anchors": ()}, "no anchor"),
        ("anchors", {"anchors": ("gone",)}, "fewer than 6"),
        ("anchors", {"anchors": ("adapter lost",)}, "no anchor occurs"),
        ("anchors", {"anchors": (r"re:adapter\sgone",)}, "line end"),
        ("anchors", {"anchors": ("re:adapter gone(",)}, "does not compile"),
        ("unshown-anchor", {"anchors": ("acme_nic: adapter gone", "adapter lost")}, "occurs in no sample"),
        (
            "uncovered-way",
            {"pattern": "acme_nic: adapter (?:gone|lost) from (?P<bdf>[0-9a-f:.]{7,12})"},
            "1 of 2 ways",
        ),
        ("samples", {"must_match": ()}, "no must_match"),
        ("samples", {"must_match": ("acme_nic: adapter gone from home",)}, "does not match"),
        ("samples", {"must_not_match": GOOD.must_match}, "must_not_match lists"),
        ("vocabulary", {"component": "net.adapter"}, "neither a taxonomy id"),
        ("vocabulary", {"alt": "by_log"}, "not a taxonomy id"),
        ("vocabulary", {"role": "culprit"}, "role"),
        ("vocabulary", {"severity": "bad"}, "severity"),
        ("vocabulary", {"fatal": "yes"}, "fatal"),
        ("vocabulary", {"action": "pray"}, "action"),
        ("vocabulary", {"tags": frozenset({"odd"})}, "tag 'odd'"),
        ("vocabulary", {"links": (CausalLink("xid.79", "near", 10.0, "x"),)}, "place 'near'"),
        ("vocabulary", {"links": (CausalLink("xid.79", "same_host", 0.0, "x"),)}, "positive"),
        ("source", {"source": " "}, "no source"),
        ("source", {"action_source": ""}, "has no source"),
        ("hot-anchor", {"anchors": ("iteration",), "pattern": "iteration", "key": (), "must_match": ("iteration",),
                        "must_not_match": ()}, "times a MB"),
    ],
)  # fmt: skip
def test_each_lint_finds_its_fault(lint: str, change: dict[str, object], words: str) -> None:
    findings = found(replace(GOOD, **change), lint)  # type: ignore[arg-type]
    assert any(words in f.what for f in findings), findings
    assert all(f.rule == "nic_gone" for f in findings)
    assert "nic_gone" in str(findings[0])


def test_healthy_folder_is_measured_too(tmp_path: Path) -> None:
    (tmp_path / "calm.log").write_text("acme_nic: adapter gone for tea\n" * 50)
    hot = [f for f in lint_rules([GOOD], healthy=tmp_path) if f.lint == "hot-anchor"]
    assert [f.rule for f in hot] == ["nic_gone"]


def test_same_pattern_twice() -> None:
    twin = replace(GOOD, id="nic_lost", signal="nic_lost")
    assert [f.rule for f in lint_rules([GOOD, twin], hot=False) if f.lint == "duplicate"] == ["nic_lost"]
    assert any("2 files" in f.what for f in lint_rules([GOOD, GOOD], hot=False))


def copy_of_the_rules(tmp_path: Path) -> Path:
    root = tmp_path / "knowledge"
    shutil.copytree(RULES.parent, root, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return root / "rules"


def test_shipped_rules_are_clean() -> None:
    """No error of any lint but the lock, which `test_lock` holds."""
    assert [str(f) for f in lint_ruleset(lock=False) if f.severity == "error"] == []


def test_broken_file_and_stale_lock_are_findings(tmp_path: Path) -> None:
    rules = copy_of_the_rules(tmp_path)
    (rules / "nvidia" / "new_rule.toml").write_text('id = "other"\n')
    findings = lint_ruleset(rules)
    assert any(f.lint == "file" and f.rule == "nvidia/new_rule.toml" and "differs" in f.what for f in findings)
    assert any(f.lint == "lock" and "new_rule" in f.what for f in findings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id = ", "not a TOML document"),
        ('id = "x"\nfamily = "kernel"\n', "is missing"),
        ('id = "y"\n', "differs from the file's name"),
    ],
)
def test_bad_rule_files_say_what_and_where(text: str, words: str) -> None:
    with pytest.raises(RuleError, match=words) as caught:
        parse_rule("group/x.toml", text.encode())
    assert str(caught.value).startswith("group/x.toml: ")


def test_unknown_fields_are_refused() -> None:
    good = next(iter(RULES.rglob("nv_xid.toml"))).read_text()
    with pytest.raises(RuleError, match="unknown field 'colour'"):
        parse_rule("nvidia/nv_xid.toml", ('colour = "red"\n' + good).encode())
    with pytest.raises(RuleError, match="list of strings"):
        parse_rule("nvidia/nv_xid.toml", good.replace("tags = [", 'families = "kernel"\ntags = [').encode())


def test_healthy_text_is_the_same_each_time() -> None:
    assert healthy_text(1 << 16) == healthy_text(1 << 16)
    assert len(healthy_text(1 << 16)) >= 1 << 16
    assert healthy_text(1 << 16) != healthy_text(1 << 16, seed=1)


def test_healthy_text_gives_no_strong_signal() -> None:
    rules = load_ruleset()
    for line in healthy_text(1 << 18).decode().splitlines():
        strong = [r.id for r, _ in rules.match(line, "job") if r.strength == "strong" and r.fatal != "n"]
        assert not strong, (line, strong)
