"""`faultbeam rules suggest`: failure lines that no rule explains, ready to become rules."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pipeline.cli.options import examples, format_option, settings, settings_options
from pipeline.cli.output import emit_json, emit_table


@click.command(
    "suggest",
    epilog=examples(
        "faultbeam rules suggest jobs/ --out drafts", "faultbeam rules suggest --warehouse sqlite:///faultbeam.db"
    ),
)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--warehouse", metavar="URL", help="Look at the facts of a warehouse instead of at files.")
@click.option("--least", type=click.IntRange(1), default=1, show_default=True, help="Prints that a group must have.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Groups that are shown.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write a draft rule file for each."
)
@settings_options
@format_option
def command(
    paths: tuple[Path, ...],
    warehouse: str | None,
    least: int,
    limit: int,
    out: Path | None,
    cluster: str | None,
    tz: str | None,
    engine: str | None,
    assignments: tuple[tuple[str, str], ...],
    output_format: str,
) -> None:
    """Group failure lines that no rule explains, with counts and examples.

    A draft is incubating: say what it means and where its wording comes from, then move it below rules/.
    """
    from classifiers.knowledge import load_ruleset
    from classifiers.text.shipped import scorer_for
    from pipeline.measuring.suggest import draft, suggest

    if bool(paths) == bool(warehouse):
        msg = "give either paths or --warehouse URL"
        raise click.UsageError(msg)
    chosen = settings(cluster, tz, engine, assignments)
    ruleset = load_ruleset()
    if warehouse:
        from sql.store import open_store

        with open_store(warehouse) as store:
            signals = store.read_signals(chosen.cluster)
    else:
        from pipeline.scanning.scan import scan_paths

        signals = scan_paths(list(paths), chosen, ruleset).signals
    found = suggest(signals, ruleset, scorer_for(chosen.model), least)[:limit]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for number, suggestion in enumerate(found, start=1):
            target = out / f"{suggestion.id}.toml"
            if target.exists():
                target = out / f"{suggestion.id}_{number}.toml"
            target.write_text(draft(suggestion).replace(suggestion.id, target.stem, 1), encoding="utf-8")
    if output_format == "json":
        emit_json([{**asdict(s), "id": s.id, "rule": draft(s)} for s in found])
        return
    if not found:
        click.echo("every failure line is explained by a rule")
        return
    rows = [
        (s.count, s.sources, f"{s.component} {s.confidence:.2f}" if s.component else "", s.examples[0]) for s in found
    ]
    emit_table(["prints", "inputs", "text model", "example"], rows)
    if out is not None:
        click.echo(f"{len(found)} drafts in {out}")
