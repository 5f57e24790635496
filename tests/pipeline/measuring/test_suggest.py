"""Drafts of rules from failure lines that no rule explains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from classifiers.knowledge.files import build_rule, parse_rule
from classifiers.matching.backtracking import problems
from classifiers.text.shipped import scorer_for
from pipeline.measuring.suggest import Suggestion, draft, pattern_of, suggest
from pipeline.scanning.mask import template
from pipeline.scanning.scan import scan_paths
from schemas.settings import Settings
from tests.pipeline.cli.conftest import run


def _log(*lines: str) -> str:
    head = "Traceback (most recent call last):\n  File 't.py', line 3, in <module>\n"
    return "".join(f"iteration {i}/9 | loss 2.1\n{head}{line}\n" for i, line in enumerate(lines, start=1))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for job in (1, 2):
        torn = [f"acme.errors.ShardError: shard {job}{i} of group (a+b) is torn at 0x{i}f3a" for i in range(3)]
        (folder / f"slurm-{job}.out").write_text(_log(*torn, "acme.errors.RingError: ring is open"))
    (folder / "slurm-3.out").write_text(_log("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"))
    return folder


def _found(logs: Path) -> list[Suggestion]:
    ruleset = load_ruleset()
    return suggest(scan_paths([logs], Settings(), ruleset).signals, ruleset, scorer_for("shipped"))


def test_lines_are_grouped_by_template_with_counts(logs: Path):
    first, *rest = _found(logs)
    assert first.template == template("acme.errors.ShardError: shard 1 of group (a+b) is torn at 0x1f3a")
    assert (first.count, first.sources) == (6, 2)
    assert first.examples == tuple(
        f"acme.errors.ShardError: shard {job}0 of group (a+b) is torn at 0x0f3a" for job in (1, 2)
    )
    assert first.id == "acme_errors_shard_error_shard"
    assert [s.count for s in rest] == sorted((s.count for s in rest), reverse=True)


def test_lines_with_a_rule_and_heads_of_tracebacks_are_left_out(logs: Path):
    templates = " ".join(s.template for s in _found(logs))
    assert "out of memory" not in templates
    assert "Traceback" not in templates


def test_a_draft_is_a_rule_that_matches_all_of_its_group(logs: Path):
    for found in _found(logs):
        rule = build_rule(parse_rule(f"{found.id}.toml", draft(found).encode()))
        assert rule.maturity == "incubating"
        assert rule.must_match == found.examples
        assert all(re.search(rule.pattern, text) for text in found.examples)
        assert all(rule.anchors[0] in text for text in found.examples)
        assert not list(problems(rule.pattern))


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=150))
def test_the_pattern_of_a_template_matches_its_text(text: str):
    text = " ".join(text.split())
    assert re.search(pattern_of(template(text)), text) is not None


def test_the_command_writes_drafts(tmp_path: Path, logs: Path):
    result = run("rules", "suggest", logs, "--out", tmp_path / "drafts")
    assert result.exit_code == 0
    assert "ShardError" in result.output
    written = sorted((tmp_path / "drafts").glob("*.toml"))
    assert "acme_errors_shard_error_shard.toml" in [p.name for p in written]
    for path in written:
        build_rule(parse_rule(path.name, path.read_bytes()))
    shown = json.loads(run("rules", "suggest", logs, "--format", "json", "--limit", "1").output)
    assert (len(shown), shown[0]["count"]) == (1, 6)


def test_the_command_reads_a_warehouse_too(tmp_path: Path, logs: Path):
    url = f"sqlite:///{tmp_path / 'w.db'}"
    assert run("ingest", logs, "--warehouse", url).exit_code == 0
    from_files = json.loads(run("rules", "suggest", logs, "--format", "json").output)
    assert json.loads(run("rules", "suggest", "--warehouse", url, "--format", "json").output) == from_files


def test_nothing_to_look_at_is_wrong_use(logs: Path):
    assert run("rules", "suggest").exit_code == 2
    assert run("rules", "suggest", logs, "--warehouse", "sqlite:///x.db").exit_code == 2


def test_nothing_unexplained_is_said(tmp_path: Path):
    log = tmp_path / "slurm-1.out"
    log.write_text("iteration 1/9 | loss 2.1\n")
    assert "every failure line is explained" in run("rules", "suggest", log).output
