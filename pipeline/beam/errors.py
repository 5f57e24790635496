"""Errors of the Beam graphs."""

from __future__ import annotations

from pipeline.errors import PipelineError


class BeamError(PipelineError):
    """Root of what the graphs raise on purpose."""


class RunnerError(BeamError):
    """A runner that was not named, or that behaves differently from machine to machine."""


class ReceiptError(BeamError):
    """A run that ended without an error, yet lost ranges or rows."""


class CodingError(BeamError):
    """A type that has no place in an element, or bytes that are not what the type says."""
