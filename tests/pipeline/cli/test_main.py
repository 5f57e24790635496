"""The command group: what it lists, what it imports, how it fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.cli.main import COMMANDS, cli
from pipeline.errors import InputError

HEAVY = ("apache_beam", "sklearn", "sqlalchemy", "pydantic", "rich", "numpy", "hyperscan", "alembic", "yaml")


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_listing_the_commands_imports_nothing_heavy():
    code = (
        "from pipeline.cli.main import cli\ntry:\n    cli(['--help'])\nexcept SystemExit as e:\n    assert e.code == 0"
    )
    loaded = _modules_after(code)
    assert loaded & set(HEAVY) == set()
    assert not any(m.startswith("pipeline.cli.") and m != "pipeline.cli.main" for m in loaded)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_importing_a_command_imports_nothing_heavy(name: str):
    loaded = _modules_after(f"import pipeline.cli.{COMMANDS[name][0]}")
    assert loaded & set(HEAVY) == set()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_what_it_does_and_gives_an_example(name: str):
    command = _command(name)
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ").strip() == COMMANDS[name][1]
    parts = [command, *command.commands.values()] if isinstance(command, click.Group) else [command]
    for part in parts:
        assert part.help, part.name
        assert "Example" in (part.epilog or ""), part.name
        assert f"faultbeam {name}" in (part.epilog or ""), part.name
        for param in part.params:
            if isinstance(param, click.Option):
                assert param.help, f"{part.name} {param.name}"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command_is_shown(name: str):
    done = CliRunner().invoke(cli, [name, "--help"])
    assert done.exit_code == 0
    assert "Usage:" in done.output


def test_the_list_of_commands_is_whole():
    done = CliRunner().invoke(cli, ["--help"])
    assert done.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in done.output
        assert line.split()[0] in done.output


def test_a_mistyped_command_is_wrong_use_and_gets_a_hint():
    done = CliRunner().invoke(cli, ["diagnoze", "x"])
    assert done.exit_code == 2
    assert "Did you mean 'diagnose'?" in done.output


def test_an_error_that_faultbeam_names_is_one_paragraph(monkeypatch: pytest.MonkeyPatch):
    import pipeline.doctor

    def fail() -> int:
        msg = "lock.json: not JSON at line 3; run faultbeam rules lock"
        raise InputError(msg)

    monkeypatch.setattr(pipeline.doctor, "ruleset_number", fail)
    done = CliRunner().invoke(cli, ["version"])
    assert done.exit_code == 2
    assert done.output == "faultbeam: lock.json: not JSON at line 3; run faultbeam rules lock\n"


def test_version_names_the_ruleset():
    from classifiers.knowledge import lock_number

    done = CliRunner().invoke(cli, ["version", "--format", "json"])
    assert json.loads(done.output) == {"faultbeam": "0.1.0", "ruleset": lock_number()}


def test_text_that_the_terminal_cannot_show_does_not_stop_an_answer(repository: Path):
    code = "from pipeline.cli.main import main\nimport sys\nsys.argv = ['faultbeam', 'version']\n"
    code += "import pipeline.cli.version as v\nfrom pipeline.cli.output import emit_table\n"
    code += "v.command.callback = lambda **_: emit_table(['text'], [('\\udc80 \\u2603',)])\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(repository)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\udc80 \\u2603" in done.stdout
