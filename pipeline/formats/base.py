"""The contract of a format, and how the right one is found by content.

There are two kinds. A *line format* frames one line that a rule's anchor hit: it strips what surrounds the message
and reads stamp, host and rank. It is never called for lines without a hit (a 10 GB log has a few thousand hits), so
everything that it must see besides rules' hits it asks for by `marks` (literals, as rare as a rule's anchors). A
*record format* (tables, JSON documents) reads a whole member and yields facts.

A format module defines one or more module-level instances in `FORMATS`. Samples live beside the tests in
`tests/pipeline/formats/samples/<format name>/`: `NAME.in` is read, `NAME.json` is what must come out.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from schemas.errors import FaultbeamError
from schemas.facts import NO_STAMP, Facts, Stamp

#: Bytes of the decompressed head that a format may look at.
HEAD = 64 * 1024
#: Group of the entry points by which other packages bring formats.
PLUGINS = "faultbeam.formats"
#: How far back from a hit a format may look for the stamp or the rest of its record (absolute offsets, so that the
#: cut into ranges never shows).
LOOK_BACK = 64 * 1024


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What is known of an input before its content is read.

    inner_path: path inside the root, archive members as `a.tar.gz!dir/kern.log`. root: name of the root folder.
    """

    source_id: str
    inner_path: str
    root: str
    size: int | None  # decompressed size, None where only reading tells
    mtime_us: int | None


@dataclass(frozen=True, slots=True)
class Stream:
    """The log that a shipper's record was read from: one pod's container, one host's file.

    Each stream of a shipped file is a source of its own (`source_id` from the file's and `key`), so that hosts, jobs
    and progress of streams never mix. key: names it inside its file; also the path that people see. format and
    family: of the inner line. job_ids, facts: what the record says of the stream, as in `SourceFact`.
    """

    key: str
    family: str
    format: str
    host: str = ""
    job_ids: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    progress: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A line without its wrapping.

    text: the message, ANSI and prefixes removed, secrets not yet masked. inner_offset: where `text` begins in the
    line is not kept; evidence points at the line. clock: set where the line carries two clocks (mono and wall).
    extra: further `name=value` worth keeping with a hit (`tag=kernel`, `pid=12`, `level=err`); `utc_offset=+08:00`
    (an offset that is not zero, printed with the stamp) becomes a fact of the source. stream: set by shippers' formats.
    A text of several lines (one record, `\\n` inside) is matched line by line.
    """

    text: str
    stamp: Stamp = NO_STAMP
    host: str = ""
    rank: int | None = None
    clock: tuple[str, int, int] | None = None  # (kind of wall clock, mono_us, wall_us)
    extra: dict[str, str] = field(default_factory=dict)
    ok: bool = True  # False: the line does not have the format's frame (counted as unparsed if a rule hit it)
    stream: Stream | None = None


EMPTY_FRAME = Frame("")


class LookBack(Protocol):
    """Earlier lines of the same source, nearest first, at most `LOOK_BACK` bytes before the line in question."""

    def lines(self) -> Iterator[str]: ...


@runtime_checkable
class LineFormat(Protocol):
    """One format whose records are lines.

    name: `dmesg.raw`, `syslog.rfc3164`, `joblog` ... family: kernel | syslog | journal | scheduler | job | bmc | other.
    marks: byte literals of 6 or more whose lines `mark` wants to see although no rule asks for them.
    progress: whether sampled cells are read for training progress (job family only).

    A format whose lines can hide a rule's literal (JSON escapes, bytes as numbers) may have `hidden`: literals, also
    among `marks`, whose lines are tried against all rules once they are framed.
    """

    name: str
    family: str
    marks: tuple[bytes, ...]
    progress: bool

    def sniff(self, head: bytes, inner_path: str) -> float:
        """0 (not mine) .. 1 (certain), from the first 64 KiB; the name may break ties, never decide alone."""

    def frame(self, line: str, back: LookBack) -> Frame:
        """The line without its wrapping. Never raises: what has no frame comes back with `ok=False`."""

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        """What a marked line tells of its source, as names for `SourceFact.facts` (see its docstring); {} if nothing.

        Names with a meaning: `host` (whose log this is), `job_id`, `rank_host` (`17=node003`), `boot` (value: utc or
        local microseconds of a boot), all others are kept as they are.
        """


@runtime_checkable
class RecordFormat(Protocol):
    """One format that is read as a whole.

    `written_once = True`: its files never grow, so that their ids come from their content.
    """

    name: str
    family: str

    def sniff(self, head: bytes, inner_path: str) -> float: ...

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        """Facts of the whole member. Torn records become `Quarantine` rows; only a bug raises."""


class LineMatcher(Protocol):
    """How a record format has texts inside its records matched by the rules (messages of events, of JSON lines)."""

    def __call__(
        self, text: str, *, offset: int, line: int | None, stamp: Stamp, host: str = "", rank: int | None = None
    ) -> Facts: ...


class FormatPluginError(FaultbeamError):
    """A plugin's formats cannot be used."""


def _plugins() -> Iterator[tuple[str, LineFormat | RecordFormat]]:
    """(plugin, format) of every installed package's entry points `faultbeam.formats`: modules that have `FORMATS`."""
    for point in sorted(entry_points(group=PLUGINS), key=lambda p: (p.name, p.value)):
        try:
            formats = tuple(importlib.import_module(point.value).FORMATS)
        except (ImportError, AttributeError, TypeError) as err:
            raise FormatPluginError(
                f"entry point {point.name} = {point.value} of {PLUGINS} has no formats: {err}; repair or uninstall it"
            ) from err
        for fmt in formats:
            if not isinstance(fmt, LineFormat | RecordFormat):
                raise FormatPluginError(
                    f"entry point {point.name} = {point.value} of {PLUGINS}: {fmt!r} is neither a line format nor a "
                    "record format; see CONTRIBUTING"
                )
            yield f"{point.name} = {point.value}", fmt


@cache
def registry() -> dict[str, LineFormat | RecordFormat]:
    """All formats by name: every module of this package that has `FORMATS`, in order of module name, then plugins'."""
    found: dict[str, LineFormat | RecordFormat] = {}
    package = importlib.import_module("pipeline.formats")
    for module_info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"pipeline.formats.{module_info.name}")
        for fmt in getattr(module, "FORMATS", ()):
            found[fmt.name] = fmt
    for plugin, fmt in _plugins():
        if fmt.name in found:
            raise FormatPluginError(f"plugin {plugin}: a format {fmt.name!r} is there already; give it another name")
        found[fmt.name] = fmt
    return found


def sniff(head: bytes, inner_path: str) -> LineFormat | RecordFormat | None:
    """The format that is surest of this head; None where nobody claims it with 0.3 or more (binary, unknown)."""
    best: LineFormat | RecordFormat | None = None
    best_score = 0.3
    for fmt in registry().values():
        score = fmt.sniff(head[:HEAD], inner_path)
        if score > best_score or (best is None and score >= best_score):
            best, best_score = fmt, score
    return best
