"""Log lines of a stream on stderr: for people, or one JSON object a line for programs.

A JSON line has `at` (ISO-8601 UTC), `level`, `logger`, `message`, and what the call gave as `extra={"fields": {...}}`.
Errors carry `error` with the last line of the traceback, and `traceback`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

#: These speak of every bundle or poll at their own levels.
_CHATTY = ("apache_beam", "root", "grpc", "sqlalchemy.engine", "alembic")


def set_up_logs(*, as_json: bool = False, level: str = "INFO", out: TextIO | None = None) -> None:
    """Let all loggers write to stderr (or `out`) in this form; what other libraries installed is replaced."""
    handler = logging.StreamHandler(out if out is not None else sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Plain())
    handler.addFilter(_not_chatty)
    # Beam installs a handler on the root logger when it is imported first.
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _not_chatty(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or not record.name.startswith(_CHATTY)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    given = getattr(record, "fields", None)
    return dict(given) if isinstance(given, dict) else {}


def _at(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({name: value for name, value in _fields(record).items() if name not in line})
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = "".join(traceback.format_exception_only(record.exc_info[1])).strip()
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


class Plain(logging.Formatter):
    """`time level message name=value ...`, and the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        told = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        line = f"{_at(record)} {record.levelname.lower()} {record.getMessage()}" + (f" {told}" if told else "")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line
