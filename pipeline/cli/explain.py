"""`faultbeam explain INCIDENT [PATH...]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import examples, format_option, settings, settings_options, warehouse_option
from pipeline.cli.output import emit_json

if TYPE_CHECKING:
    from schemas.settings import Settings
    from schemas.subject import Decision
    from sql.store import Store


@click.command(
    "explain",
    epilog=examples("faultbeam explain 3f9a2c", "faultbeam explain 3f9a2c logs.tar.gz    (without a warehouse)"),
)
@click.argument("incident", metavar="INCIDENT")
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@warehouse_option()
@settings_options
@format_option
def command(
    incident: str,
    paths: tuple[str, ...],
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Show the time line of one incident, and why this cause and not the next.

    INCIDENT is an id as `diagnose` and `query` print it, or its beginning. With PATHs the logs are read again and the
    warehouse is left alone.
    """
    chosen = settings(**options)
    if paths:
        decision = _from_paths(incident, paths, chosen)
    else:
        from sql.store import open_store

        with open_store(warehouse) as store:
            decision = _labelled(store, store.read_decision(incident, options["cluster"]))
    if output_format == "json":
        from pipeline.document import incident as document

        emit_json({**document(decision).model_dump(by_alias=True), "reasoning": list(decision.why)})
        return
    from pipeline.cli.timeline import explain_lines

    for line in explain_lines(decision):
        click.echo(line)


def _labelled(store: Store, decision: Decision) -> Decision:
    from pipeline.analyse import with_labels

    return with_labels([decision], store.current_labels())[0]


def _from_paths(incident: str, paths: tuple[str, ...], chosen: Settings) -> Decision:
    from pipeline.diagnose import diagnose

    decisions = diagnose(list(paths), chosen).decisions
    found = [d for d in decisions if d.incident_id.startswith(incident)]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(d.incident_id for d in (found or decisions)) or "none"
    what = "several incidents begin with" if found else "no incident begins with"
    msg = f"{what} {incident!r}; the incidents of these logs are: {ids}"
    raise click.UsageError(msg)
