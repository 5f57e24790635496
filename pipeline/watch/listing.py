"""What a watched folder holds now: one `stat` a file, nothing is opened.

The rules are those of `pipeline.sources.walk`: links are followed unless they lead to what is met anyway, loops are
cut, only regular files count. A file that two names lead to is listed once, by the first of them. What vanishes while
the folder is listed is left out.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Listed:
    """A file. key: device and inode. path: to open it. shown: path inside the folder, with slashes."""

    key: str
    path: str
    shown: str
    size: int
    mtime_ns: int

    @property
    def signature(self) -> tuple[int, int]:
        """Changes when the content may have."""
        return self.size, self.mtime_ns


@dataclass(slots=True)
class Listing:
    """All files by key, and what could not be listed: path inside the folder -> why."""

    files: dict[str, Listed] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    whole: bool = True  # all folders could be listed: what is not here is no more


def key_of(status: os.stat_result) -> str:
    """Names a file on this machine, whatever its path."""
    return f"{status.st_dev:x}:{status.st_ino:x}"


def list_folder(folder: str) -> Listing:
    """All files below a folder."""
    out = Listing()
    _list(folder, "", os.path.realpath(folder), (), out)
    return out


def _list(folder: str, shown: str, root: str, above: tuple[tuple[int, int], ...], out: Listing) -> None:
    try:
        status = Path(folder).stat()
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda e: e.name)
    except OSError as err:
        if not isinstance(err, FileNotFoundError) or not shown:
            out.problems[shown or "."] = f"cannot list folder: {err.strerror}"
            out.whole = False
        return
    me = (status.st_dev, status.st_ino)
    if me in above:
        out.problems[shown] = "folder loop: it contains itself through a link"
        return
    for entry in entries:
        name = f"{shown}/{entry.name}" if shown else entry.name
        name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        try:
            if entry.is_symlink() and _met_anyway(entry.path, root):
                continue
            if entry.is_dir():
                _list(entry.path, name, root, (*above, me), out)
                continue
            _file(entry.path, name, entry.stat(), out)
        except FileNotFoundError:
            if entry.is_symlink():
                out.problems[name] = "cannot read: No such file or directory"
        except OSError as err:
            out.problems[name] = f"cannot read: {err.strerror}"


def _met_anyway(link: str, root: str) -> bool:
    target = os.path.realpath(link)
    return (target == root or Path(root) in Path(target).parents) and Path(target).exists()


def _file(path: str, shown: str, status: os.stat_result, out: Listing) -> None:
    if not stat.S_ISREG(status.st_mode):
        out.problems[shown] = "not a regular file"
        return
    key = key_of(status)
    if key not in out.files:
        out.files[key] = Listed(key, path, shown, status.st_size, status.st_mtime_ns)
