"""Whether a machine that is not set up right is seen."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from pipeline import doctor
from pipeline.doctor import check_warehouse, run_checks


def _named(name: str) -> doctor.Check:
    return next(c for c in run_checks() if c.name == name)


def test_here_nothing_required_is_missing():
    assert [c for c in run_checks() if c.level == "fail"] == []


def test_a_package_that_is_missing_or_too_old_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    wanted = ["no-such-package-at-all>=1", "click>=99", 'altair>=5; extra == "report"', "rich>=13"]
    monkeypatch.setattr(doctor, "requires", lambda name: wanted)
    found = {c.name: c for c in run_checks() if c.name.startswith("package ")}
    assert set(found) == {"package click", "package no-such-package-at-all", "package rich"}
    assert found["package no-such-package-at-all"].level == "fail"
    assert found["package click"].level == "fail"
    assert found["package click"].hint == "pip install 'click>=99'"
    assert found["package rich"].level == "ok"


def test_one_engine_is_enough_and_none_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    assert _named("engine hyperscan").level == "note"
    assert not [c for c in run_checks() if c.name == "engine"]
    monkeypatch.setitem(sys.modules, "re2", None)
    assert _named("engine").level == "fail"


def test_a_package_of_another_distribution_under_our_name_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"sql": ["faultbeam", "ipython-sql"]})
    check = _named("name sql")
    assert check.level == "fail"
    assert "ipython-sql" in check.found


def test_a_module_elsewhere_that_hides_ours_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    other = types.ModuleType("schemas")
    other.__file__ = str(tmp_path / "schemas" / "__init__.py")
    real = doctor.import_module
    monkeypatch.setattr(doctor, "import_module", lambda name: other if name == "schemas" else real(name))
    check = _named("name schemas")
    assert check.level == "fail"
    assert str(tmp_path) in check.found


def test_a_cache_that_cannot_be_written_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "cache").write_text("a file, not a folder")
    monkeypatch.setattr("classifiers.knowledge.files.cache_dir", lambda: tmp_path / "cache")
    assert _named("cache").level == "note"


def test_a_broken_lock_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    from classifiers.errors import RuleError

    def broken() -> None:
        raise RuleError("x.toml", "has no pattern")

    monkeypatch.setattr("classifiers.knowledge.load_ruleset", broken)
    check = _named("ruleset")
    assert check.level == "fail"
    assert "x.toml" in check.found


def test_tools_of_the_stream_are_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {c.level for c in run_checks() if c.name.startswith("stream: ") and c.name != "stream: confluent-kafka"} == {
        "note"
    }


@pytest.mark.parametrize(
    ("url", "level", "says"),
    [
        ("not a url", "fail", "not a database URL"),
        ("sqlite:////nowhere/at/all.db", "note", "not there yet"),
        ("mysql://u:secret@h/db", "fail", "mysql"),
        ("postgresql://u:secret@127.0.0.1:1/db", "fail", "127.0.0.1"),
    ],
)
def test_a_warehouse_that_cannot_be_used(url: str, level: str, says: str):
    check = check_warehouse(url)
    assert check.level == level
    assert says in check.found
    assert "secret" not in check.found


def test_a_warehouse_by_its_schema(tmp_path: Path):
    import sqlite3

    from sql.migrations import upgrade

    url = f"sqlite:///{tmp_path / 'w.db'}"
    upgrade(url)
    assert check_warehouse(url).level == "ok"
    bare = tmp_path / "bare.db"
    sqlite3.connect(bare).execute("CREATE TABLE x (y)").connection.close()
    assert check_warehouse(f"sqlite:///{bare}").hint == "faultbeam db upgrade"
