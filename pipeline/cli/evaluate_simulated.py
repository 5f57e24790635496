"""What `evaluate` prints of a simulated cluster, and of accuracy against the evidence window."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.output import emit_json, emit_table, plain

if TYPE_CHECKING:
    from pipeline.measuring.scoring import Share
    from pipeline.measuring.simulated import Reading
    from schemas.settings import Settings


def parse_window(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[float, float], ...]:
    """`--window 600,300`: seconds before and after, each 0 or more."""
    out = []
    for text in value:
        try:
            before, after = (float(part) for part in text.split(","))
        except ValueError:
            before = after = -1.0
        if not (0 <= before < float("inf") and 0 <= after < float("inf")):
            msg = f"{text!r}: expected seconds before and after, as in 600,300"
            raise click.BadParameter(msg)
        out.append((before, after))
    return tuple(out)


def show_simulated(
    folder: Path,
    settings: Settings,
    windows: tuple[tuple[float, float], ...],
    withhold: float,
    seed: int,
    output_format: str,
    *,
    verbose: bool,
) -> float:
    """Print the score of a simulated cluster; the share of acceptable answers (the smallest over the windows)."""
    from pipeline.measuring.simulated import read

    readings = read(folder, settings, windows, withhold, seed)
    if output_format == "json":
        emit_json(
            {
                "schema": "faultbeam.evaluation-simulated/1",
                "withhold_host_logs": withhold,
                "readings": [
                    {
                        "window_before_s": r.window_before_s,
                        "window_after_s": r.window_after_s,
                        "withheld_hosts": r.withheld_hosts,
                        **r.score.as_dict(verdicts=verbose),
                    }
                    for r in readings
                ],
            }
        )
    elif len(readings) > 1:
        _sweep(readings)
    else:
        _one(readings[0], verbose=verbose)
    return min(r.score.accuracy.value or 0.0 for r in readings)


def _share(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f} ({share.k}/{share.n}, {share.low:.2f}-{share.high:.2f})"


def _short(share: Share) -> str:
    return "-" if share.value is None else f"{share.k}/{share.n} {share.low:.2f}-{share.high:.2f}"


def _sweep(readings: list[Reading]) -> None:
    emit_table(
        ["before", "after", "accuracy", "precision when answering", "abstained", "host", "wrong and sure"],
        [
            (
                r.window_before_s,
                r.window_after_s,
                _short(r.score.accuracy),
                _short(r.score.named),
                _short(r.score.abstained),
                _short(r.score.host_top1),
                r.score.wrong_sure,
            )
            for r in readings
        ],
    )


def _one(reading: Reading, *, verbose: bool) -> None:
    from pipeline.cli.evaluate import verdict_lines

    found = reading.score
    if verbose:
        for line in verdict_lines(found.report):
            click.echo(line)
        click.echo()
    click.echo(f"attempts                  {found.attempts}")
    click.echo(f"accuracy                  {_share(found.accuracy)}   (acceptable; strict {_share(found.strict)})")
    click.echo(f"precision when answering  {_share(found.named)}")
    click.echo(f"abstained                 {_share(found.abstained)}   (of those whose cause has a name)")
    click.echo(f"first failing host        {_share(found.host_top1)}")
    click.echo(f"  where one is named      {_share(found.host_top1_named)}")
    click.echo(f"wrong and sure            {found.wrong_sure}   (a named component, confidence 0.8 or more)")
    if found.hidden["attempts"]:
        h = found.hidden
        counts = f"{h['abstained']} abstained, {h['right']} right, {h['wrong']} wrong"
        click.echo(f"host's log missing        {h['attempts']} attempts: {counts}")
    click.echo(f"incidents of no attempt   {found.stray}")
    click.echo(f"faults of other hosts     {found.host_faults}\n")
    emit_table(
        ["component", "attempts", "right", "abstained", "host"],
        [(c.component, c.support, _short(c.right), c.abstained, _short(c.host)) for c in found.by_component],
    )
    wrong = [v for v in found.report.verdicts if not v.acceptable]
    if wrong and not verbose:
        click.echo("\nnot acceptable")
        emit_table(
            ["attempt", "expected", "answer", "confidence", "cause"],
            [(v.case, v.expected, v.answer, v.confidence, plain(v.cause)) for v in wrong[:40]],
        )


def show_windows(
    folder: Path, settings: Settings, windows: tuple[tuple[float, float], ...], output_format: str
) -> float:
    """Score the cases of a folder once for each evidence window; the smallest share of acceptable answers."""
    from pipeline.measuring.evaluate import default_diagnose, evaluate

    rows = []
    for before, after in windows:
        over = settings.model_dump() | {"window_before_s": before, "window_after_s": after}
        rows.append((before, after, evaluate(folder, default_diagnose(**over))))
    if output_format == "json":
        emit_json(
            {
                "schema": "faultbeam.evaluation-windows/1",
                "readings": [
                    {"window_before_s": b, "window_after_s": a, **report.as_dict(verdicts=False)}
                    for b, a, report in rows
                ],
            }
        )
    else:
        emit_table(
            ["before", "after", "strict", "acceptable", "abstained", "missed", "false alarms", "wrong and sure"],
            [
                (b, a, _short(r.strict), _short(r.acceptable), r.abstained, r.missed, r.false_alarms, r.wrong_sure)
                for b, a, r in rows
            ],
        )
    return min(report.acceptable.value or 0.0 for _, _, report in rows)
