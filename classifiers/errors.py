"""The root of the errors that `classifiers` raises on purpose."""

from __future__ import annotations

from schemas.errors import FaultbeamError


class ClassifierError(FaultbeamError):
    """Root of this package's errors."""


class RuleError(ClassifierError):
    """A rule file breaks its contract. `where` is the file or the rule's id."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


class TableError(ClassifierError):
    """A code table of the knowledge lacks a column or holds a value that cannot be read."""


class EngineError(ClassifierError):
    """A scan engine cannot be built (library missing, anchor refused)."""
