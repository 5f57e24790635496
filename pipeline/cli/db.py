"""`faultbeam db upgrade|check|sweep`."""

from __future__ import annotations

from dataclasses import asdict

import click

from pipeline.cli.options import examples, format_option, warehouse_option
from pipeline.cli.output import emit_json


@click.group("db", epilog=examples("faultbeam db upgrade --warehouse postgresql://me@db/faultbeam"))
def command() -> None:
    """Create, upgrade or check the warehouse's schema; forget what a stream needs no more."""


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


@command.command("sweep", epilog=examples("faultbeam db sweep --keep-days 14"))
@warehouse_option()
@click.option("--cluster", metavar="NAME", default="default", show_default=True, help="Cluster whose rows are swept.")
@click.option("--keep-days", type=click.FloatRange(min=0.0), default=7.0, show_default=True, help="What stays.")
@format_option
def sweep_command(warehouse: str, cluster: str, keep_days: float, output_format: str) -> None:
    """Forget what a stream needs no more: sets of counted lines, marks, delivered messages. No answer changes.

    Keep as many days as a line may come again: the retention of the topics.
    """
    from sql.housekeeping import sweep
    from sql.store import open_store

    with open_store(warehouse) as store:
        swept = sweep(store, cluster, keep_days * 86400.0)
    if output_format == "json":
        emit_json(asdict(swept))
    else:
        click.echo(f"forgot {swept.lines} sets of lines, {swept.marks} marks, {swept.messages} messages")
