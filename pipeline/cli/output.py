"""What commands print: tables for people, JSON for programs, and where each goes.

Text that comes from logs is printed as text, never as markup, without control characters.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), 127, *range(128, 160))} | {9: " ", 10: " "}


#: A time of the warehouse; people read it to the second.
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z")
#: Columns where the output is no terminal.
_PIPE_WIDTH = 10_000


def plain(value: object) -> str:
    """A value as one printable line: None is empty, control characters (a terminal's too) are shown escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
    text = str(value)
    if _STAMP.fullmatch(text):
        text = f"{text[:19]}Z"
    return text.translate(_CONTROL)


def when(us: int | None) -> str | None:
    """Microseconds since 1970 as ISO-8601 UTC with seconds, or None."""
    if us is None:
        return None
    stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    return stamp.isoformat(timespec="seconds").replace("+00:00", "Z")


def console(*, stderr: bool = False) -> Console:
    """A console on the current standard stream; no terminal: one line a row, no colour, so that it can be searched."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def emit_json(document: object) -> None:
    """A document as indented JSON on standard output."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def emit_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table with a head line. Columns whose values are all numbers stand to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    held = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for at, name in enumerate(columns):
        values = [row[at] for row in held if row[at] is not None]
        numeric = bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in held:
        table.add_row(*(Text(plain(value)) for value in row))
    console().print(table)


def emit_rows(output_format: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows as a table, as a JSON list of objects, or as CSV (RFC 4180, a head line, empty for no value)."""
    if output_format == "json":
        emit_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif output_format == "csv":
        import csv
        import io

        out = io.StringIO()
        csv.writer(out).writerows([columns, *rows])
        click.echo(out.getvalue(), nl=False)
    else:
        emit_table(columns, rows)


def warn_unread(quarantine: Iterable[Any]) -> int:
    """Name on standard error what could not be read; the number of such parts. Each has path, offset and reason."""
    parts = list(quarantine)
    for part in parts[:20]:
        click.echo(f"could not read {plain(part.path)} at byte {part.offset}: {plain(part.reason)}", err=True)
    if len(parts) > 20:
        click.echo(f"... and {len(parts) - 20} more parts", err=True)
    return len(parts)
