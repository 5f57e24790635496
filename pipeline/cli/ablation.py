"""What `evaluate --ablate` and `--without-family` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.output import emit_json, emit_table
from schemas.settings import Settings

if TYPE_CHECKING:
    from classifiers.calibration import Calibration
    from pipeline.measuring.ablation import Part, WithoutFamily
    from pipeline.measuring.scoring import Share

#: Confidences at which coverage and precision are printed.
_STEPS = (0.35, 0.5, 0.6, 0.7, 0.8, 0.9)


def show_ablation(folder: Path, settings: Settings, output_format: str, picture: Path | None) -> None:
    """Rules alone, each model alone, all: scores, calibration, coverage against precision."""
    from pipeline.measuring.ablation import ablate, as_dict

    parts = ablate(folder, settings)
    if picture is not None:
        draw(parts, picture)
    if output_format == "json":
        emit_json(as_dict(parts))
        return
    emit_table(
        ["opinion", "strict", "acceptable", "precision", "false alarms", "wrong and sure", "calibration error"],
        [
            (
                p.name,
                _share(p.report.strict),
                _share(p.report.acceptable),
                _share(p.precision),
                p.report.false_alarms,
                p.report.wrong_sure,
                _error(p.calibration),
            )
            for p in parts
        ],
    )
    click.echo("\ncoverage and precision if only answers with at least this confidence are given")
    emit_table(
        ["confidence", *(p.name for p in parts)],
        [(f"{step:.2f}", *(_at(p, step) for p in parts)) for step in _STEPS],
    )


def _error(found: Calibration) -> str:
    return "-" if found.error is None else f"{found.error:.3f} {found.low:.2f}-{found.high:.2f} (n {found.n})"


def _at(part: Part, step: float) -> str:
    kept = [point for point in part.curve if point[0] >= step]
    return "no answer" if not kept else f"{kept[-1][1]:.2f} of cases, {kept[-1][2]:.2f} right"


def _share(share: Share) -> str:
    return "-" if share.value is None else f"{share.k}/{share.n} {share.low:.2f}-{share.high:.2f}"


def show_without(folder: Path, families: Sequence[str], settings: Settings, output_format: str) -> None:
    """The cases of rule families with their rules off."""
    from pipeline.measuring.ablation import leave_out

    found = [leave_out(folder, family, settings, muted=muted) for family in families for muted in (False, True)]
    if output_format == "json":
        emit_json({"schema": "faultbeam.leave-family-out/1", "families": [asdict(f) for f in found]})
        return
    emit_table(
        [
            "family",
            "rules",
            "",
            "cases",
            *(f"{name}: {what}" for name in ("text", "all") for what in ("right", "precision")),
        ],
        [_row(f) for f in found],
    )
    for family in found:
        if not family.muted:
            continue
        for case, (expected, answer, confidence) in sorted(family.answers.items()):
            shown = "" if confidence is None else f"{confidence:.2f}"
            click.echo(f"  {family.family}: {case}: expected {expected}, text model {answer} {shown}".rstrip())


def _row(found: WithoutFamily) -> tuple[object, ...]:
    shares = [_share(share) for name in ("text", "all") for share in found.by_part[name]]
    return (found.family, found.rules_off, "muted" if found.muted else "off", len(found.cases), *shares)


def draw(parts: Sequence[Part], path: Path) -> None:
    """Coverage against precision as a picture (svg, png, html by the path's ending). Needs the extra [report]."""
    from pipeline.measuring.evaluate import EvaluationError

    try:
        import altair
    except ImportError:
        msg = f"{path}: a picture needs altair; pip install 'faultbeam[report]', or leave --picture away"
        raise EvaluationError(msg) from None
    rows = [
        {"opinion": p.name, "confidence": t, "coverage": coverage, "precision": precision}
        for p in parts
        for t, coverage, precision in p.curve
    ]
    chart = (
        altair.Chart({"values": rows})
        .mark_line(point=True, interpolate="step-after")
        .encode(
            x=altair.X("coverage:Q", scale=altair.Scale(domain=[0, 1]), title="cases answered"),
            y=altair.Y("precision:Q", scale=altair.Scale(domain=[0, 1]), title="answers that are acceptable"),
            color=altair.Color("opinion:N", sort=[p.name for p in parts]),
            tooltip=["opinion:N", "confidence:Q", "coverage:Q", "precision:Q"],
        )
    )
    chart.save(str(path))
