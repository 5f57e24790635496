"""Options that several commands share, as decorators, and the types of their values.

Nothing heavy is imported here: `settings()` reads `schemas.settings` only when a command runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from schemas.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_WAREHOUSE = "sqlite:///faultbeam.db"


_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def parse_time(value: str) -> int:
    """An ISO-8601 time as microseconds since 1970 UTC. Without a zone it is read as UTC."""
    try:
        stamp = datetime.fromisoformat(value.strip().replace(" ", "T", 1))
    except ValueError:
        msg = f"{value!r} is not a time; write it like 2026-03-01T12:30:00Z"
        raise click.BadParameter(msg) from None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return (stamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def parse_assignment(value: str) -> tuple[str, str]:
    """`name=value` as a pair."""
    found = _ASSIGNMENT.fullmatch(value)
    if found is None:
        msg = f"{value!r} is not of the form name=value"
        raise click.BadParameter(msg)
    return found[1], found[2]


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line, not wrapped."""
    head = "Example:" if len(lines) == 1 else "Examples:"
    return "\b\n" + "\n".join([head, *(f"  {line}" for line in lines)])


def _stack(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def format_option(function: F) -> F:
    """`--format table|json` as `output_format`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="A table for people, or JSON for programs.",
    )(function)


def rows_format_option(function: F) -> F:
    """`--format table|json|csv` as `output_format`, for commands whose answer is rows."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json", "csv"]),
        default="table",
        show_default=True,
        help="A table for people, JSON or CSV for programs.",
    )(function)


def warehouse_option(*, required: bool = True) -> Callable[[F], F]:
    """`--warehouse URL`; the default file, or none where the command can do without."""
    return click.option(
        "--warehouse",
        metavar="URL",
        envvar="FAULTBEAM_WAREHOUSE",
        default=DEFAULT_WAREHOUSE if required else None,
        show_default=required,
        help="SQLAlchemy URL of the warehouse: sqlite:///FILE or postgresql+psycopg://USER@HOST/DB."
        + ("" if required else " Adds the history of the hosts."),
    )


def beam_option(example: str) -> Callable[[F], F]:
    """`--beam-option NAME=VALUE`, repeated: options for Beam and its runner. example: one or two, for the help."""
    return click.option(
        "--beam-option",
        "beam_options",
        type=parse_assignment,
        multiple=True,
        metavar="NAME=VALUE",
        help=f"An option for Beam or its runner, like {example}.",
    )


def period_options(function: F) -> F:
    """`--since` and `--until` as `since` and `until` (microseconds UTC or None)."""
    return _stack(
        click.option(
            "--since", type=parse_time, metavar="TIME", help="From this time on (ISO-8601; UTC where it names no zone)."
        ),
        click.option("--until", type=parse_time, metavar="TIME", help="Up to this time."),
    )(function)


def settings_options(function: F) -> F:
    """`--cluster`, `--tz`, `--engine` and `--set`; pass their values to `settings()`."""
    return _stack(
        click.option("--cluster", metavar="NAME", help="Name of the cluster that the logs come from."),
        click.option("--tz", metavar="ZONE", help="Zone of stamps that name none, like Europe/Berlin (default: UTC)."),
        click.option("--engine", type=click.Choice(["auto", "hyperscan", "re2"]), help="Scan engine."),
        click.option(
            "--set",
            "assignments",
            type=parse_assignment,
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other setting, like window_before_s=900 (docs/settings.md lists them).",
        ),
    )(function)


def settings(
    cluster: str | None = None,
    tz: str | None = None,
    engine: str | None = None,
    assignments: tuple[tuple[str, str], ...] = (),
) -> Settings:
    """Settings from options, then `FAULTBEAM_*` variables, then defaults. Wrong names and values are wrong use."""
    from pydantic import ValidationError

    from schemas.settings import Settings

    given: dict[str, Any] = dict(assignments)
    given.update({k: v for k, v in (("cluster", cluster), ("tz", tz), ("engine", engine)) if v is not None})
    try:
        made = Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = ", ".join(Settings.model_fields)
        msg = f"setting {name}={first.get('input')!r}: {first['msg']}. Settings are: {known}."
        raise click.UsageError(msg) from None
    _check_zone(made.tz)
    return made


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        msg = f"--tz {name!r} is not a time zone of this machine; write it like Europe/Berlin or UTC"
        raise click.UsageError(msg) from None
