"""Log formats, one module each, found by `registry()`; see `base` for the contract and CONTRIBUTING for a template."""

from __future__ import annotations

from pipeline.formats.base import (
    EMPTY_FRAME,
    Frame,
    LineFormat,
    LookBack,
    RecordFormat,
    SourceInfo,
    registry,
    sniff,
)

__all__ = ["EMPTY_FRAME", "Frame", "LineFormat", "LookBack", "RecordFormat", "SourceInfo", "registry", "sniff"]
