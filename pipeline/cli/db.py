"""`faultbeam db upgrade|check`."""

from __future__ import annotations

from dataclasses import asdict

import click

from pipeline.cli.options import examples, format_option, warehouse_option
from pipeline.cli.output import emit_json


@click.group("db", epilog=examples("faultbeam db upgrade --warehouse postgresql://me@db/faultbeam"))
def command() -> None:
    """Create, upgrade or check the warehouse's schema."""


@command.command("upgrade", epilog=examples("faultbeam db upgrade --warehouse sqlite:///faultbeam.db"))
@warehouse_option()
def upgrade_command(warehouse: str) -> None:
    """Bring the tables and views up to this version; creates them where there are none."""
    from sql.migrations import upgrade

    state = upgrade(warehouse)
    click.echo(f"{state.url}: schema {state.current}, up to date")


@command.command("check", epilog=examples("faultbeam db check || faultbeam db upgrade"))
@warehouse_option()
@format_option
def check_command(warehouse: str, output_format: str) -> None:
    """Exit 1 if the schema is not the one that this version writes, and say what to do."""
    from sql.migrations import check

    state = check(warehouse)
    if output_format == "json":
        emit_json(asdict(state))
    else:
        click.echo(f"{state.url}: schema {state.current}, up to date" if state.ok else state.advice)
    if not state.ok:
        click.get_current_context().exit(1)
