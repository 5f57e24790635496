"""docs/schema.md from models and views: `python -m sql.review.schema_doc > docs/schema.md`. A test holds both equal."""

from __future__ import annotations

from sqlalchemy import Column, Table

from sql.models import metadata
from sql.saved import list_queries
from sql.views import views

#: Short names of the column types, as both databases hold them.
_TYPES = {"UtcMicros": "time", "Str": "text", "JSON": "json", "Double": "real", "BigInteger": "integer",
          "Integer": "integer", "Boolean": "boolean"}  # fmt: skip

_HEAD = """# The warehouse: tables, views, saved queries

Made from the models by `python -m sql.review.schema_doc`; a test holds it equal to them. Times are UTC: ISO-8601 text
of 27 characters on SQLite, `timestamptz` on PostgreSQL. A key column is marked with *. Columns that end in `_kind`,
`_us` and `_borrowed` keep a stamp in the frame in which it was printed; those that end in `_at` are derived from them.
"""


def schema_markdown() -> str:
    """The whole document."""
    lines = [_HEAD, "## Tables", ""]
    for table in sorted(metadata.tables.values(), key=lambda t: t.name):
        lines += _table(table)
    lines += ["## Views", "", "People's tools read these; their names and columns are stable.", ""]
    for name, body in sorted(views().items()):
        comment = " ".join(
            line.removeprefix("--").strip()
            for line in body.splitlines()
            if line.startswith("--") and not line.startswith("-- needs:")
        )
        lines += [f"* `{name}`: {comment}"]
    lines += ["", "## Saved queries", "", "`faultbeam query NAME --param NAME=VALUE`", ""]
    lines += ["| query | answers | parameters |", "|---|---|---|"]
    for query in list_queries():
        parameters = ", ".join(f"{p.name}{'' if p.required else '?'}" for p in query.parameters)
        lines.append(f"| `{query.name}` | {query.title} | {parameters} |")
    return "\n".join([*lines, ""])


def _table(table: Table) -> list[str]:
    lines = [
        f"### {table.name}",
        "",
        f"{(table.comment or '').capitalize()}.",
        "",
        "| column | type | means |",
        "|---|---|---|",
    ]
    return [*lines, *(_column(c) for c in table.columns), ""]


def _column(column: Column[object]) -> str:
    kind = _TYPES.get(type(column.type).__name__, type(column.type).__name__.lower())
    null = "" if column.nullable and not column.primary_key else ", never null"
    name = f"{column.name}{'*' if column.primary_key else ''}"
    return f"| {name} | {kind}{null} | {(column.comment or '').replace('|', '/')} |"


if __name__ == "__main__":
    print(schema_markdown(), end="")
