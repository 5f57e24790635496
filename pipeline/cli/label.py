"""`faultbeam label INCIDENT --component ID`."""

from __future__ import annotations

import getpass
import os

import click

from pipeline.cli.options import examples, format_option, warehouse_option
from pipeline.cli.output import emit_json


def _user() -> str:
    """Who is at the keyboard; `FAULTBEAM_USER` overrides it (containers often have no user name)."""
    try:
        return os.environ.get("FAULTBEAM_USER") or getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


@click.command(
    "label",
    epilog=examples('faultbeam label 3f9a2c --component net.nic --note "adapter replaced, ticket 118"'),
)
@click.argument("incident", metavar="INCIDENT")
@click.option("--component", required=True, metavar="ID", help="The component that it was, like gpu.hbm.")
@click.option("--note", default="", help="Why; whoever reads it later will be glad of it.")
@click.option("--who", default=_user, show_default="the user's name", help="Who says so.")
@warehouse_option()
@format_option
def command(incident: str, component: str, note: str, who: str, warehouse: str, output_format: str) -> None:
    """Record a reviewer's word on an incident; it wins over any decision.

    INCIDENT is an id or its beginning. The label is kept when the incident is decided again.
    """
    from sql.store import open_store

    with open_store(warehouse) as store:
        label = store.add_label(incident, component, note=note, who=who)
    if output_format == "json":
        emit_json({"incident_id": label.incident_id, "component": component, "note": note, "who": who})
    else:
        click.echo(f"{label.incident_id}: {component}, says {who}")
