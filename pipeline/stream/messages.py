"""What one message of a broker is: lines of logs with their frames, a document, nothing, or poison. Pure.

| value | read as |
|---|---|
| a JSON object of a shipper (Filebeat, Vector, Fluent Bit, Docker, Loki's client) | the line inside it |
| several of them, one a line or as a list | the lines inside them |
| an OTLP or Loki document | the lines inside it |
| any other JSON object of a known format (job records of Slurm, objects of Kubernetes, journal records) | that format |
| text | its lines; headers `host`, `source` (path), `offset` (byte of the file), `format` say where it came from |

Which it is, is told by the message alone, never by its neighbours. The stamp of the record counts, then that of the
line, then the broker's.

*Addresses.* Every line has one, so that it counts once however often it arrives. Where the shipper says the place of
the line in its file, that is the address, and the file is the source: then a line that was sent twice, or to two
partitions, is one line. Else the address is made of the message's offset, and the source is the stream inside this
partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.formats.base import Frame, LineFormat, RecordFormat, Stream, registry, sniff
from pipeline.formats.kernel_text import marked
from pipeline.formats.shipper_documents import ShipperDocuments
from pipeline.formats.shippers import file_place, record_of
from pipeline.scanning.lookback import NoBack, decode
from pipeline.scanning.shipped import JOB, Record, frame_of
from pipeline.scanning.window import first_end, last_end
from pipeline.sources import hints
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import digest, short_host

#: The one root of everything that a stream brings: one cluster's logs belong together.
ROOT = "stream"
#: Addresses of one message, of lines and of the records of documents.
LINES, RECORDS = 64, 4096
#: Larger JSON is not decoded. Bytes.
LARGEST_JSON = 8 << 20
#: Of longer lines the surroundings of a hit are read, or their head. Bytes.
LONGEST_LINE = 64 << 10
#: Of longer texts without a hit some lines at their head and tail are read. Bytes, and lines at either end.
LONGEST_TEXT, ENDS = 64 << 10, 50
#: From this share of control bytes on a value is no text.
_BINARY = 0.1
_CONTROL = bytes({*range(9), 11, 12, *range(14, 27), *range(28, 32)})
#: A format must be this sure of a record.
_SURE = 0.5


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Message(NamedTuple):
    """One message. time_us: the broker's stamp, microseconds UTC, None without one. headers: decoded, last one wins."""

    topic: str
    partition: int
    offset: int
    time_us: int | None
    value: bytes | None
    headers: Mapping[str, str] = _NO_HEADERS
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """A source of the stream. path: what people see. kafka: whether its addresses are made of the broker's offsets."""

    source_id: str
    path: str
    stream: Stream
    kafka: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One framed line. begin: where it stands in the value. fmt: who reads its marks, None for the inner line's own."""

    frame: Frame
    address: int
    origin: Origin
    begin: int = 0
    fmt: LineFormat | None = None

    def marks(self, text: str) -> dict[str, str]:
        """What the line tells of its source (`LineFormat.mark`)."""
        if self.fmt is not None:
            return self.fmt.mark(text, self.frame)
        if self.origin.stream.family != "job":
            return marked("", self.frame)
        found: dict[str, str] = {}
        for one in self.frame.text.split("\n"):
            found.update(JOB.mark(one, self.frame))
        return found


@dataclass(frozen=True, slots=True)
class Document:
    """A value that a record format reads as a whole. address: of its first record."""

    fmt: RecordFormat
    data: bytes
    source_id: str
    path: str
    address: int


@dataclass(frozen=True, slots=True)
class Poison:
    """A value that nothing can be made of, and why."""

    reason: str


Reading = Sequence[Line] | Document | Poison


def poison(value: bytes) -> Poison | None:
    """What can be told without decoding: a torn object, too much of it, no text at all."""
    if value.startswith(b"{") and value.endswith(b"}") and len(value) <= LARGEST_JSON:
        return None  # by far the most
    head = value[:4096]
    if head.lstrip()[:1] == b"{":
        if value[-64:].rstrip()[-1:] != b"}":
            return Poison("torn JSON: no closing brace")
        if len(value) > LARGEST_JSON:
            return Poison(f"JSON of {len(value)} bytes, more than {LARGEST_JSON}")
        return None
    if len(head) - len(head.translate(None, _CONTROL)) > _BINARY * len(head):
        return Poison("not text: too many control bytes (compressed, Avro or Protobuf?)")
    return None


def read(message: Message, wanted: Sequence[int] | None = None) -> Reading:
    """The message as lines or as a document.

    wanted: offsets inside the value; of a text only the lines there are framed. None: all lines, of a long text those
    at its ends.
    """
    value = message.value or b""
    bad = poison(value)
    if bad is not None:
        return bad
    named = message.headers.get("format", "")
    lines, records = _named(named) if named else (None, None)
    if records is not None:
        return _document(message, records, value)
    if lines is None and (
        value[:256].lstrip()[:1] == b"{" or (value[:2] == b"[{" and value[-64:].rstrip()[-2:] == b"}]")
    ):
        return _object(message, value)
    return list(_text(message, value, lines, wanted))


