"""Entries of a BMC's system event log in one shape, whichever tool printed them. Pure.

Read are `ipmitool sel list` (sensor numbers) and `sel elist` (sensor names), `ipmitool -c sel list` (commas), the
table of FreeIPMI's `ipmi-sel` (also with `-v` columns or commas) and the record form (`SEL Record ID: ...`, one field
a line). The sentence that rules match is the same for all:

    ipmi sel: Power Supply PS2 Status: Failure detected (Asserted)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.formats.records import RawLine
from pipeline.stamps import parse_field, sel
from schemas.facts import NO_STAMP, Stamp

_ID = re.compile(r"[0-9a-fA-F]{1,4}")
_DATE = re.compile(r"(?:\d\d/\d\d/(?:\d{4}|\d\d)|[A-Z][a-z]{2}-\d\d-\d{4}|Pre-?[Ii]nit|PostInit|Unspecified)")
_DIRECTION = re.compile(r"(Deasserted|Asserted|Deassertion Event|Assertion Event)\b", re.IGNORECASE)
_RECORD_KEY = re.compile(r"\s*([A-Z][A-Za-z /]*[A-Za-z])\s*: (.*)$")
#: `# node017: ipmitool sel elist`, `node017: ...`: how collected logs say whose they are.
_HOST = re.compile(
    r"(?:#+\s*|=+\s*|\$\s*)?(?:host(?:name)?\s*[:=]\s*)?([A-Za-z0-9][\w.-]{0,252})(?::|\s*\$|\s*#)\s*"
    r"(?:ipmitool|ipmi-sel|bmc|sel)\b"
)
_HOST_ONLY = re.compile(r"#+\s*(?:host(?:name)?|node|BMC of)\s*[:=]?\s+([A-Za-z0-9][\w.-]{0,252})\s*$")


@dataclass(frozen=True, slots=True)
class Entry:
    """One event: when, on which sensor, what, and whether it came or went ("" where not printed)."""

    offset: int
    length: int
    line: int
    stamp: Stamp
    sensor: str
    event: str
    direction: str  # Asserted | Deasserted
    severity: str = ""

    @property
    def sentence(self) -> str:
        state = f" [{self.severity}]" if self.severity else ""
        # Colons part the sentence, so they may not stand inside its parts.
        sensor, event = (" ".join(text.replace(":", " ").split()) for text in (self.sensor, self.event))
        return f"ipmi sel: {sensor}: {event}{state} ({self.direction})"


@dataclass(frozen=True, slots=True)
class Torn:
    offset: int
    length: int
    reason: str


def host_of(text: str) -> str:
    """The host that a heading names, "" if the line is none."""
    m = _HOST.match(text) or _HOST_ONLY.match(text)
    return m[1] if m else ""


def _direction(text: str) -> str:
    m = _DIRECTION.search(text)
    if m is None:
        return "Asserted"
    return "Deasserted" if m[1].lower().startswith("de") else "Asserted"


def _stamp(date: str, time: str) -> Stamp:
    found = sel(f"{date.strip()} | {time.strip()}")
    return found[0] if found else NO_STAMP


def _sensor(kind: str, name: str) -> str:
    kind, name = kind.strip(), name.strip()
    if not kind or name.startswith(kind):
        return name or kind
    return f"{kind} {name}".strip()


def _free_ipmi(header: Sequence[str], cells: Sequence[str], line: RawLine) -> Entry:
    row = {h: c.strip() for h, c in zip(header, cells, strict=True)}
    event = row.get("event", "")
    direction = _direction(row.get("event direction", "") or (event if _DIRECTION.search(event) else ""))
    severity = row.get("state", "")
    if severity in ("N/A", ""):
        severity = ""
    return Entry(
        line.offset, line.length, line.number, _stamp(row.get("date", ""), row.get("time", "")),
        _sensor(row.get("type", ""), row.get("name", "")), event, direction, severity,
    )  # fmt: skip


def _ipmitool(cells: Sequence[str], line: RawLine) -> Entry | None:
    """`id | date | time | sensor | event | direction` and its shorter kin: Pre-Init has one cell for date and time."""
    cells = [c.strip() for c in cells]
    if len(cells) < 4 or not _ID.fullmatch(cells[0]) or not _DATE.match(cells[1]):
        return None
    if cells[1].lower().startswith(("pre", "post")) and not re.fullmatch(r"\d\d:\d\d:\d\d|\d{10}", cells[2]):
        at, rest = NO_STAMP, cells[2:]
    else:
        at, rest = _stamp(cells[1], cells[2]), cells[3:]
    if not rest or not rest[0]:
        return None
    event = " ".join(c for c in rest[1:] if c and not _DIRECTION.fullmatch(c)) if len(rest) > 1 else ""
    return Entry(line.offset, line.length, line.number, at, rest[0], event, _direction(" ".join(rest[1:])))


def _record(pairs: dict[str, str], first: RawLine, length: int) -> Entry:
    at = parse_field(pairs.get("Timestamp", ""))
    if at == NO_STAMP:
        date, _, time = pairs.get("Timestamp", "").strip().partition(" ")
        at = _stamp(date, time)
    kind = pairs.get("Sensor Type", "").strip()
    name = (
        pairs.get("Sensor Name", pairs.get("Sensor ID", "")).strip() or f"#0x{pairs.get('Sensor Number', '').strip()}"
    )
    return Entry(
        first.offset, length, first.number, at, _sensor(kind, name), pairs.get("Description", "").strip(),
        _direction(pairs.get("Event Direction", "")),
    )  # fmt: skip


def header_of(text: str) -> tuple[tuple[str, ...], str] | None:
    """(columns, delimiter) if the line heads a FreeIPMI table."""
    for delim in ("|", ","):
        names = tuple(n.strip().lower() for n in text.split(delim))
        if len(names) >= 4 and names[0] in ("id", "record id") and {"date", "time"} <= set(names) and "event" in names:
            return names, delim
    return None


def entries(lines: Sequence[RawLine]) -> Iterator[Entry | Torn]:
    """All entries in order; lines that are neither an entry nor a heading come as `Torn`."""
    header: tuple[tuple[str, ...], str] | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        text = line.text
        at += 1
        if not text.strip() or text.lstrip().startswith(("#", "SEL has no entries", "=")) or host_of(text):
            continue
        if found := header_of(text):
            header = found
            continue
        if re.match(r"\s*SEL Record ID\s*: ", text):
            pairs, length = {}, line.length
            while at < len(lines) and (m := _RECORD_KEY.match(lines[at].text)) and "SEL Record ID" not in m[1]:
                pairs[m[1]] = m[2]
                length += lines[at].length
                at += 1
            yield _record(pairs, line, length)
            continue
        if header is not None:
            cells = text.split(header[1])
            if len(cells) > len(header[0]):  # an event may hold the delimiter: it is the last column
                last = len(header[0]) - 1
                cells = [*cells[:last], header[1].join(cells[last:])]
            if len(cells) == len(header[0]) and cells[0].strip().isalnum():
                yield _free_ipmi(header[0], cells, line)
                continue
        entry = _ipmitool(text.split("|"), line) if "|" in text else _ipmitool(text.split(","), line)
        yield entry or Torn(line.offset, line.length, "not an entry of a system event log")


def looks_like_entry(text: str) -> bool:
    """Whether a line is an entry of ipmitool."""
    return _ipmitool(text.split("|"), RawLine(0, 1, 0, text)) is not None
