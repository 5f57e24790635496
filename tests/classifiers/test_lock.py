"""The lock rises with every change of rules or tables, and a stale one is seen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from classifiers.errors import RuleError
from classifiers.knowledge import load_ruleset, lock_number
from classifiers.knowledge.files import ROOT
from classifiers.lock import LOCK, check_lock, read_lock, update_lock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy = tmp_path / "knowledge"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    update_lock(copy)
    return copy


def test_shipped_lock_holds() -> None:
    assert check_lock() == []
    assert load_ruleset().number == lock_number() == read_lock()["number"] > 0


def test_no_change_no_new_number(root: Path) -> None:
    before = (root / LOCK).read_bytes()
    assert update_lock(root) == lock_number(root)
    assert (root / LOCK).read_bytes() == before
    assert check_lock(root) == []


def test_changed_rule_raises_number_and_version(root: Path) -> None:
    number = lock_number(root)
    path = root / "rules" / "nvidia" / "nv_xid.toml"
    version = read_lock(root)["rules"]["nv_xid"]["version"]
    path.write_text(path.read_text() + "# reviewed\n")
    assert "rule nv_xid changed since it was locked" in check_lock(root)
    assert update_lock(root) == number + 1
    assert read_lock(root)["rules"]["nv_xid"]["version"] == version + 1
    assert check_lock(root) == []


def test_changed_table_raises_the_number(root: Path) -> None:
    number = lock_number(root)
    table = root / "tables" / "xid.tsv"
    table.write_text(table.read_text().replace("fallen off the bus", "left the bus"))
    assert check_lock(root) == ["table xid.tsv differs from the lock"]
    assert update_lock(root) == number + 1


def test_added_and_removed_rules_are_seen(root: Path) -> None:
    (root / "rules" / "nvidia" / "nv_dbe.toml").rename(root / "rules" / "nvidia" / "nv_double.toml")
    problems = check_lock(root)
    assert "rule nv_double is not in the lock" in problems
    assert "rule nv_dbe is in the lock, but its file is gone" in problems


def test_windows_line_ends_change_nothing(root: Path) -> None:
    path = root / "rules" / "nvidia" / "nv_dbe.toml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check_lock(root) == []


def test_pack_gives_the_rules_of_the_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("classifiers.knowledge.files.cache_dir", lambda: root / "cache")
    packed = load_ruleset(root / "rules")
    (root / "rules.pack.json").unlink()
    load_ruleset.cache_clear()
    parsed = load_ruleset(root / "rules")
    load_ruleset.cache_clear()
    assert list(packed.rules.items()) == list(parsed.rules.items())
    assert (packed.stamp, packed.number) == (parsed.stamp, parsed.number)
    assert list((root / "cache").glob("rules-*.json"))


def test_old_pack_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("classifiers.knowledge.files.cache_dir", lambda: root / "cache")
    path = root / "rules" / "nvidia" / "nv_dbe.toml"
    path.write_text(path.read_text().replace('severity = "critical"', 'severity = "warning"'))
    assert load_ruleset(root / "rules").rules["nv_dbe"].severity == "warning"
    load_ruleset.cache_clear()


def test_damaged_lock_says_what_to_do(root: Path) -> None:
    (root / LOCK).write_text("{")
    with pytest.raises(RuleError, match="update_lock"):
        check_lock(root)
    (root / LOCK).write_text(json.dumps({"rules": {}}))
    with pytest.raises(RuleError, match="no number"):
        check_lock(root)
    (root / LOCK).unlink()
    assert update_lock(root) == 1