@cache
def _named(name: str) -> tuple[LineFormat | None, RecordFormat | None]:
    """The format that a header names, as a line format or as another one; none of both where it is a shipper's."""
    fmt = registry().get(name)
    if isinstance(fmt, LineFormat):
        return (None if getattr(fmt, "shipped", False) else fmt), None
    return None, fmt


def _object(message: Message, value: bytes) -> Reading:
    try:
        obj = json.loads(value)
    except (ValueError, RecursionError) as err:
        several = _several(message, value) if b"\n" in value else None
        return several or Poison(f"not JSON: {err}"[:200])
    if isinstance(obj, list):
        return _listed(message, obj) or Poison("a JSON list with something else than records of a shipper")
    record = record_of(obj)
    if record is not None:
        return [_shipped(message, record, file_place(obj))]
    known = _format(obj, value)
    if known is None:
        return Poison(f"JSON of no known kind: {', '.join(sorted(obj)[:8])}"[:200])
    if isinstance(known, ShipperDocuments):
        return list(_records(message, known, obj))
    if isinstance(known, LineFormat):
        return [_own(message, known, decode(value).strip())]
    return _document(message, known, value)


def _several(message: Message, value: bytes) -> list[Line] | None:
    """Records of a shipper, one a line; None where one of them is something else."""
    out = []
    for number, begin, end in _bounds(value):
        if not value[begin:end].strip():
            continue
        try:
            obj = json.loads(value[begin:end])
        except (ValueError, RecursionError):
            return None
        record = record_of(obj) if isinstance(obj, dict) else None
        if record is None:
            return None
        out.append(replace(_shipped(message, record, file_place(obj), number), begin=begin))
    return out


def _listed(message: Message, objects: Sequence[object]) -> list[Line] | None:
    """Records of a shipper as a list; None where one of them is something else."""
    out = []
    for number, obj in enumerate(objects):
        record = record_of(obj) if isinstance(obj, dict) else None
        if record is None or not isinstance(obj, dict):
            return None
        out.append(_shipped(message, record, file_place(obj), number))
    return out


_formats: dict[frozenset[str], str] = {}


def _format(obj: Mapping[str, Any], value: bytes) -> LineFormat | RecordFormat | None:
    """The format of an object that is no shipper's; objects with the same members are of the same format."""
    members = frozenset(obj)
    name = _formats.get(members)
    if name is None:
        found = sniff(value, "")
        if found is None or found.sniff(value, "") < _SURE:
            return None
        if len(_formats) > 1000:
            _formats.clear()
        name = _formats[members] = found.name
    return registry()[name]


def _document(message: Message, fmt: RecordFormat, value: bytes) -> Document:
    path, host = message.headers.get("source", ""), message.headers.get("host", "")
    named = "/".join(p for p in (f"hosts/{short_host(host)}" if host else "", path.strip("/") or fmt.name) if p)
    source = digest("stream-documents", message.topic, message.partition, fmt.name, named)
    return Document(fmt, value, source, f"{message.topic}/{message.partition}!{named}", message.offset * RECORDS)


def _records(message: Message, fmt: ShipperDocuments, doc: Mapping[str, Any]) -> Iterator[Line]:
    """Lines of an OTLP or Loki document."""
    for n, record in enumerate(fmt.records(doc)):
        if record is not None:
            frame = _stamped(frame_of(record), message)
            assert frame.stream is not None
            origin = _origin(message, frame.stream, None, "documents")
            yield Line(frame, message.offset * RECORDS + min(n, RECORDS - 1), origin)


def _shipped(message: Message, record: Record, place: tuple[int, str] | None, number: int = 0) -> Line:
    frame = _stamped(frame_of(record), message)
    assert frame.stream is not None
    origin = _origin(message, frame.stream, place)
    if place is not None and not origin.kafka:
        return Line(frame, place[0], origin)
    return Line(frame, message.offset * LINES + min(number, LINES - 1), origin)


def _text(message: Message, value: bytes, fmt: LineFormat | None, wanted: Sequence[int] | None) -> Iterator[Line]:
    """Lines of a text, all of them or those that hold one of the offsets `wanted`."""
    if wanted is None and len(value) > LONGEST_TEXT:
        wanted = _ends(value)
    bounds = _bounds(value) if wanted is None else _bounds_at(value, wanted)
    base = _number(message.headers.get("offset", ""))
    path = message.headers.get("source", "")
    host = message.headers.get("host", "") or hints.host(path)
    place = None if base is None else (base, "")
    for number, begin, end in bounds:
        text = decode(value[begin:end])
        if not text.strip():
            continue
        if fmt is not None:
            yield _own(message, fmt, text, number, begin)
            continue
        frame = _stamped(frame_of(Record(text, host=host, path=path)), message)
        stream = frame.stream
        assert stream is not None
        if stream.family == "job" and not stream.job_ids and path:
            stream = replace(stream, job_ids=hints.job_ids(path))
        yield _placed(message, replace(frame, stream=stream), stream, place, number, begin)


