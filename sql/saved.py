"""Saved queries: `sql/queries/NAME.sql`, each with a header of comment lines.

`-- title: what it answers`, then one line a parameter: `-- param NAME: TYPE [= DEFAULT] -- meaning`. TYPE is text,
int, float or time (ISO-8601; UTC where no zone is given). Without `=` a parameter must be given; with nothing
behind `=` it is NULL. The answers of both databases are equal: times as ISO-8601 text, truth as 0 and 1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import BigInteger, bindparam, text
from sqlalchemy.types import TypeEngine

from sql.dialect import expand
from sql.errors import QueryParameterError, UnknownQuery
from sql.store import Store
from sql.types import Real, Str, UtcMicros, from_iso, iso, to_json, to_us

_TITLE = re.compile(r"^-- title: (.+)$", re.MULTILINE)
_PARAM = re.compile(r"^-- param (\w+): (text|int|float|time)(?: *(=) *((?:(?!--).)*?))? *-- (.+)$", re.MULTILINE)
_TYPES: dict[str, TypeEngine[Any]] = {"text": Str(), "int": BigInteger(), "float": Real, "time": UtcMicros()}

#: A cell of an answer.
Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a saved query. default is meaningless where `required`."""

    name: str
    type: str  # text | int | float | time
    required: bool
    default: str | None
    meaning: str


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A saved query as its file says it."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    sql: str


@cache
def saved_queries() -> dict[str, SavedQuery]:
    """All saved queries by name."""
    found = {}
    for entry in sorted(files("sql").joinpath("queries").iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".sql"):
            found[entry.name[:-4]] = _parse(entry.name[:-4], entry.read_text(encoding="utf-8"))
    return found


def _parse(name: str, body: str) -> SavedQuery:
    title = _TITLE.search(body)
    parameters = tuple(
        Parameter(m[1], m[2], required=m[3] is None, default=m[4] or None, meaning=m[5]) for m in _PARAM.finditer(body)
    )
    statement = "\n".join(line for line in body.splitlines() if not line.startswith("--"))
    return SavedQuery(name, title[1] if title else name, parameters, statement)


def list_queries() -> list[SavedQuery]:
    """All saved queries, by name."""
    return list(saved_queries().values())


def saved_query(name: str) -> SavedQuery:
    """The saved query of this name; UnknownQuery names the nearest ones otherwise."""
    known = saved_queries()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        msg = f"no saved query {name!r}{hint} (faultbeam query --list shows all)"
        raise UnknownQuery(msg)
    return known[name]


def _value(query: SavedQuery, parameter: Parameter, given: str | float | None) -> str | int | float | None:
    if given is None:
        return None
    try:
        if parameter.type == "int":
            return int(given)
        if parameter.type == "float":
            return float(given)
        if parameter.type == "time":
            return from_iso(str(given))
    except ValueError:
        wanted = "an ISO-8601 time such as 2026-03-01T10:00:00Z" if parameter.type == "time" else parameter.type
        msg = f"query {query.name}: --param {parameter.name}={given} is not {wanted}"
        raise QueryParameterError(msg) from None
    return str(given)


def bound(query: SavedQuery, params: Mapping[str, str | float | None]) -> dict[str, str | int | float | None]:
    """Values for all parameters of the query, defaults filled in. QueryParameterError says what is wrong."""
    names = [p.name for p in query.parameters]
    unknown = sorted(set(params) - set(names))
    if unknown:
        msg = f"query {query.name} has no parameter {unknown[0]!r}; it has: {', '.join(names) or 'none'}"
        raise QueryParameterError(msg)
    missing = [p for p in query.parameters if p.required and params.get(p.name) is None]
    if missing:
        msg = f"query {query.name} needs --param {missing[0].name}=... ({missing[0].meaning})"
        raise QueryParameterError(msg)
    return {p.name: _value(query, p, params.get(p.name, p.default)) for p in query.parameters}


def plain(value: Any) -> Cell:  # noqa: ANN401 - whatever a driver gives
    """A cell as both databases give it: ISO text, 0 or 1, int, float (rounded to 9 places), text or None."""
    if value is None or type(value) in (str, int):
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return iso(to_us(value))
    if isinstance(value, Decimal):
        # sums of integers are numeric on PostgreSQL and integers on SQLite
        exponent = value.as_tuple().exponent
        return int(value) if exponent == 0 else round(float(value), 9)
    if isinstance(value, float):
        return round(value, 9)
    return to_json(value)


def run_query(
    store: Store, name: str, params: Mapping[str, str | float | None] | None = None
) -> tuple[list[str], list[tuple[Cell, ...]]]:
    """Names of the columns, and the rows. Parameters are bound, never written into the text."""
    query = saved_query(name)
    values = bound(query, params or {})
    statement = text(expand(query.sql, store.dialect)).bindparams(
        *[bindparam(p.name, type_=_TYPES[p.type]) for p in query.parameters]
    )
    with store.reading() as connection:
        result = connection.execute(statement, values)
        columns = list(result.keys())
        rows = [tuple([plain(value) for value in row]) for row in result]
    return columns, rows
