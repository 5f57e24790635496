"""The weekly review: from a warehouse to HTML, Markdown or JSON text. What it says is made in `sql.review`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sql.store import Store

FORMATS = ("html", "md", "json")


def review(store: Store, cluster: str | None, since_us: int | None, until_us: int | None) -> dict[str, Any]:
    """The document `faultbeam.review/1` of a period; without bounds of everything."""
    from sql.review.document import build

    return build(store, cluster, since_us, until_us)


def render(document: dict[str, Any], output_format: str, dialect: str = "sqlite") -> str:
    """The document as text of one of FORMATS."""
    if output_format == "json":
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if output_format == "md":
        from sql.review.markdown import markdown

        return markdown(document)
    from sql.review.html import html

    return html(document, dialect)
