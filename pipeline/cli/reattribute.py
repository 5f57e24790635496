"""`faultbeam reattribute`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pipeline.cli.options import examples, format_option, period_options, settings, settings_options, warehouse_option
from pipeline.cli.output import emit_json, emit_table


@click.command("reattribute", epilog=examples("faultbeam reattribute --since 2026-03-01"))
@period_options
@warehouse_option()
@settings_options
@format_option
def command(
    since: int | None,
    until: int | None,
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Decide again from stored facts and print what changed.

    For after new rules, other settings or new labels. No log is read.
    """
    from pipeline.warehouse.ingest import reattribute

    result = reattribute(warehouse, settings(**options), since, until)
    if output_format == "json":
        emit_json({"decided": result.decided, "changes": [asdict(change) for change in result]})
        return
    if result.changes:
        emit_table(
            ["incident", "job", "", "was", "is", "confidence"],
            [(c.incident_id, c.job_id, c.what, c.before, c.after, c.confidence) for c in result],
        )
    click.echo(f"{result.decided:,} subjects decided again, {len(result)} incidents changed")
