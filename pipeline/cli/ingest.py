"""`faultbeam ingest PATH...`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import beam_option, examples, format_option, settings, settings_options, warehouse_option
from pipeline.cli.output import emit_json, warn_unread

if TYPE_CHECKING:
    from pipeline.warehouse.ingest import IngestResult, Progress

_STAGES = {"scan": "reading", "load": "loading", "decide": "deciding"}


@click.command(
    "ingest",
    epilog=examples(
        "faultbeam ingest logs.tar.gz --cluster heron",
        "faultbeam ingest /var/log/cluster --warehouse postgresql://me@db/faultbeam",
        "faultbeam ingest logs --beam-option direct_num_workers=2",
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--runner",
    default="FnApiRunner",
    show_default=True,
    help="Beam runner: FnApiRunner on this machine, PortableRunner for a job server.",
)
@beam_option("direct_num_workers=2 or job_endpoint=localhost:8099")
@warehouse_option()
@settings_options
@format_option
def command(
    paths: tuple[str, ...],
    runner: str,
    beam_options: tuple[tuple[str, str], ...],
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Load archived logs into the warehouse and attribute every interruption.

    PATH is a file, a folder or an archive; - reads standard input. Loading the same logs again, in parts or in another
    order gives the same rows.
    """
    chosen = settings(**options)
    _quiet_logging()
    from pipeline.warehouse.ingest import ingest

    arguments = [f"--{name}={value}" for name, value in beam_options]
    with _progress_bar() as progress:
        result = ingest(list(paths), warehouse, chosen, runner, arguments, progress)
    if output_format == "json":
        emit_json(asdict(result))
    else:
        for line in summary_lines(result):
            click.echo(line)
    if warn_unread(result.quarantine):
        click.get_current_context().exit(3)


def summary_lines(result: IngestResult) -> Iterator[str]:
    """What was read, what was decided, what changed, how long it took."""
    took = sum(value for name, value in result.seconds.items() if name != "scan_cpu")
    yield f"read      {result.sources:,} inputs, {result.bytes:,} bytes, {result.signals:,} folded signals"
    yield f"decided   {result.decided:,} subjects, {result.runs:,} job runs in the warehouse"
    words = ("new", "changed", "retracted")
    counts = {word: sum(change.what == word for change in result.changed) for word in words}
    yield f"incidents {', '.join(f'{counts[word]} {word}' for word in words)}"
    if result.quarantine:
        yield f"unread    {len(result.quarantine)} parts, see `faultbeam query quarantine`"
    yield f"took      {took:.1f} s"


def _quiet_logging() -> None:
    """Beam logs through the root logger; what matters comes back as an error."""
    import logging

    logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s", force=True)


@contextmanager
def _progress_bar() -> Iterator[Progress | None]:
    """A bar on standard error where that is a terminal, else nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    from pipeline.cli.output import console

    columns = (TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        tasks["scan"] = bar.add_task(_STAGES["scan"], total=None)

        def show(stage: str, done: int, of: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(_STAGES.get(stage, stage), total=of)
            bar.update(tasks[stage], completed=done, total=of)

        yield show
