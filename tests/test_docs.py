"""Documents are run: the examples of CONTRIBUTING, the commands of README and docs, and the links between them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import types
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.cli.main import COMMANDS, cli
from pipeline.formats.base import LineFormat, registry
from tests.conftest import ROOT
from tests.pipeline.formats.framing import as_json, frames

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)\)")


def _blocks(path: Path, language: str) -> list[str]:
    return [body for kind, body in _BLOCK.findall(path.read_text(encoding="utf-8")) if kind == language]


def _contributing(language: str) -> tuple[str, str]:
    """(path named in the first line, the rest) of the one block of this language."""
    (body,) = _blocks(ROOT / "CONTRIBUTING.md", language)
    first, rest = body.split("\n", 1)
    return first.removeprefix("# "), rest


def _shown_commands() -> list[tuple[str, list[str]]]:
    found = []
    for path in DOCS:
        for block in _blocks(path, "console"):
            for line in block.splitlines():
                if line.startswith("$ ") and "faultbeam" in line:
                    words = shlex.split(line[2:])
                    found.append((path.name, words[1:]))
    return found


@pytest.mark.parametrize("path", DOCS, ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path):
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCS, ids=lambda p: p.name)
def test_commands_that_are_named_exist(path: Path):
    for name in re.findall(r"`(?:\S*/)?faultbeam ([a-z]+)", path.read_text(encoding="utf-8")):
        assert name in COMMANDS, name


@pytest.mark.parametrize(("path", "words"), _shown_commands(), ids=lambda v: " ".join(v) if isinstance(v, list) else v)
def test_shown_commands_parse(path: str, words: list[str]):
    """Every option and argument of a shown command is one that the command has."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None
    rest = words[1:]
    if isinstance(command, click.Group):
        command = command.get_command(context, rest[0])
        assert command is not None
        rest = rest[1:]
    values = ["." if word == "DIR" else word for word in rest]
    command.make_context("faultbeam", values, resilient_parsing=False)


def test_the_readme_shows_the_two_commands():
    blocks = [line for block in _blocks(ROOT / "README.md", "console") for line in block.splitlines()]
    assert blocks[:2] == ["$ make demo", "$ make test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


@pytest.fixture
def knowledge(tmp_path: Path) -> Path:
    """A copy of the knowledge to add a rule to."""
    target = tmp_path / "knowledge"
    shutil.copytree(ROOT / "classifiers" / "knowledge", target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return target


def _run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_the_signal_of_contributing_works_in_one_file(knowledge: Path):
    place, text = _contributing("toml")
    target = knowledge / Path(place).relative_to("classifiers/knowledge")
    assert not target.exists(), "the example must be a rule that is not there yet"
    before = json.loads((knowledge / "rules.lock.json").read_text())["number"]
    target.write_text(text)
    code, output = _run("rules", "lint", "--knowledge", str(knowledge))
    assert code == 1, "an unlocked rule must fail the lint"
    assert "pdu_breaker" in output
    assert _run("rules", "lock", "--knowledge", str(knowledge)) == (0, f"ruleset {before + 1}\n")
    assert _run("rules", "test", "pdu_breaker", "--knowledge", str(knowledge)) == (0, "2 samples, 0 failed\n")
    code, output = _run("rules", "lint", "--knowledge", str(knowledge))
    assert code == 0, output
    code, output = _run(
        "rules", "test", "--text", "Outlet 3 breaker tripped", "--format", "json", "--knowledge", str(knowledge)
    )
    (hit,) = json.loads(output)
    assert (hit["rule"], hit["component"]) == ("pdu_breaker", "host.power")


def test_the_format_of_contributing_works_in_one_module_and_two_files(monkeypatch: pytest.MonkeyPatch):
    place, code = _contributing("python")
    assert place == "pipeline/formats/rack_controller.py"
    module = types.ModuleType("rack_controller")
    monkeypatch.setitem(sys.modules, "rack_controller", module)
    exec(compile(code, place, "exec"), module.__dict__)
    (fmt,) = module.FORMATS
    assert isinstance(fmt, LineFormat)
    sample_place, sample = _contributing("text")
    assert sample_place == f"tests/pipeline/formats/samples/{fmt.name}/breaker.in"
    data = sample.encode().removesuffix(b"\n")
    score = fmt.sniff(data, "rack7.log")
    assert score > max(other.sniff(data, "rack7.log") for other in registry().values())
    (expected,) = _blocks(ROOT / "CONTRIBUTING.md", "json")
    assert [as_json(fmt, line, n, frame) for n, line, frame in frames(fmt, data)] == json.loads(expected)


def test_every_setting_is_documented_with_its_default():
    from schemas.settings import Settings

    rows = [line for line in (ROOT / "docs" / "settings.md").read_text().splitlines() if line.startswith("| `")]
    assert rows == [f"| `{n}` | `{f.default}` | {f.description} |" for n, f in Settings.model_fields.items()]


def test_every_format_that_is_documented_exists():
    rows = [line for line in (ROOT / "docs" / "formats.md").read_text().splitlines() if line.startswith("| ")]
    named = {name for row in rows[1:] for name in re.findall(r"`([^`]+)`", row.split("|")[2])}
    assert named == set(registry())


def test_every_format_says_where_it_was_seen_and_has_samples():
    rows = [line for line in (ROOT / "docs" / "formats.md").read_text().splitlines() if line.startswith("| ")]
    for row in rows[1:]:
        _, _, names, what, where, _ = row.split("|")
        assert what.strip(), row
        assert where.strip() or names.strip() == "`text`", row
    samples = ROOT / "tests" / "pipeline" / "formats" / "samples"
    for name in registry():
        pairs = [path for path in (samples / name).glob("*.in") if path.with_suffix(".json").exists()]
        assert pairs or name == "text", f"{name} has no pair of samples"


def test_documented_fields_are_those_of_the_document():
    from schemas.diagnosis import EvidenceDoc, IncidentDoc

    text = (ROOT / "docs" / "json.md").read_text()
    incident, evidence = text.split("## An incident")[1].split("## Evidence")
    rows = [line.split("|")[1] for line in incident.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(IncidentDoc.model_fields)
    assert set(EvidenceDoc.model_fields) <= set(re.findall(r"`(\w+)`", evidence))


def test_documented_columns_exist():
    from sql.models import metadata
    from sql.views import views

    text = (ROOT / "docs" / "columns.md").read_text()
    views_text = " ".join(views().values())
    for line in text.splitlines():
        if line.startswith("| `"):
            _, columns, tables, *_ = line.split("|")
            for column in re.findall(r"`(\w+)`", columns):
                for table in [t.strip() for t in tables.split(",") if t.strip() not in ("all", "incidents")]:
                    assert column in metadata.tables[table].c, f"{table}.{column}"
                assert re.search(rf"\b{column}\b", views_text) or "incidents" not in tables, column
