"""The review as Markdown. Text from logs is escaped: it cannot open a tag, a link or a table cell."""

from __future__ import annotations

import re
from typing import Any

from sql.review.numbers import numbers
from sql.review.tables import cell, tables, verdicts
from sql.review.week import CHANGE_QUERIES

_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown(doc: dict[str, Any]) -> str:
    """The whole review; the saved query behind each part stands in brackets."""
    period = f"{(doc['since'] or 'nothing')[:16]} to {(doc['until'] or 'nothing')[:16]} UTC"
    lines = [f"# Reliability review: {escape(doc['cluster'] or 'all clusters')}", "", period, "", "## What changed", ""]
    lines += [f"* {escape(line)} (`{query}`)" for line, query in zip(doc["changes"], CHANGE_QUERIES, strict=True)]
    lines += ["", "## Numbers", "", _row(["what", "value", "detail", "period before", "query"]), _row(["---"] * 5)]
    lines += [
        _row([escape(n.label), escape(n.value), escape(n.detail), escape(n.before), f"`{n.query}`"])
        for n in numbers(doc)
    ]
    lines += ["", "## Environment", ""]
    lines += [f"* {escape(what)}: {escape(verdict)} (`{query}`)" for what, verdict, query in verdicts(doc)]
    for table in tables(doc):
        lines += ["", f"## {escape(table.title)} (`{table.query}`)", ""]
        if not table.rows:
            lines.append("Nothing in this period.")
            continue
        lines += [_row([escape(c) for c in table.columns]), _row(["---"] * len(table.columns))]
        digits = [table.digits.get(c) for c in table.columns]
        lines += [_row([escape(cell(v, n)) for v, n in zip(row, digits, strict=True)]) for row in table.rows]
        if table.note:
            lines += ["", escape(table.note)]
    return "\n".join([*lines, ""])
