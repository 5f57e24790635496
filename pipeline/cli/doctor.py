"""`faultbeam doctor`."""

from __future__ import annotations

from dataclasses import asdict

import click

from pipeline.cli.options import examples, format_option, warehouse_option
from pipeline.cli.output import emit_json, emit_table


@click.command(
    "doctor",
    epilog=examples(
        "faultbeam doctor --warehouse postgresql+psycopg://me@db/faultbeam",
        "faultbeam doctor --stream --bootstrap-servers kafka:9092 --topic logs",
    ),
)
@warehouse_option()
@click.option("--stream", is_flag=True, help="Look closely at what a stream needs: client, broker, topics, runner.")
@click.option("--bootstrap-servers", metavar="HOST:PORT,...", help="Kafka brokers to ask, with --stream.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Topic, or ^PATTERN, that the stream will read.")
@click.option(
    "--consumer-config",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Settings of the Kafka client: name=value lines, or JSON.",
)
@click.option("--prism-location", type=click.Path(dir_okay=False), metavar="FILE", help="Beam's Prism runner.")
@format_option
def command(
    warehouse: str,
    stream: bool,
    bootstrap_servers: str | None,
    topics: tuple[str, ...],
    consumer_config: str | None,
    prism_location: str | None,
    output_format: str,
) -> None:
    """Check that this machine is set up right.

    Exit 1 if something required is missing. Nothing is installed or changed.
    """
    from pipeline.doctor import run_checks

    given = {"--bootstrap-servers": bootstrap_servers, "--topic": topics, "--consumer-config": consumer_config}
    if not stream and (alone := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{', '.join(alone)} is for --stream")
    checks = run_checks(warehouse, stream=not stream)
    if stream:
        from pipeline.stream.checks import check_stream

        checks += check_stream(_client_settings(bootstrap_servers, consumer_config), topics, prism_location)
    failed = [c for c in checks if c.level == "fail"]
    if output_format == "json":
        emit_json({"ok": not failed, "checks": [asdict(c) for c in checks]})
    else:
        emit_table(["check", "", "found", "next step"], [(c.name, c.level, c.found, c.hint) for c in checks])
        notes = sum(c.level == "note" for c in checks)
        click.echo(f"\n{len(failed)} failed, {notes} optional parts not there")
    if failed:
        click.get_current_context().exit(1)


def _client_settings(bootstrap_servers: str | None, consumer_config: str | None) -> dict[str, str]:
    from pipeline.stream.client import read_client_config

    found = read_client_config(consumer_config) if consumer_config else {}
    return {**found, "bootstrap.servers": bootstrap_servers} if bootstrap_servers else found
