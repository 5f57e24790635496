"""`faultbeam tickets FILE --mapping MAP.yaml`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import examples, format_option, settings, settings_options, warehouse_option
from pipeline.cli.output import emit_json, emit_table

#: Refusals that are printed; JSON has all.
_SHOWN = 10


@click.command(
    "tickets",
    epilog=examples("faultbeam tickets faults.csv --mapping tickets.yaml --warehouse sqlite:///site.db"),
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--mapping",
    "mapping_file",
    required=True,
    type=click.Path(path_type=Path),
    help="Which field is what (YAML; see docs/tickets.md).",
)
@warehouse_option()
@settings_options
@format_option
def command(
    file: Path,
    mapping_file: Path,
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Load a site's own fault history as labelled incidents.

    FILE is CSV, TSV, JSON or JSON lines, also gzipped. Loading it again changes nothing. Exit code 3: some records were
    refused, the rest was loaded.
    """
    from dataclasses import asdict

    from pipeline.cli.main import EXIT_UNREAD
    from pipeline.warehouse.ticket_load import load_tickets
    from pipeline.warehouse.tickets import TicketError, read_mapping, read_tickets
    from sql.store import open_store

    try:
        data = file.read_bytes()
    except OSError as err:
        raise TicketError(f"{file}: cannot be read: {err.strerror}") from err
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as err:
            raise TicketError(f"{file}: a damaged gzip file: {err}") from err
    mapping, table = read_mapping(mapping_file)
    found = read_tickets(data, mapping, table)
    with open_store(warehouse, create=True) as store:
        loaded = load_tickets(store, settings(**options).cluster, found, who=f"tickets: {file.name}")
    if output_format == "json":
        emit_json({**asdict(loaded), "refusals": [asdict(refusal) for refusal in found.refused]})
    else:
        ranked = sorted(loaded.components.items(), key=lambda item: (-item[1], item[0]))
        emit_table(["component", "faults"], ranked)
        click.echo(
            f"{loaded.records:,} records, {loaded.tickets:,} faults of {loaded.hosts:,} hosts, {loaded.new:,} new, "
            f"{loaded.refused:,} refused"
        )
        for refusal in found.refused[:_SHOWN]:
            click.echo(f"record {refusal.record}: {refusal.reason}", err=True)
    if found.refused:
        click.get_current_context().exit(EXIT_UNREAD)
