"""`faultbeam review`."""

from __future__ import annotations

from pathlib import Path

import click

from pipeline.cli.options import examples, period_options, warehouse_option
from pipeline.review import FORMATS


@click.command(
    "review",
    epilog=examples(
        "faultbeam review -o review.html",
        "faultbeam review --cluster ridge --since 2026-03-02 --until 2026-03-09 --format md",
        "faultbeam review --format json",
    ),
)
@click.option("--cluster", metavar="NAME", help="Only this cluster of the warehouse.")
@period_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(FORMATS),
    help="HTML (one file, works offline), Markdown, or JSON for programs. [default: by the end of FILE, else md]",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write to FILE.")
@warehouse_option()
def command(
    cluster: str | None,
    since: int | None,
    until: int | None,
    output_format: str | None,
    output: Path | None,
    warehouse: str,
) -> None:
    """Write the reliability review of a period: rates, costs, hosts, and what changed."""
    from pipeline.review import render, review
    from sql.store import open_store

    if since is not None and until is not None and since >= until:
        msg = "--since must lie before --until"
        raise click.UsageError(msg)
    with open_store(warehouse) as store:
        document = review(store, cluster, since, until)
        dialect = store.dialect
    text = render(document, output_format or _by_name(output), dialect)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {output}: {error.strerror}"
        raise click.ClickException(msg) from None
    click.echo(f"written to {output}")


def _by_name(output: Path | None) -> str:
    """The format that a file's name asks for."""
    ending = output.suffix.lower().removeprefix(".") if output is not None else "md"
    return {"html": "html", "htm": "html", "json": "json"}.get(ending, "md")
