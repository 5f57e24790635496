"""Column types that read the same on SQLite and PostgreSQL.

`UtcMicros`: Python microseconds since 1970 UTC; ISO-8601 text of fixed width on SQLite (so that text order is time
order), timestamptz on PostgreSQL. `Str`: text that both databases can hold, compared byte by byte on both.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import JSON, Double, String, Text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# PostgreSQL holds neither NUL nor halves of surrogate pairs; sqlite3 refuses the latter.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def to_datetime(us: int) -> datetime:
    """Microseconds since 1970 UTC as an aware datetime. OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(microseconds=us)


def to_us(when: datetime) -> int:
    """An aware datetime as microseconds since 1970 UTC."""
    return (when - _EPOCH) // _MICROSECOND


def iso(us: int) -> str:
    """`2026-03-01T10:00:00.000000Z`: 27 characters always, so that text order is time order."""
    return to_datetime(us).isoformat(timespec="microseconds")[:-6] + "Z"


def from_iso(text: str) -> int:
    """Microseconds of an ISO-8601 time; one without a zone is UTC."""
    when = datetime.fromisoformat(text)
    return to_us(when if when.tzinfo else when.replace(tzinfo=UTC))


def storable(text: str) -> str:
    """The text with NUL as U+2400 and torn surrogates as U+FFFD: what both databases take."""
    if _UNSTORABLE.search(text) is None:
        return text
    return _UNSTORABLE.sub(lambda m: "␀" if m[0] == "\0" else "\ufffd", text)


def storable_deep(value: Any) -> Any:  # noqa: ANN401 - any JSON-like value
    """`storable` for every text inside lists, tuples and dicts."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable_deep(k): storable_deep(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(storable_deep(v) for v in value) if type(value) in (list, tuple) else value
    return value


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def to_json(value: Any) -> str:  # noqa: ANN401
    """Compact JSON with sorted keys, without anything that a database refuses."""
    if value == ():
        return "[]"
    text = _ENCODE(value)
    if "\\u0000" in text or _UNSTORABLE.search(text):
        text = _ENCODE(storable_deep(value))
    return text


def from_json(text: str) -> Any:  # noqa: ANN401
    """The value of a JSON text."""
    return [] if text == "[]" else json.loads(text)


def tuples(value: Any) -> Any:  # noqa: ANN401
    """A value from JSON with its lists as tuples, at any depth: how plain data is held in Python."""
    return tuple([tuples(item) for item in value]) if isinstance(value, list) else value


class UtcMicros(TypeDecorator[int]):
    """A moment, as microseconds since 1970 UTC in Python."""

    impl = String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: int | None, dialect: Dialect) -> Any:  # noqa: ANN401
        if value is None:
            return None
        return to_datetime(value) if dialect.name == "postgresql" else iso(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> int | None:  # noqa: ANN401, ARG002
        if value is None:
            return None
        return to_us(value) if isinstance(value, datetime) else from_iso(value)


class Str(TypeDecorator[str]):
    """Text, in byte order on PostgreSQL too (collation C), so that sorted results are equal on both databases."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(Text(collation="C"))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return value if value is None else storable(value)


#: JSON kept as it was written (on PostgreSQL `json`, not `jsonb`, which changes numbers): lists come back equal.
Json = JSON(none_as_null=True)
Real: Double[float] = Double()
