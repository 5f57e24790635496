r"""journald's own records: `journalctl -o json` (one object a line), `-o json-pretty` and `-o export`.

`journal.json` frames one line. All values are strings; a message that is not UTF-8 is a list of byte numbers, one that
is too long is null, a field that occurs twice is a list. `journal.export` frames the `MESSAGE` line of a record and
looks back for the fields that journalctl writes before it; fields of the same boot from the record before serve where
they follow the message (`_HOSTNAME` may). `journal.json_pretty` is read as a whole, because its order is arbitrary.

Stamp: the sender's `_SOURCE_REALTIME_TIMESTAMP`, else `__REALTIME_TIMESTAMP` (arrival). Kernel records of the first
ten minutes of a boot may have waited for journald: arrival is late by the difference of the monotonic stamps, which
is taken off. Clock pair: `_SOURCE_MONOTONIC_TIMESTAMP` and that time. `Frame.extra`: `tag`, `pid`, `level`,
`boot`, `unit`.

A message in byte numbers hides its text from a scan for literals, so `"MESSAGE":[` is a mark, and `hidden`: all rules
are tried on such a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipeline.formats.base import Frame, LineMatcher, LookBack, SourceInfo
from pipeline.formats.kernel_text import MARKS, clean, join_split, marked, split_chain
from pipeline.formats.records import Collector
from pipeline.formats.sniffing import sample, shares
from schemas.facts import NO_STAMP, Facts, Stamp
from schemas.identity import short_host

_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_JSON_LINE = re.compile(r'\s*\{.{0,4000}"__(?:REALTIME_TIMESTAMP|CURSOR)"\s*:')
_EXPORT_FIELD = re.compile(r"(_{0,2}[A-Z][A-Z0-9_]{0,63})=(.*)", re.DOTALL)
#: An arrival may be corrected by at most this, and only so early in a boot.
_EARLY_US = 600_000_000
_LATE_US = 2_000_000

Fields = Mapping[str, object]


def _one(fields: Fields, name: str) -> str:
    """The first value of a field as text; "" where it is missing or null."""
    value = fields.get(name)
    if isinstance(value, list):
        if value and all(isinstance(v, int) and 0 <= v < 256 for v in value):
            return bytes(value).decode("utf-8", "replace")
        value = value[0] if value else None
        if isinstance(value, list):
            return _one({name: value}, name)
    return value if isinstance(value, str) else ("" if value is None else str(value))


def _number(fields: Fields, name: str) -> int | None:
    value = _one(fields, name)
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 16 else None


def _when(fields: Fields) -> tuple[Stamp, tuple[str, int, int] | None]:
    arrived = _number(fields, "__REALTIME_TIMESTAMP")
    sent = _number(fields, "_SOURCE_REALTIME_TIMESTAMP")
    mono = _number(fields, "_SOURCE_MONOTONIC_TIMESTAMP")
    us = sent if sent is not None else arrived
    if us is None:
        return (NO_STAMP if mono is None else Stamp("mono", mono)), None
    if mono is None:
        return Stamp("utc", us), None
    read = _number(fields, "__MONOTONIC_TIMESTAMP")
    if sent is None and read is not None and mono < _EARLY_US and _LATE_US < read - mono < _EARLY_US:
        us -= read - mono
    return Stamp("utc", us), ("utc", mono, us)


def to_frame(fields: Fields) -> Frame:
    """A journal record as a frame. An empty message (null, binary coredump) frames as empty text."""
    stamp, clock = _when(fields)
    extra: dict[str, str] = {}
    for name, keys in (
        ("tag", ("SYSLOG_IDENTIFIER", "_COMM")),
        ("pid", ("SYSLOG_PID", "_PID")),
        ("unit", ("_SYSTEMD_UNIT",)),
        ("boot", ("_BOOT_ID",)),
    ):
        if value := next((v for key in keys if (v := _one(fields, key))), ""):
            extra[name] = value
    priority = _number(fields, "PRIORITY")
    if priority is not None and priority < 8:
        extra["level"] = _LEVELS[priority]
    text = clean(_one(fields, "MESSAGE").replace("\n", " "))
    return Frame(text, stamp, short_host(_one(fields, "_HOSTNAME")), None, clock, extra)


def _record(line: str) -> Fields | None:
    try:
        value = json.loads(line.strip().rstrip(","))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and any(key.startswith("__") for key in value) else None


class JournalJson:
    """`journalctl -o json`: one object a line."""

    name = "journal.json"
    family = "journal"
    hidden = (b'"MESSAGE":[', b'"MESSAGE" : [')
    marks = (*MARKS, *hidden)
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if b'"__REALTIME_TIMESTAMP"' not in head and b'"__CURSOR"' not in head:
            return 0.0
        found = shares(sample(head), lambda line: "json" if _JSON_LINE.match(line) else None)
        return 0.98 * found.by_name.get("json", 0.0)

    def frame(self, line: str, back: LookBack) -> Frame:
        fields = _record(line)
        if fields is None:
            return Frame(clean(line), ok=False)
        frame = to_frame(fields)
        return join_split(frame, _earlier_json(back)) if split_chain(frame.text) else frame

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        return marked("" if line.lstrip().startswith("{") else line, frame)


def _earlier_json(back: LookBack) -> Iterator[Frame]:
    for line in back.lines():
        fields = _record(line)
        if fields is not None:
            yield to_frame(fields)


class JournalExport:
    """`journalctl -o export`: `FIELD=value` lines, records separated by a blank line, binary values with a length."""

    name = "journal.export"
    family = "journal"
    marks = MARKS
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if b"__REALTIME_TIMESTAMP=" not in head:
            return 0.0
        found = shares(sample(head), lambda line: "field" if _EXPORT_FIELD.match(line) else None)
        return 0.98 if found.by_name.get("field", 0.0) > 0.5 else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:
        m = _EXPORT_FIELD.match(line)
        if m is not None and m[1] != "MESSAGE":
            return Frame("")  # a hit on another field (command line, unit) says nothing that the message does not
        text, earlier = (m[2], list(back.lines())) if m else _binary(line, list(back.lines()))
        if text is None:
            return Frame(clean(line), ok=False)
        records = _export_records(earlier)
        fields: dict[str, object] = dict(next(records, {}))
        boot = fields.get("_BOOT_ID")
        before = [r for r in records if r.get("_BOOT_ID") == boot]
        for name in ("_HOSTNAME", "SYSLOG_IDENTIFIER"):
            if name not in fields and before and name in before[0]:
                fields[name] = before[0][name]
        frame = to_frame({**fields, "MESSAGE": text})
        if split_chain(frame.text):
            return join_split(frame, (to_frame({"_HOSTNAME": frame.host, **r}) for r in before))
        return frame

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        return marked("", frame)


def _binary(line: str, earlier: list[str]) -> tuple[str | None, list[str]]:
    """A line inside a binary `MESSAGE`: name alone on a line, eight bytes of length, then the text."""
    parts = [line]
    for n, before in enumerate(earlier):
        if before == "MESSAGE":
            parts[-1] = _without_length(parts[-1])
            return " ".join(reversed(parts)), earlier[n + 1 :]
        if n > 40 or not before or _EXPORT_FIELD.match(before):
            break
        parts.append(before)
    return None, earlier


def _without_length(first: str) -> str:
    """The first line of a binary value without its length: eight bytes, of which a reader may have dropped the NULs."""
    cut = first[:8].rfind("\0")
    if cut >= 0:
        return first[cut + 1 :]
    return first[1:] if len(first.encode("utf-8", "replace")) <= 256 else first[2:]


def _export_records(earlier: list[str]) -> Iterator[dict[str, object]]:
    """Records before a line, nearest first; the first is the line's own, as far as it was printed before it.

    A look back may leave blank lines out, so a record also ends where it begins: journalctl writes `__CURSOR` first,
    and `__REALTIME_TIMESTAMP` once.
    """
    fields: dict[str, object] = {}
    for line in earlier:
        m = _EXPORT_FIELD.match(line)
        if fields and (not line.strip() or (m is not None and m[1] == "__REALTIME_TIMESTAMP" and m[1] in fields)):
            yield fields
            fields = {}
        if m is not None:
            fields[m[1]] = m[2]
            if m[1] == "__CURSOR":
                yield fields
                fields = {}
    yield fields


class JournalPretty:
    """`journalctl -o json-pretty` and arrays of records: objects over many lines, read as a whole."""

    name = "journal.json_pretty"
    family = "journal"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if not re.match(rb"(?:\xef\xbb\xbf)?\s*[{\[]", head) or b'"__REALTIME_TIMESTAMP"' not in head:
            return 0.0
        one_line = shares(sample(head), lambda line: "json" if _JSON_LINE.match(line) else None)
        return 0.9 if one_line.by_name.get("json", 0.0) < 0.5 or head.lstrip()[:1] == b"[" else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        names: dict[str, int] = {}
        clocks: dict[int, tuple[str, int, int]] = {}  # one a minute of uptime is plenty
        for offset, number, raw in _objects(data):
            try:
                fields = json.loads(raw.decode("utf-8", "replace"))
            except (ValueError, RecursionError) as error:
                out.quarantine(offset, len(raw), f"torn journal record: {error}")
                continue
            frame = to_frame(fields)
            if frame.host:
                names[frame.host] = names.get(frame.host, 0) + 1
            if frame.clock is not None:
                clocks.setdefault(frame.clock[1] // 60_000_000, frame.clock)
            for key, value in marked("", frame).items():
                out.facts.add(f"{key}={value}")
            hits = match(frame.text, offset=offset, line=number, stamp=frame.stamp, host=frame.host)
            out.matched(hits, frame.stamp)
        facts = out.result()
        (source,) = facts.sources
        source = replace(source, names=tuple(sorted(names.items())), clocks=tuple(sorted(clocks.values())))
        return replace(facts, sources=(source,))


def _objects(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(offset, line, bytes) of each outermost object. Braces inside strings do not count."""
    token = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]|\n', re.DOTALL)
    depth, start, line, start_line = 0, 0, 1, 1
    for m in token.finditer(data):
        found = m[0]
        if found == b"\n":
            line += 1
        elif found == b"{":
            depth += 1
            if depth == 1:
                start, start_line = m.start(), line
        elif found == b"}" and depth:
            depth -= 1
            if depth == 0:
                yield start, start_line, data[start : m.end()]
        else:
            line += found.count(b"\n")
    if depth:
        yield start, start_line, data[start:]


FORMATS = (JournalJson(), JournalExport(), JournalPretty())
