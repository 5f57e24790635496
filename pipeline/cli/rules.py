"""`faultbeam rules list|show|lint|test|lock|suggest`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipeline.cli.options import examples, format_option
from pipeline.cli.output import emit_json, emit_rows, plain
from pipeline.cli.rules_suggest import command as suggest_command

if TYPE_CHECKING:
    from classifiers.api import Rule
    from classifiers.knowledge import RulesetImpl

F = TypeVar("F", bound=Callable[..., Any])


def _folder_option(function: F) -> F:
    return click.option(
        "--knowledge",
        "folder",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder with rules/ and tables/ to look at instead of the installed one.",
    )(function)


def _ruleset(folder: Path | None) -> RulesetImpl:
    from classifiers.knowledge import load_ruleset

    return load_ruleset() if folder is None else load_ruleset(folder / "rules")


@click.group("rules", epilog=examples("faultbeam rules show xid.94"))
def command() -> None:
    """List, show, lint and test the knowledge."""


@command.command("list", epilog=examples("faultbeam rules list --component gpu.hbm"))
@click.option("--component", metavar="ID", help="Only rules for this component or deciding word.")
@click.option("--family", metavar="NAME", help="Only rules of this family, like kernel or job.")
@click.option("--maturity", type=click.Choice(["stable", "incubating", "retired"]), help="Only rules this mature.")
@_folder_option
@format_option
def list_command(
    component: str | None, family: str | None, maturity: str | None, folder: Path | None, output_format: str
) -> None:
    """Name all rules, with what each says."""
    wanted = [
        rule
        for rule in sorted(_ruleset(folder).rules.values(), key=lambda r: (r.family, r.id))
        if (component is None or component in (rule.component, rule.alt))
        and (family is None or rule.family == family)
        and (maturity is None or rule.maturity == maturity)
    ]
    rows = [(r.id, r.family, r.component, r.role, r.maturity, r.meaning) for r in wanted]
    emit_rows(output_format, ["rule", "family", "component", "role", "maturity", "meaning"], rows)


@command.command("show", epilog=examples("faultbeam rules show nv_xid", "faultbeam rules show xid.94"))
@click.argument("name", metavar="RULE|SIGNAL")
@_folder_option
@format_option
def show_command(name: str, folder: Path | None, output_format: str) -> None:
    """Show one rule whole, or what a signal with a code, like xid.94, means."""
    ruleset = _ruleset(folder)
    rules = [_plain_rule(r) for r in ruleset.rules.values() if name in (r.id, r.signal)]
    found = [*rules, *_coded(ruleset, name)]
    if not found:
        import difflib

        names = {r.id for r in ruleset.rules.values()} | {r.signal for r in ruleset.rules.values()}
        near = ", ".join(difflib.get_close_matches(name, sorted(names), n=3))
        msg = f"no rule or signal {name!r}" + (f"; close to it: {near}" if near else "; faultbeam rules list names all")
        raise click.UsageError(msg)
    if output_format == "json":
        emit_json(found)
        return
    for entry in found:
        _print_fields(entry)


def _coded(ruleset: RulesetImpl, name: str) -> list[dict[str, Any]]:
    """What `xid.94`, `sxid.12028` or `exit.137` means: the rule of that kind, given exactly this code."""
    kind, _, code = name.partition(".")
    found = []
    for rule in sorted(ruleset.rules.values(), key=lambda r: (r.signal != kind, r.id)):
        for group in (kind, "code", "status", "wc"):
            if code and f"(?P<{group}>" in rule.pattern:
                meaning = ruleset.meaning(rule.id, {group: code})
                if meaning.signal == name:
                    found.append({"rule": rule.id, **_jsonable(asdict(meaning))})
    return found[:1]


def _plain_rule(rule: Rule) -> dict[str, Any]:
    return _jsonable(asdict(rule))


def _jsonable(data: dict[str, Any]) -> dict[str, Any]:
    return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in data.items()}


def _print_fields(data: dict[str, Any]) -> None:
    for key, value in data.items():
        if value in (None, "", (), []):
            continue
        values: Iterable[object] = value if isinstance(value, list | tuple) else [value]
        for number, item in enumerate(values):
            click.echo(f"{'' if number else key:<16}{plain(item)}")
    click.echo()


@command.command("lint", epilog=examples("faultbeam rules lint", "faultbeam rules lint --fix"))
@click.option("--fix", is_flag=True, help="Write the lock first, as `rules lock` does.")
@click.option(
    "--healthy",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Logs of runs that went well: an anchor must be rare in them too.",
)
@click.option("--warnings", is_flag=True, help="Print warnings too, not only their number.")
@_folder_option
@format_option
def lint_command(fix: bool, healthy: Path | None, warnings: bool, folder: Path | None, output_format: str) -> None:
    """Check every rule: words, samples, anchors, patterns that could backtrack, and the lock.

    Exit 1 on an error; warnings are counted.
    """
    from classifiers.knowledge.files import RULES
    from classifiers.lint import lint_ruleset
    from classifiers.lock import update_lock

    if fix:
        number = update_lock() if folder is None else update_lock(folder)
        click.echo(f"ruleset {number}", err=True)
    findings = lint_ruleset(RULES if folder is None else folder / "rules", healthy)
    errors = sum(finding.severity == "error" for finding in findings)
    if output_format == "json":
        emit_json({"ok": not errors, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            if warnings or finding.severity == "error":
                click.echo(plain(finding))
        rules = "" if errors else f"{len(_ruleset(folder).rules)} rules, "
        click.echo(f"{rules}{errors} errors, {len(findings) - errors} warnings")
    if errors:
        click.get_current_context().exit(1)


@command.command(
    "test",
    epilog=examples("faultbeam rules test", 'faultbeam rules test --text "NVRM: Xid (PCI:0000:4d:00): 79, ..."'),
)
@click.argument("names", metavar="[RULE]...", nargs=-1)
@click.option("--text", help="Say which rules match this line, and what it means.")
@_folder_option
@format_option
def test_command(names: tuple[str, ...], text: str | None, folder: Path | None, output_format: str) -> None:
    """Run the samples of all rules, or of the named ones. Exit 1 if one fails."""
    ruleset = _ruleset(folder)
    if text is not None:
        _match(ruleset, text, output_format)
        return
    unknown = sorted(set(names) - set(ruleset.rules))
    if unknown:
        msg = f"no rule {unknown[0]!r}; faultbeam rules list names all"
        raise click.UsageError(msg)
    failures: list[tuple[str, str, str]] = []
    samples = 0
    for rule in ruleset.rules.values():
        if names and rule.id not in names:
            continue
        pattern = ruleset.pattern(rule.id)
        samples += len(rule.must_match) + len(rule.must_not_match)
        failures += [(rule.id, "must match", s) for s in rule.must_match if pattern.search(s) is None]
        failures += [(rule.id, "must not match", s) for s in rule.must_not_match if pattern.search(s) is not None]
    if output_format == "json":
        emit_json({"ok": not failures, "samples": samples, "failures": failures})
    else:
        for rule_id, what, sample in failures:
            click.echo(f"{rule_id}: {what}: {plain(sample)}")
        click.echo(f"{samples} samples, {len(failures)} failed")
    if failures:
        click.get_current_context().exit(1)


def _match(ruleset: RulesetImpl, text: str, output_format: str) -> None:
    rows = []
    for family in ("kernel", "syslog", "scheduler", "cluster", "job", "bmc", "other"):
        for rule, fields in ruleset.match(text, family):
            meaning = ruleset.meaning(rule.id, fields)
            row = (rule.id, meaning.signal, meaning.component, meaning.role, meaning.device, meaning.meaning)
            if row not in rows:
                rows.append(row)
    if not rows and output_format == "table":
        click.echo("no rule matches this line")
        return
    emit_rows(output_format, ["rule", "signal", "component", "role", "device", "meaning"], rows)


@command.command("lock", epilog=examples("faultbeam rules lock"))
@_folder_option
def lock_command(folder: Path | None) -> None:
    """Write the lock: the ruleset number goes up by one if any rule or table changed."""
    from classifiers.lock import update_lock

    number = update_lock() if folder is None else update_lock(folder)
    click.echo(f"ruleset {number}")


command.add_command(suggest_command)
