"""`faultbeam watch DIR`."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import examples, format_option, settings, settings_options, warehouse_option
from pipeline.cli.output import plain

if TYPE_CHECKING:
    from pipeline.watch.entries import Polled
    from pipeline.watch.session import Totals
    from schemas.settings import Settings
    from sql.published import Outgoing


@click.command(
    "watch",
    epilog=examples(
        "faultbeam watch /var/log/cluster --cluster heron --warehouse sqlite:///heron.db",
        "faultbeam watch /var/log/cluster --format json | jq -c .incident.component",
        "faultbeam watch /var/log/cluster --once",
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--once", is_flag=True, help="Read what is there, decide it, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.05),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks at the folder.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long after its end an answer is provisional (default: the setting grace_s).",
)
@warehouse_option()
@settings_options
@format_option
def command(
    folder: str,
    once: bool,
    interval: float,
    grace: float | None,
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Follow the logs of a folder as they grow, and attribute interruptions as they happen.

    No broker is needed. Files are followed through rotation in all its kinds. How far each is read stands in the
    warehouse with the facts, so that this may be killed and started again at any time. With --format json each incident
    that is new, changed or retracted is a line of JSON. This is for one machine that has the logs; for a cluster at
    rate use stream.
    """
    if grace is not None:
        options["assignments"] = (*options.get("assignments", ()), ("grace_s", str(grace)))
    chosen = settings(**options)
    stop = threading.Event()
    from pipeline.watch.signals import stopping

    with stopping(stop):
        _run(folder, chosen, warehouse, output_format, stop, None if once else interval)


def _run(
    folder: str, chosen: Settings, warehouse: str, output_format: str, stop: threading.Event, interval: float | None
) -> None:
    """Watch until told to stop; without an interval, once."""
    from classifiers.knowledge import load_ruleset
    from pipeline.warehouse.live import Decider
    from pipeline.watch.entries import check_folder
    from pipeline.watch.session import Session
    from pipeline.watch.watcher import Watcher
    from sql.store import open_store

    check_folder(folder)
    ruleset = load_ruleset()
    with (
        open_store(warehouse, create=True) as store,
        Watcher(folder, store, chosen, ruleset, stopped=stop.is_set) as watcher,
    ):
        session = Session(
            watcher,
            Decider(store, chosen, ruleset),
            store,
            tell=_json_line if output_format == "json" else _people_line,
            status=_status if sys.stderr.isatty() else _no_status,
            trouble=_trouble,
            stop=stop,
        )
        totals = session.once() if interval is None else session.run(interval)
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    if output_format != "json":
        click.echo(
            f"watched   {totals.files:,} files, {totals.signals:,} folded signals, {totals.decided:,} subjects decided"
            f", {totals.told:,} incidents told"
        )
    if totals.quarantined:
        click.echo(f"unread    {totals.quarantined} parts, see `faultbeam query quarantine`", err=True)
        if interval is None:
            click.get_current_context().exit(3)


def _json_line(message: Outgoing) -> None:
    click.echo(message.message().decode())
    sys.stdout.flush()


def _people_line(message: Outgoing) -> None:
    """One line: what happened, which incident, its cause and the sentence that says why."""
    if message.incident is None:
        heir = f", now {message.replaced_by[:8]}" if message.replaced_by else ""
        click.echo(f"retracted {message.incident_id[:8]}{heir}")
        return
    found = json.loads(message.incident)
    subject = f"job {found['job_id']}" if found.get("job_id") else f"host {found['first_failing'].get('host') or '?'}"
    word = "provisional" if message.provisional else "final"
    click.echo(
        plain(
            f"{message.what:<9} {message.incident_id[:8]}  {subject}  {found['component']} "
            f"({found['confidence']:.2f}, {word})  {found['summary']}"
        )
    )


def _status(totals: Totals, polled: Polled) -> None:
    waiting = f", {totals.provisional} provisional" if totals.provisional else ""
    text = f"watching {totals.files:,} files, {polled.read} changed; {totals.signals:,} signals{waiting}"
    click.echo(f"\r\033[K{text}", nl=False, err=True)


def _no_status(_totals: Totals, _polled: Polled) -> None:
    """Nobody looks at a terminal."""


def _trouble(why: str) -> None:
    click.echo(f"faultbeam: {why} (trying again)", err=True)
