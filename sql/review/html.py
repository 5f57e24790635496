"""The review as one self-contained HTML file: it works offline, and nothing in it can be fetched or run from log text.

Jinja2 escapes every value. The only parts put in as they are: the drawing script (from vl-convert) and the chart
specifications (JSON in which `<`, `>` and `&` are written as escapes).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from sql.dialect import expand
from sql.review.charts import charts, script
from sql.review.document import SOURCES
from sql.review.numbers import numbers
from sql.review.tables import cell, tables, verdicts
from sql.review.week import CHANGE_QUERIES
from sql.saved import saved_query
from sql.views import views

_NO_CHARTS = "No pictures: they need the extra [report] (pip install 'faultbeam[report]')."
#: Words of the list of contents.
_SHORT = {
    "provisional": "Not final yet", "quality": "Quality of the answers", "label": "Worth a label",
    "components": "Components", "weeks": "Weeks", "hosts": "Hosts", "swings": "Power swings",
    "projection": "Projection", "startup": "Start-up", "checkpoints": "Checkpoints",
}  # fmt: skip
_NAME = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Shown:
    """A saved query in the appendix: its command line, its text, and the views below it."""

    name: str
    title: str
    arguments: str
    sql: str
    views: tuple[tuple[str, str], ...]


def json_for_script(value: Any) -> str:  # noqa: ANN401
    """JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def html(doc: dict[str, Any], dialect: str = "sqlite") -> str:
    """The page. dialect: in which database's words the queries are shown."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("sql.review"), autoescape=True, trim_blocks=False)
    environment.filters["cell"] = cell
    drawing = script()
    made = charts(doc) if drawing is not None else None
    return environment.get_template("review.html.j2").render(
        name=doc["cluster"] or "all clusters",
        since=(doc["since"] or "–")[:16].replace("T", " "),
        until=(doc["until"] or "–")[:16].replace("T", " "),
        gpus=cell(doc["gpus"]) if doc["gpus"] else None,
        changes=list(zip(doc["changes"], CHANGE_QUERIES, strict=True)),
        numbers=numbers(doc),
        verdicts=verdicts(doc),
        tables=tables(doc),
        first=("provisional", "quality", "label"),
        stacked=("label", "provisional", "hosts"),
        short=_SHORT,
        charts=made,
        no_charts="Nothing to draw in this period." if made is not None else _NO_CHARTS,
        vega=drawing,
        specs=json_for_script({name: spec for name, _, spec in made or ()}),
        queries=[_shown(name, doc, dialect) for name in sorted(set(SOURCES.values()))],
    )


def _shown(name: str, doc: dict[str, Any], dialect: str) -> Shown:
    query = saved_query(name)
    known = {p.name for p in query.parameters}
    given = {"cluster": doc["cluster"], "since": doc["since"], "until": doc["until"]}
    arguments = "".join(f" --param {k}={v}" for k, v in given.items() if v is not None and k in known)
    below: dict[str, str] = {}

    def add(text: str) -> None:
        for other in _NAME.findall(text):
            if other in views() and other not in below:
                below[other] = expand(views()[other], dialect).strip()
                add(views()[other])

    add(query.sql)
    return Shown(name, query.title, arguments, expand(query.sql, dialect).strip(), tuple(below.items()))
