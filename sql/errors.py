"""Errors of the warehouse. Each says what is wrong, with which value, where, and what to do next."""

from __future__ import annotations

from schemas.errors import FaultbeamError


class SqlError(FaultbeamError):
    """Root of the errors of this package."""


class DriverMissing(SqlError):  # noqa: N818 - reads as the fact that it states
    """The URL names a database for which no driver is installed, or which is not supported."""


class CannotConnect(SqlError):  # noqa: N818
    """The database could not be reached or opened."""


class SchemaBehind(SqlError):  # noqa: N818
    """The tables are older (or newer) than this program."""


class UnknownIncident(SqlError):  # noqa: N818
    """No incident has this id or this beginning of an id, or several have."""


class UnknownQuery(SqlError):  # noqa: N818
    """No saved query has this name."""


class QueryParameterError(SqlError):
    """A parameter of a saved query is unknown, missing or has the wrong form."""
