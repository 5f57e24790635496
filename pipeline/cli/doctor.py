"""`faultbeam doctor`."""

from __future__ import annotations

from dataclasses import asdict

import click

from pipeline.cli.options import examples, format_option, warehouse_option
from pipeline.cli.output import emit_json, emit_table


@click.command("doctor", epilog=examples("faultbeam doctor --warehouse postgresql+psycopg://me@db/faultbeam"))
@warehouse_option()
@format_option
def command(warehouse: str, output_format: str) -> None:
    """Check that this machine is set up right.

    Exit 1 if something required is missing. Nothing is installed or changed.
    """
    from pipeline.doctor import run_checks

    checks = run_checks(warehouse)
    failed = [c for c in checks if c.level == "fail"]
    if output_format == "json":
        emit_json({"ok": not failed, "checks": [asdict(c) for c in checks]})
    else:
        emit_table(["check", "", "found", "next step"], [(c.name, c.level, c.found, c.hint) for c in checks])
        notes = sum(c.level == "note" for c in checks)
        click.echo(f"\n{len(failed)} failed, {notes} optional parts not there")
    if failed:
        click.get_current_context().exit(1)
