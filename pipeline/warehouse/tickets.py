"""A site's own fault history (tickets, RMA lists, a published trace) as records of faults, by a mapping from a file.

Pure but for reading the files. Input: CSV or TSV with a heading, a JSON document with a list, or JSON lines. A record
is one fault, or one of two events of it (`pair`). Every record that is not a fault is told with its reason, never
guessed: `read_tickets` gives tickets and refusals, and their numbers add up to the records read.

A mapping (YAML), names of fields may be dotted paths into nested objects:

    records: data.tickets          # where the list is in a JSON document; left out: the document itself
    host: node_id
    id: [ticket]                   # left out: host, start and what was mapped
    start: opened
    end: closed
    time: {zone: Europe/Berlin}    # stamps without offset; or {unit: days, origin: 2024-03-30T00:00:00Z}
    pair: {field: event_type, start: fault_start, end: fault_end, by: [node_id, fault_type]}
    note: [summary]
    component:
      fields: [category, detail]
      table: classes.tsv           # beside the mapping; its columns:
      keys: [category, detail]
      value: component
      map: {"GPU/DBE": gpu.hbm}    # instead of a table, or before it; fields joined by /
      default: unknown             # left out: a record that nothing maps is refused
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import PipelineError
from pipeline.stamps import parse_field
from schemas.identity import digest, short_host
from schemas.taxonomy import components

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "minutes": 60_000_000, "hours": 3_600_000_000, "days": 86_400_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TicketError(PipelineError):
    """A mapping or a file of tickets that cannot be used as a whole."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TimeMap(_Strict):
    """How times are written: text of any usual form, or numbers of `unit` since `origin`."""

    zone: str = "UTC"
    unit: str = ""
    origin: datetime | None = None


class PairMap(_Strict):
    """Records that are the begin or the end of a fault; `by` are the fields that tie the two together."""

    field: str
    start: str
    end: str
    by: list[str] = Field(min_length=1)


class ComponentMap(_Strict):
    """From a site's own words to a component of the taxonomy."""

    fields: list[str] = Field(min_length=1)
    table: str = ""
    keys: list[str] = []
    value: str = "component"
    map: dict[str, str] = {}
    default: str | None = None


class TicketMap(_Strict):
    """See the module docstring."""

    host: str
    start: str
    component: ComponentMap
    records: str = ""
    id: list[str] = []
    end: str = ""
    time: TimeMap = TimeMap()
    pair: PairMap | None = None
    note: list[str] = []


