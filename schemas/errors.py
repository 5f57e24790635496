"""The root of every error that faultbeam raises on purpose.

Each package derives its own root from `FaultbeamError`. The message of an error says what is wrong, with which
value, where (file, offset, rule, table), and what to do next.
"""

from __future__ import annotations


class FaultbeamError(Exception):
    """Something that faultbeam can name. The text is meant for the person at the terminal."""


class SchemaError(FaultbeamError):
    """A value breaks a contract of `schemas` (unknown component, malformed fact)."""
