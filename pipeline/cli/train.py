"""`faultbeam train`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.options import examples, format_option, settings, settings_options
from pipeline.cli.output import emit_json, emit_table

if TYPE_CHECKING:
    from pipeline.measuring.training import TrainingResult
    from schemas.settings import Settings


@click.command(
    "train",
    epilog=examples(
        "faultbeam train --warehouse sqlite:///faultbeam.db --out model",
        "faultbeam train --evidence --cases tests/cases/host --cases tests/cases/job --out model",
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
@click.option("--evidence", is_flag=True, help="Train the evidence model instead: on --cases and simulated clusters.")
@click.option(
    "--cases",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="With --evidence: known incidents to train on (see evaluate); repeat for more folders.",
)
@click.option(
    "--clusters/--no-clusters",
    default=True,
    show_default=True,
    help="With --evidence: train on simulated clusters too (about two minutes).",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the split into held-out data.")
@settings_options
@format_option
def command(
    out: Path,
    warehouse: str | None,
    check: Path | None,
    corpus: Path | None,
    evidence: bool,
    cases: tuple[Path, ...],
    clusters: bool,
    seed: int,
    cluster: str | None,
    tz: str | None,
    engine: str | None,
    assignments: tuple[tuple[str, str], ...],
    output_format: str,
) -> None:
    """Train a model, and take it if it is not worse than the one in use.

    The text model reads failure lines that no rule decides. The evidence model (--evidence) says how likely an answer
    is, by the shape of its evidence; it is kept in DIR/evidence. Exit 1 if the new model is worse; then the old one
    stays. Set `model` to the folder to use both.
    """
    from contextlib import nullcontext

    from pipeline.measuring.training import train_model
    from sql.store import open_store

    chosen = settings(cluster, tz, engine, assignments)
    if evidence and (warehouse or corpus):
        msg = "--warehouse and --corpus are for the text model, not for --evidence"
        raise click.UsageError(msg)
    if cases and not evidence:
        msg = "--cases goes with --evidence"
        raise click.UsageError(msg)
    if evidence:
        _evidence(out, chosen, cases, check, clusters, seed, output_format)
        return
    with open_store(warehouse) if warehouse else nullcontext() as store:
        result = train_model(out, chosen, store=store, cluster=cluster, check=check, corpus=corpus, seed=seed)
    if output_format == "json":
        emit_json(
            {
                **_taken(result),
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
        _say_taken(result, f"model {result.version}", out)
    if not result.current:
        sys.exit(1)


def _taken(result: TrainingResult) -> dict[str, Any]:
    return {
        "current": result.current,
        "reasons": list(result.reasons),
        "version": result.version,
        "folder": str(result.folder),
    }


def _say_taken(result: TrainingResult, name: str, folder: Path) -> None:
    """Whether the model was taken, and why."""
    click.echo(f"current: {name} in {folder}" if result.current else f"not taken; {name} stays")
    for reason in result.reasons:
        click.echo(f"  {reason}")


def _evidence(
    out: Path,
    chosen: Settings,
    cases: Sequence[Path],
    check: Path | None,
    clusters: bool,
    seed: int,
    output_format: str,
) -> None:
    from pipeline.measuring.evidence_training import train_evidence_model

    result = train_evidence_model(out, chosen, cases, check=check, seed=seed, clusters=clusters)
    if output_format == "json":
        emit_json(
            {
                **_taken(result),
                "cases": result.labels,
                "card": dict(result.card),
            }
        )
    else:
        emit_table(
            ["held-out subjects", "n", "rules' first", "model's first", "calibration error"],
            [_row(name, score) for name, score in result.card["held_out"].items()],
        )
        points = ", ".join(f"{x:g}: {y:g}" for x, y in result.card["rule_curve"])
        click.echo(f"score of rules to probability  {points}")
        _say_taken(result, f"evidence model {result.version}", result.folder)
    if not result.current:
        sys.exit(1)


def _row(name: str, score: Mapping[str, Any]) -> tuple[object, ...]:
    error = score["calibration"]
    shown = "-" if error["error"] is None else f"{error['error']:.3f} ({error['low']:.3f}-{error['high']:.3f})"
    return (name, score["n"], score["first_right"], score["ranked_right"], shown)