@dataclass(frozen=True, slots=True)
class Ticket:
    """One fault. start_us, end_us: UTC microseconds; end None while it is open. words: the site's own, joined by /."""

    key: str
    host: str
    component: str
    start_us: int
    end_us: int | None
    words: str
    note: str
    record: int  # 1-based


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is no fault by the mapping, and why."""

    record: int
    reason: str


@dataclass(frozen=True, slots=True)
class Tickets:
    """All that a file gave: `2 * ended + open + refused` records with pairs, else `tickets + refused`."""

    tickets: tuple[Ticket, ...]
    refused: tuple[Refused, ...]
    records: int


def read_mapping(path: Path) -> tuple[TicketMap, dict[str, str]]:
    """The mapping and its table, joined words -> component. TicketError names the file and the field."""
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        mapping = TicketMap.model_validate(raw)
    except (OSError, yaml.YAMLError, ValidationError) as err:
        raise TicketError(f"{path}: not a mapping of tickets: {err}; see docs/tickets.md") from err
    table = dict(mapping.component.map)
    if mapping.component.table:
        table = {**_table(path.parent / mapping.component.table, mapping.component), **table}
    known = components()
    for words, component in [*table.items(), ("default", mapping.component.default or "unknown")]:
        if component not in known:
            raise TicketError(f"{path}: {words!r} is mapped to {component!r}, which is not in the taxonomy")
    return mapping, table


def _table(path: Path, component: ComponentMap) -> dict[str, str]:
    try:
        rows = list(_separated(path.read_text(encoding="utf-8-sig")))
    except OSError as err:
        raise TicketError(f"{path}: the table of components cannot be read: {err}") from err
    keys = component.keys or component.fields
    for name in (*keys, component.value):
        if rows and name not in rows[0]:
            raise TicketError(f"{path}: has no column {name!r}; it has {', '.join(rows[0])}")
    return {"/".join(str(row[k]).strip() for k in keys): str(row[component.value]).strip() for row in rows}


def _separated(text: str) -> Iterator[dict[str, str]]:
    head = text.split("\n", 1)[0]
    delimiter = max("\t,;|", key=head.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    for row in reader:
        yield {(k or ""): (v if isinstance(v, str) else "") for k, v in row.items()}


def records_of(data: bytes, where: str) -> list[Mapping[str, Any]]:
    """The records of a file, by its content: JSON, JSON lines, or separated values."""
    text = data.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in ("[", "{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as err:
            try:
                found = [json.loads(line) for line in text.splitlines() if line.strip()]
            except (ValueError, RecursionError):
                raise TicketError(f"not JSON: {err}; repair the file or give it as CSV") from err
        for name in filter(None, where.split(".")):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, dict):
            found = [found]
        if not isinstance(found, list):
            raise TicketError(f"no list of records at {where or 'the top of the document'!r}; set `records`")
        return [r if isinstance(r, dict) else {} for r in found]
    return list(_separated(text))


def read_tickets(data: bytes, mapping: TicketMap, table: Mapping[str, str]) -> Tickets:
    """All faults of a file."""
    records = records_of(data, mapping.records)
    found: list[Ticket] = []
    refused: list[Refused] = []
    for n, record in enumerate(records, 1):
        ticket = _ticket(record, n, mapping, table)
        (refused if isinstance(ticket, Refused) else found).append(ticket)  # type: ignore[arg-type]
    if mapping.pair is not None:
        found, lonely = _paired(found, records, mapping.pair)
        refused.extend(lonely)
    return Tickets(tuple(_unique(found)), tuple(sorted(refused, key=lambda r: r.record)), len(records))


def _ticket(record: Mapping[str, Any], n: int, mapping: TicketMap, table: Mapping[str, str]) -> Ticket | Refused:
    host = short_host(_text(record, mapping.host))
    if not host:
        return Refused(n, f"no host in {mapping.host!r}")
    start = _time(_text(record, mapping.start), mapping.time)
    if start is None:
        return Refused(n, f"{mapping.start!r} is no time: {_text(record, mapping.start)[:60]!r}")
    end_text = _text(record, mapping.end) if mapping.end else ""
    end = _time(end_text, mapping.time) if end_text else None
    if end_text and end is None:
        return Refused(n, f"{mapping.end!r} is no time: {end_text[:60]!r}")
    if end is not None and end < start:
        return Refused(n, "it ends before it begins")
    words = "/".join(_text(record, f) for f in mapping.component.fields)
    component = table.get(words, mapping.component.default)
    if component is None:
        return Refused(n, f"nothing maps {words!r} to a component, and there is no default")
    told = [_text(record, f) for f in mapping.id]
    key = digest("ticket", *told) if all(told) and told else digest("ticket", host, str(start), words)
    note = "; ".join(t for f in mapping.note if (t := _text(record, f)))
    return Ticket(key, host, component, start, end, words, note, n)


def _paired(
    found: Sequence[Ticket], records: Sequence[Mapping[str, Any]], pair: PairMap
) -> tuple[list[Ticket], list[Refused]]:
    """Begins with the ends that follow them, first in first out; begins without an end stay open."""
    opened: dict[str, list[Ticket]] = {}
    done: list[Ticket] = []
    refused: list[Refused] = []
    for ticket in sorted(found, key=lambda t: (t.start_us, t.record)):
        record = records[ticket.record - 1]
        what, by = _text(record, pair.field), json.dumps([_text(record, f) for f in pair.by])
        if what == pair.start:
            opened.setdefault(by, []).append(ticket)
        elif what != pair.end:
            refused.append(Refused(ticket.record, f"{pair.field!r} is neither begin nor end: {what[:60]!r}"))
        elif waiting := opened.get(by):
            done.append(replace(waiting.pop(0), end_us=ticket.start_us))
        else:
            refused.append(Refused(ticket.record, "an end without a begin"))
    done += [ticket for waiting in opened.values() for ticket in waiting]
    return sorted(done, key=lambda t: t.record), refused


def _unique(tickets: Sequence[Ticket]) -> Iterator[Ticket]:
    """The same host, time and words twice are two faults where the site gives no id: each gets a key of its own."""
    seen: dict[str, int] = {}
    for ticket in tickets:
        n = seen[ticket.key] = seen.get(ticket.key, 0) + 1
        yield ticket if n == 1 else replace(ticket, key=digest(ticket.key, n))


def _text(record: Mapping[str, Any], path: str) -> str:
    value: Any = record
    if path in record:
        value = record[path]
    else:
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return ""
    return value.strip() if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _time(text: str, how: TimeMap) -> int | None:
    if how.unit:
        if how.unit not in _UNITS:
            raise TicketError(f"time.unit {how.unit!r} is not one of {', '.join(_UNITS)}")
        try:
            passed = round(float(text) * _UNITS[how.unit])
        except (ValueError, OverflowError):
            return None
        origin = how.origin or _EPOCH
        origin = origin if origin.tzinfo is not None else origin.replace(tzinfo=UTC)
        return passed + (origin - _EPOCH) // timedelta(microseconds=1)
    stamp = parse_field(text)
    if stamp.kind == "utc":
        return stamp.us
    if stamp.kind != "local":
        return None
    try:
        zone = ZoneInfo(how.zone)
    except (ZoneInfoNotFoundError, ValueError) as err:
        raise TicketError(f"time.zone {how.zone!r} is not a zone, like Europe/Berlin") from err
    naive = _EPOCH + timedelta(microseconds=stamp.us)
    return (naive.replace(tzinfo=zone).astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
