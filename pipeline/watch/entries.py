"""What a watcher keeps in memory: of each file, of a poll, and how long it waits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.sources import Source
from sql.watched import WatchedFile


class WatchError(PipelineError):
    """A folder cannot be watched; the message says why and what to do."""


def check_folder(folder: str | Path) -> str:
    """The folder with its links resolved; WatchError where it is none."""
    if not Path(folder).is_dir():
        msg = f"cannot watch {folder}: it is not a folder that can be read; give the folder that the logs are in"
        raise WatchError(msg)
    return os.path.realpath(folder)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait. line_s: for the end of a last line. document_s: until what is read as a whole rests."""

    line_s: float = 10.0
    document_s: float = 5.0


@dataclass(slots=True)
class Polled:
    """What a poll did. files: listed. read: those that had changed. signals: folded ones. quarantined: parts.

    busy: more is left to read at once. touched: sources whose facts changed.
    """

    files: int = 0
    read: int = 0
    signals: int = 0
    quarantined: int = 0
    busy: bool = False
    touched: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Entry:
    """A file as this process knows it. seen: its signature, since: when that was met. due: when to look again though
    nothing changed, None for never. changed: since when it has been waiting to be read as a whole."""

    row: WatchedFile | None = None
    source: Source | None = None
    seen: tuple[int, int] = (-1, -1)
    since: float = 0.0
    due: float | None = None
    changed: float | None = None
