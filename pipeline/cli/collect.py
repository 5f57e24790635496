"""`faultbeam collect --job ID`: what is missing, as commands to paste."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import examples, format_option, settings, settings_options, warehouse_option
from pipeline.cli.output import emit_json, plain

if TYPE_CHECKING:
    from schemas.diagnosis import IncidentDoc, NotSeenDoc

#: A host that may stand in a command line. Names come from logs; `-oProxyCommand=...` is not a host.
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")


@click.command(
    "collect",
    epilog=examples("faultbeam collect --job 4711", "faultbeam collect --job 4711 slurm-4711.out > fetch.sh"),
)
@click.option("--job", metavar="ID", required=True, help="The job whose evidence is incomplete.")
@click.argument("paths", metavar="[PATH...]", nargs=-1)
@warehouse_option()
@settings_options
@format_option
def command(
    job: str,
    paths: tuple[str, ...],
    warehouse: str,
    output_format: str,
    **options: Any,  # noqa: ANN401 - the shared settings options
) -> None:
    """Print the commands that fetch missing evidence, host by host.

    Nothing is run. The job is looked up in the warehouse, or in PATHs where some are given.
    """
    chosen = settings(**options)
    if paths:
        from pipeline.diagnose import diagnose

        incidents = diagnose(list(paths), chosen, job=job).document.incidents
    else:
        from pipeline.document import incident
        from sql.store import open_store

        with open_store(warehouse) as store:
            incidents = [incident(d) for d in store.list_decisions(options["cluster"], job_id=job)]
    if not incidents:
        place = "these logs" if paths else warehouse
        msg = f"no incident of job {job!r} in {place}; `faultbeam diagnose PATH --job {job}` says what there is"
        raise click.UsageError(msg)
    gaps = missing(incidents)
    if output_format == "json":
        emit_json([gap.model_dump(by_alias=True) for gap in gaps])
        return
    for line in script_lines(job, gaps):
        click.echo(line)


def missing(incidents: Iterable[IncidentDoc]) -> list[NotSeenDoc]:
    """Everything that was not seen, once each, by host."""
    seen: dict[tuple[str, str, str], NotSeenDoc] = {}
    for item in incidents:
        for gap in item.not_seen:
            seen.setdefault((gap.host or "", gap.what, gap.get), gap)
    return [gap for _, gap in sorted(seen.items())]


def script_lines(job: str, gaps: Iterable[NotSeenDoc]) -> Iterator[str]:
    """A shell script: a comment on each gap, then the command, run on its host through ssh."""
    held = list(gaps)
    if not held:
        yield f"# nothing is missing for job {plain(job)}: every log that could bear on it was seen"
    for gap in held:
        period = f", {gap.from_ or '...'} to {gap.to or '...'}" if gap.from_ or gap.to else ""
        yield f"# {plain(gap.host) or 'anywhere'}: {plain(gap.what)}{period}"
        command = plain(gap.get)
        if not command:
            yield "# no command is known for it"
        elif gap.host is None or command.startswith("ssh "):
            yield command
        elif _HOST.fullmatch(gap.host):
            target = re.sub(r"[^A-Za-z0-9.]+", "-", f"{gap.host}-{gap.what}").strip("-")
            yield f"ssh {gap.host} {shlex.quote(command)} > {target}.log"
        else:
            yield "# the host's name cannot stand in a command; run this on it:"
            yield f"# {command}"
