"""Errors of the stream."""

from __future__ import annotations

from pipeline.errors import PipelineError


class StreamError(PipelineError):
    """Root of what the stream raises on purpose."""


class BrokerError(StreamError):
    """The broker is away, refuses us, or lacks a topic."""


class ClientConfigError(StreamError):
    """A file of client settings that cannot be used."""