def _own(message: Message, fmt: LineFormat, text: str, number: int = 0, begin: int = 0) -> Line:
    """A line of a line format that a header names, or that knows its records."""
    path = message.headers.get("source", "")
    frame = _stamped(fmt.frame(text, NoBack()), message, fmt.family)
    if frame.stream is not None:
        return _placed(message, frame, frame.stream, None, number, begin)
    host = message.headers.get("host", "") or hints.host(path) or (frame.host if fmt.family == "journal" else "")
    host = short_host(host)
    key = "/".join(p for p in (f"hosts/{host}" if host else "", path.strip("/") or fmt.name) if p)
    jobs = hints.job_ids(path) if fmt.family == "job" else ()
    stream = Stream(key, fmt.family, fmt.name, host, jobs, progress=fmt.progress)
    base = _number(message.headers.get("offset", ""))
    return replace(_placed(message, frame, stream, None if base is None else (base, ""), number, begin), fmt=fmt)


def _placed(
    message: Message, frame: Frame, stream: Stream, place: tuple[int, str] | None, number: int, begin: int
) -> Line:
    origin = _origin(message, stream, place)
    if place is not None and not origin.kafka:
        return Line(frame, place[0] + begin, origin, begin)
    return Line(frame, message.offset * LINES + min(number, LINES - 1), origin, begin)


def _origin(message: Message, stream: Stream, place: tuple[int, str] | None, kind: str = "lines") -> Origin:
    """Whose line it is. A place in a file counts only where host or pod say which file that is."""
    if place is not None and stream.key.startswith(("hosts/", "pods/")):
        return _file_origin(message.topic, stream, place[1])
    return _kafka_origin(message.topic, message.partition, stream, kind)


@lru_cache(maxsize=50_000)
def _file_origin(topic: str, stream: Stream, file: str) -> Origin:
    source = digest("stream", stream.key, stream.family, file)
    return Origin(source, f"{topic}!{stream.key}", stream, kafka=False)


@lru_cache(maxsize=50_000)
def _kafka_origin(topic: str, partition: int, stream: Stream, kind: str) -> Origin:
    source = digest("stream", topic, partition, stream.key, stream.family, kind)
    return Origin(source, f"{topic}/{partition}!{stream.key}", stream, kafka=True)


def _stamped(frame: Frame, message: Message, family: str = "job") -> Frame:
    """The frame with the broker's stamp where record and line have none, or only an uptime."""
    if message.time_us is None or frame.stamp.kind not in ("none", "mono"):
        return frame
    if frame.stamp.kind == "mono":
        if (frame.stream.family if frame.stream is not None else family) == "job":
            return frame  # in job output a number in brackets is some timer
        return replace(frame, clock=frame.clock or ("utc", frame.stamp.us, message.time_us))
    return replace(frame, stamp=Stamp("utc", message.time_us)) if frame.stamp == NO_STAMP else frame


def _bounds(value: bytes) -> Iterator[tuple[int, int, int]]:
    """(number, begin, end) of all lines."""
    begin = number = 0
    while begin < len(value):
        end = first_end(value, begin, len(value))
        end = len(value) if end < 0 else end
        yield number, begin, min(end, begin + LONGEST_LINE)
        begin, number = end + 1, number + 1


def _bounds_at(value: bytes, wanted: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(number, begin, end) of the lines that hold one of these offsets, which rise."""
    counted = number = 0
    stop = -1
    for at in wanted:
        if at <= stop:
            continue
        begin = last_end(value, max(0, at - LONGEST_LINE // 2), at) + 1 or max(0, at - LONGEST_LINE // 2)
        stop = first_end(value, at, min(at + LONGEST_LINE // 2, len(value)))
        stop = min(at + LONGEST_LINE // 2, len(value)) if stop < 0 else stop
        if number < LINES:  # from there on all have the last address
            number += value.count(b"\n", counted, begin) + value.count(b"\r", counted, begin)
            counted = begin
        yield number, begin, stop


def _ends(value: bytes) -> list[int]:
    """Offsets of some lines at the head and at the tail."""
    found: list[int] = []
    tail: list[int] = []
    at = 0
    while len(found) < ENDS and 0 <= at < len(value):
        found.append(at)
        at = first_end(value, at, len(value)) + 1 or len(value)
    at = len(value)
    while len(tail) < ENDS and at > LONGEST_LINE:
        at = last_end(value, at - LONGEST_LINE, at - 1) + 1 or at - LONGEST_LINE
        tail.append(at)
    return sorted({*found, *(t for t in tail if t > found[-1])})


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
