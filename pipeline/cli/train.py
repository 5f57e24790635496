"""`faultbeam train`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pipeline.cli.options import examples, format_option, settings, settings_options
from pipeline.cli.output import emit_json


@click.command(
    "train",
    epilog=examples(
        "faultbeam train --warehouse sqlite:///faultbeam.db --out model",
        "FAULTBEAM_MODEL=model faultbeam diagnose slurm-4711.out",
    ),
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the model; one that is there already is replaced only by one that is not worse.",
)
@click.option("--warehouse", metavar="URL", envvar="FAULTBEAM_WAREHOUSE", help="A warehouse whose labels are used too.")
@click.option(
    "--check",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Known incidents (see evaluate) on which the new model must not be worse either.",
)
@click.option(
    "--corpus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of *.tsv to train on instead of the corpus that comes with faultbeam.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the split into held-out templates.")
@settings_options
@format_option
def command(
    out: Path,
    warehouse: str | None,
    check: Path | None,
    corpus: Path | None,
    seed: int,
    cluster: str | None,
    tz: str | None,
    engine: str | None,
    assignments: tuple[tuple[str, str], ...],
    output_format: str,
) -> None:
    """Train the text model, and take it if it is not worse than the one in use.

    It reads failure lines that no rule decides. Exit 1 if the new model is worse; then the old one stays. Set `model`
    to the folder to use it.
    """
    from contextlib import nullcontext

    from pipeline.measuring.training import train_model
    from sql.store import open_store

    chosen = settings(cluster, tz, engine, assignments)
    with open_store(warehouse) if warehouse else nullcontext() as store:
        result = train_model(out, chosen, store=store, cluster=cluster, check=check, corpus=corpus, seed=seed)
    if output_format == "json":
        emit_json(
            {
                "current": result.current,
                "reasons": list(result.reasons),
                "version": result.version,
                "folder": str(result.folder),
                "labels": result.labels,
                "label_lines": result.label_lines,
                "card": {k: v for k, v in result.card.items() if k != "classes"},
            }
        )
    else:
        held = result.card["held_out_templates"]
        error = held["calibration"]
        click.echo(f"held-out templates  right {held['right']} of {held['n']} ({held['accuracy']:.3f})")
        click.echo(f"sure (0.5 or more)  right {held['sure_right']} of {held['sure']}")
        click.echo(
            f"calibration error   {error['error']:.3f} ({error['low']:.3f}-{error['high']:.3f}, n = {error['n']})"
        )
        click.echo(f"labels              {result.labels} incidents, {result.label_lines} lines")
        word = (
            f"current: model {result.version} in {out}"
            if result.current
            else f"not taken; model {result.version} stays"
        )
        click.echo("\n".join([word, *(f"  {reason}" for reason in result.reasons)]))
    if not result.current:
        sys.exit(1)
