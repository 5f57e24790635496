"""`faultbeam simulate OUT`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import examples
from pipeline.cli.output import emit_json


@click.command(
    "simulate",
    epilog=examples(
        "faultbeam simulate sim --preset small",
        "faultbeam simulate big --preset llama3-54d --site k8s --seed 7",
        "faultbeam simulate sim --check",
    ),
)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--preset", metavar="NAME", default=None, help="small (default), llama3-54d or hsdp-mix.")
@click.option(
    "--settings", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="YAML file of settings."
)
@click.option("--seed", type=int, help="Another seed, another story; equal seeds give equal bytes.")
@click.option("--site", type=click.Choice(["slurm", "k8s"]), help="What kind of site writes the logs.")
@click.option(
    "--wording",
    type=click.Choice(["usual", "other"]),
    help="other: as other versions of the software say it.",
)
@click.option("--days", type=float, help="Length of the simulated time.")
@click.option("--withheld", type=float, metavar="SHARE", help="Share of hosts whose kernel logs never arrive.")
@click.option(
    "--check", "only_check", is_flag=True, help="Only check that an existing OUT leaks no truth; exit 1 if so."
)
def command(
    out: Path,
    preset: str | None,
    file: Path | None,
    seed: int | None,
    site: str | None,
    wording: str | None,
    days: float | None,
    withheld: float | None,
    only_check: bool,
) -> None:
    """Write raw logs of a cluster with known causes, for trying, teaching and load.

    OUT/logs is what to ingest, OUT/truth the answers: one row an attempt, and totals. What such a replay can prove, and
    what not, is in docs/simulate.md.
    """
    from pipeline.simulate import load_settings, simulate
    from pipeline.simulate.run import check

    if only_check:
        found = check(out)
        for line in found:
            click.echo(line)
        click.echo(f"{len(found)} leaks" if found else "no truth in the logs")
        click.get_current_context().exit(1 if found else 0)
    chosen = load_settings(
        preset or (None if file else "small"), file, seed=seed, site=site, wording=wording, days=days, withheld=withheld
    )
    result = simulate(out, chosen)
    emit_json({"logs": str(result.logs), "truth": str(result.truth), "bytes": result.bytes, "totals": result.totals})
