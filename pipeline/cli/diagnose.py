"""`faultbeam diagnose PATH...`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from pipeline.cli.options import (
    examples,
    format_option,
    parse_time,
    period_options,
    settings,
    settings_options,
    warehouse_option,
)
from pipeline.cli.output import warn_unread


@click.command(
    "diagnose",
    epilog=examples(
        "faultbeam diagnose slurm-4711.out kern.log",
        "journalctl -k -o short-iso | faultbeam diagnose -",
        "faultbeam diagnose logs.tar.gz --job 4711 --format json",
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--job", metavar="ID", help="Only this job.")
@click.option("--host", metavar="H", help="Only what touched this host.")
@click.option("--around", type=parse_time, metavar="TIME", help="Only what was interrupted close to this time.")
@period_options
@warehouse_option(required=False)
@settings_options
@click.option(
    "--fail-on", type=click.Choice(["incident"]), help="Exit 1 if there is an incident (for scripts and health checks)."
)
@format_option
def command(
    paths: tuple[str, ...],
    job: str | None,
    host: str | None,
    around: int | None,
    since: int | None,
    until: int | None,
    warehouse: str | None,
    fail_on: str | None,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Say why a job stopped, or hangs, from its logs.

    PATH is a file, a folder or an archive of logs (gzip, zstd, xz, tar, zip); - reads standard input. The kinds of
    logs are told by their content. The first line of the answer says whether to restart, and without which hosts.
    """
    from pipeline.diagnose import diagnose

    chosen = settings(**options)
    with _history(warehouse) as store:
        result = diagnose(
            list(paths),
            chosen,
            job=job,
            host=host,
            around_us=around,
            since_us=since,
            until_us=until,
            store=store,
        )
    if output_format == "json":
        click.echo(result.document.model_dump_json(by_alias=True, indent=2))
    else:
        from pipeline.cli.render import diagnosis_lines

        for line in diagnosis_lines(result.document):
            click.echo(line)
    unread = warn_unread(result.quarantine)
    if fail_on == "incident" and result.document.incidents:
        click.get_current_context().exit(1)
    if unread:
        click.get_current_context().exit(3)


def _history(warehouse: str | None) -> AbstractContextManager[Any]:
    if warehouse is None:
        return nullcontext(None)
    from sql.store import open_store

    return open_store(warehouse)
