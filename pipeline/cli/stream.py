"""`faultbeam stream`."""

from __future__ import annotations

import signal
from typing import Any

import click

from pipeline.cli.options import beam_option, examples, parse_time, settings, settings_options, warehouse_option


def _start(_ctx: click.Context, _param: click.Parameter, value: str) -> str | int:
    return value if value in ("earliest", "latest") else parse_time(value)


@click.command(
    "stream",
    epilog=examples(
        "faultbeam stream --bootstrap-servers kafka:9092 --topic logs --warehouse postgresql://me@db/faultbeam",
        "faultbeam stream --consumer-config client.properties --topic '^logs[.].*' --incident-topic incidents",
        "faultbeam stream --bootstrap-servers kafka:9092 --topic logs --prism-location /opt/prism --metrics-port 9108",
    ),
)
@click.option("--bootstrap-servers", "servers", metavar="HOST:PORT,...", default="", help="Brokers to ask first.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="NAME",
    help="Topic to read; ^PATTERN for several. Repeat.",
)
@click.option(
    "--consumer-config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    default=None,
    metavar="FILE",
    help="Settings of the Kafka client (properties or JSON): security.protocol, sasl.*, ssl.*, ...",
)
@click.option("--dead-letter-topic", "dead_letters", metavar="NAME", default="", help="Where unreadable messages go.")
@click.option("--incident-topic", "incidents", metavar="NAME", default="", help="Where incidents go, as JSON.")
@click.option(
    "--start",
    callback=_start,
    default="earliest",
    show_default=True,
    metavar="earliest|latest|TIME",
    help="Where partitions begin that were never read.",
)
@click.option(
    "--rewind",
    "rewind_s",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How far a restart goes back before what is durable.",
)
@click.option(
    "--runner", default="prism", show_default=True, help="Beam runner: prism on this machine, PortableRunner."
)
@click.option("--prism-location", metavar="PATH", default="", help="Prism's binary (default: prism on the PATH).")
@click.option(
    "--shards", type=click.IntRange(1), default=1, show_default=True, help="Readers that share the partitions."
)
@click.option(
    "--pass-every",
    "pass_s",
    type=click.FloatRange(1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How often whatever is left undecided is decided.",
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=None, help="Prometheus metrics and /healthz here."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Log lines.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least level that is printed.",
)
@beam_option("job_endpoint=localhost:8099")
@warehouse_option()
@settings_options
def command(
    servers: str,
    topics: tuple[str, ...],
    config_file: str | None,
    log_format: str,
    log_level: str,
    beam_options: tuple[tuple[str, str], ...],
    cluster: str | None,
    tz: str | None,
    engine: str | None,
    assignments: tuple[tuple[str, str], ...],
    **given: Any,  # noqa: ANN401 - options that are named as in the plan
) -> None:
    """Read logs from Kafka without end, and keep the warehouse's incidents up to date.

    A first answer comes about 10 s after a job ended, marked provisional; the final one after the grace (setting
    grace_s). Ends on SIGTERM or Ctrl-C, when what was read is written. A restart goes on where the warehouse is.
    """
    chosen = settings(cluster=cluster, tz=tz, engine=engine, assignments=assignments)
    from pipeline.stream.logs import set_up_logs
    from pipeline.stream.plan import Plan
    from pipeline.stream.supervisor import Supervisor

    set_up_logs(as_json=log_format == "json", level=log_level)
    plan = Plan(
        servers=servers,
        topics=topics,
        config_file=config_file or "",
        settings=chosen,
        pipeline_args=tuple(f"--{name}={value}" for name, value in beam_options),
        json_logs=log_format == "json",
        log_level=log_level.upper(),
        **given,
    )
    supervisor = Supervisor(plan)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: supervisor.stop())
    supervisor.run()
