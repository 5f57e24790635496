"""Errors of the pipeline package."""

from __future__ import annotations

from schemas.errors import FaultbeamError


class PipelineError(FaultbeamError):
    """Root of the pipeline's errors."""


class InputError(PipelineError):
    """An input that could not be read; the message names path, offset and reason."""
