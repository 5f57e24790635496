"""`faultbeam evaluate DIR`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.cli.evaluate_simulated import parse_window
from pipeline.cli.options import examples, format_option, settings, settings_options
from pipeline.cli.output import emit_json, emit_table, plain

if TYPE_CHECKING:
    from pipeline.measuring.scoring import Constant, Report, Share, Verdict


@click.command(
    "evaluate",
    epilog=examples(
        "faultbeam evaluate tests/cases --verbose    (each folder in it has logs and a case.json)",
        "faultbeam simulate sim && faultbeam evaluate sim --withhold-host-logs 0.2",
        "faultbeam evaluate sim --window 600,300 --window 60,60 --window 3600,900",
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--verbose", "-v", is_flag=True, help="One line a case: expected, answer, confidence, cause, verdict.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Exit 1 if a smaller share of the answers is acceptable.",
)
@click.option("--ablate", is_flag=True, help="Compare rules alone, each model alone, and all.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --ablate: coverage against precision as .svg, .png or .html.",
)
@click.option(
    "--without-family",
    "families",
    metavar="NAME",
    multiple=True,
    help="Score the cases of a family of job-log rules with its rules off (cuda, nccl, storage, slurm, ...; or every).",
)
@click.option(
    "--window",
    "windows",
    metavar="BEFORE,AFTER",
    multiple=True,
    callback=parse_window,
    help="Evidence window in seconds before the last step and after the end; several: accuracy against window size.",
)
@click.option(
    "--withhold-host-logs",
    "withhold",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Simulated clusters: leave the logs of this share of hosts out.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="With --withhold-host-logs: which hosts these are."
)
@settings_options
@format_option
def command(
    folder: Path,
    verbose: bool,
    fail_under: float | None,
    ablate: bool,
    picture: Path | None,
    families: tuple[str, ...],
    windows: tuple[tuple[float, float], ...],
    withhold: float | None,
    seed: int,
    cluster: str | None,
    tz: str | None,
    engine: str | None,
    assignments: tuple[tuple[str, str], ...],
    output_format: str,
) -> None:
    """Score the attribution on incidents with known causes.

    DIR holds folders with a case.json, or files with a labels_dev.tsv. Each case is copied to a neutral place, so that
    no name gives its answer away. Beside the score stands what fixed answers would get on the same cases. Or DIR is
    what `faultbeam simulate` wrote: then every attempt is held against the plan.
    """
    from pipeline.cli.evaluate_simulated import show_simulated, show_windows
    from pipeline.measuring.evaluate import default_diagnose, evaluate
    from pipeline.measuring.simulated import is_simulation

    chosen = settings(cluster, tz, engine, assignments)
    if picture is not None and not ablate:
        msg = "--picture goes with --ablate"
        raise click.UsageError(msg)
    simulated = is_simulation(folder)
    if withhold is not None and not simulated:
        msg = f"--withhold-host-logs: {folder} is no simulated cluster (expected logs and truth in it)"
        raise click.UsageError(msg)
    if (simulated or windows) and (families or ablate):
        msg = "--ablate and --without-family are for folders of cases, without --window"
        raise click.UsageError(msg)
    if simulated or windows:
        if simulated:
            share = show_simulated(folder, chosen, windows, withhold or 0.0, seed, output_format, verbose=verbose)
        else:
            share = show_windows(folder, chosen, windows, output_format)
        _fail_under(share, fail_under)
        return
    if families:
        from pipeline.cli.ablation import show_without
        from pipeline.measuring.ablation import FAMILIES

        show_without(folder, tuple(FAMILIES) if "every" in families else families, chosen, output_format)
        return
    if ablate:
        from pipeline.cli.ablation import show_ablation

        show_ablation(folder, chosen, output_format, picture)
        return
    report = evaluate(folder, default_diagnose(**chosen.model_dump()), _progress())
    if output_format == "json":
        emit_json(report.as_dict(verdicts=verbose))
    else:
        _print(report, verbose=verbose)
    _fail_under(report.acceptable.value or 0.0, fail_under)


def _fail_under(share: float, least: float | None) -> None:
    if least is not None and share < least:
        click.echo(f"acceptable {share:.3f} is under {least}", err=True)
        click.get_current_context().exit(1)


def _progress() -> Callable[[int, int], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        click.echo(f"\r{done}/{total} cases" + ("\n" if done == total else ""), err=True, nl=False)

    return show


def _share(share: Share) -> str:
    if share.value is None:
        return "-"
    return f"{share.value:.3f} ({share.k}/{share.n}, {share.low:.2f}-{share.high:.2f})"


def _short(share: Share) -> str:
    """`13/15 0.62-0.96`: hits, cases and the interval."""
    return "-" if share.value is None else f"{share.k}/{share.n} {share.low:.2f}-{share.high:.2f}"


def verdict_lines(report: Report) -> Iterator[str]:
    """One line a case, in columns as wide as their longest word."""
    rows = [
        (
            _word(v),
            v.case,
            v.expected,
            v.answer,
            "" if v.confidence is None else f"{v.confidence:.2f}",
            plain(v.error or v.cause),
        )
        for v in report.verdicts
    ]
    head = ("", "case", "expected", "answer", "conf", "cause")
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _print(report: Report, *, verbose: bool) -> None:
    if verbose:
        for line in verdict_lines(report):
            click.echo(line)
        click.echo()
    click.echo(f"cases             {report.cases}")
    click.echo(f"strict            {_share(report.strict)}")
    click.echo(f"acceptable        {_share(report.acceptable)}")
    click.echo(f"macro-F1          {report.macro_f1:.3f}")
    click.echo(f"abstained         {report.abstained}")
    click.echo(f"missed            {report.missed}")
    click.echo(f"wrong and sure    {report.wrong_sure}   (a named component, confidence 0.8 or more)")
    click.echo(f"false alarms      {report.false_alarms}   (a named component where nothing was interrupted)")
    click.echo(f"extra incidents   {report.extra_incidents}")
    if report.errors:
        click.echo(f"could not be run  {report.errors}")
    fields = ", ".join(f"{name} {_share(s)}" for name, s in report.first_failing.items() if name != "all" and s.n)
    if fields:
        click.echo(f"first failing     {_share(report.first_failing['all'])}   {fields}")
    click.echo(f"slowest case      {report.slowest_s:.2f} s")
    click.echo("\nwhat fixed answers score on the same cases")
    for name, constant in (
        ("best constant, strict", report.best_constant_strict),
        ("best constant, acceptable", report.best_constant_acceptable),
        ("", report.none_else_unknown),
    ):
        click.echo(f"  {_constant(name, constant)}")
    table5 = report.table5_constant
    click.echo(
        f"  always Faulty GPU, on Table 5 of the Llama 3 paper: accuracy {table5['accuracy']:.3f}, "
        f"macro-F1 {table5['macro_f1']:.3f}\n"
    )
    emit_table(
        ["expected", "cases", "strict", "acceptable", "answered", "precision"],
        [
            (c.component, c.support, _short(c.strict), _short(c.acceptable), c.answered, _short(c.precision))
            for c in report.by_class
        ],
    )
    click.echo()
    emit_table(
        ["decidable", "strict", "acceptable"],
        [(name, _share(s["strict"]), _share(s["acceptable"])) for name, s in report.by_decidable.items()],
    )


def _constant(name: str, constant: Constant) -> str:
    lead = f"{name}: always {plain(constant.answer)}" if name else constant.answer
    return f"{lead}: strict {_share(constant.strict)}, acceptable {_share(constant.acceptable)}"


def _word(verdict: Verdict) -> str:
    if verdict.strict:
        return "right"
    if verdict.acceptable:
        return "acceptable"
    return "WRONG AND SURE" if verdict.wrong_sure else "MISSED" if verdict.missed else "WRONG"
