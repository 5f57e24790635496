"""One line as syslog daemons and journalctl write it: stamp, host, tag, process, message. Defines no format.

| header | writer |
|---|---|
| `bsd` | `May 17 22:41:07[.123456] host tag[1]: text`, with or without `<pri>` |
| `iso` | `2026-05-18T03:11:40.000000+00:00 host tag: text` |
| `5424` | `<34>1 2026-05-18T03:11:40Z host app 12 ID47 [sd k="v"] text`, also without `<34>1` |
| `full` | `Tue 2026-03-03 04:31:07 UTC host tag: text` |
| `unix` | `1772512267.412345 host tag: text` |
| `mono` | `[12345.678901] host tag: text` |

In front may stand the file name that grep prints (`messages:`, with line number) or pdsh's host (`node7: `).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from pipeline import stamps
from pipeline.formats.base import Frame, LookBack
from pipeline.formats.kernel_text import (
    clean,
    continuation,
    join_split,
    prompt_host,
    split_chain,
    unescape_rsyslog,
)
from schemas.facts import Stamp
from schemas.identity import short_host

_START = (
    r"[A-Za-z]{3}[a-z.]{0,2} [ \d]?\d \d\d:|\d{4}-\d\d-\d\d[T ]|<\d|[A-Z][a-z]{2} \d{4}-"
    r"|\d{10}\.\d{6} |\[ *\d+\.\d{6}\] "
)
_FRONT = re.compile(
    rf"\ufeff?(?:(?:[\w./@+-]{{1,160}}[:-](?:\d{{1,9}}[:-])?|[A-Za-z][\w.-]{{0,80}}: )(?={_START}))?"
    r"(?:<(?P<pri>\d{1,4})>(?P<v>1 )?)?"
)
_HOST = re.compile(r"(?P<host>[A-Za-z0-9_-][\w.:-]{0,252}) +")
_TAG = re.compile(r"(?P<tag>[^\s:\[\]]{1,80}(?: [A-Za-z][\w.-]{0,40})?)(?:\[(?P<pid>[\w.-]{1,20})\])?:(?: |$)")
_FIELDS = re.compile(
    r"(?P<tag>\S{1,80}) +(?P<pid>\S{1,128}) +(?P<msgid>\S{1,64}) +"
    r'(?P<sd>-|(?:\[(?:[^\]"]|"(?:[^"\\]|\\.){0,2000}"){0,2000}\]){1,20})(?: +|$)(?:\ufeff)?'
)
_REPEATED = re.compile(r"message repeated (\d{1,9}) times: \[ ?(.*?) ?\]?$")
_JOURNAL_NOTE = re.compile(
    r"-- (?:Logs begin|Journal begins|Reboot|Boot [0-9a-f]{32}|No entries|Subject:|Unit:|Support:|Defined-By:)"
)
_INNER_PRI = re.compile(r"<\d{1,4}>")
#: Words in the place of a host that say that the line is an application's own.
_NO_HOST = frozenset(
    ("info", "warn", "warning", "error", "err", "debug", "trace", "fatal", "critical", "notice", "stdout", "stderr")
)
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_Reader = tuple[str, Callable[[str, int], stamps.Found | None]]
_DIGIT: tuple[_Reader, ...] = (("iso", stamps.iso), ("unix", stamps.epoch))
_ALPHA: tuple[_Reader, ...] = (("bsd", stamps.bsd), ("full", stamps.weekday_iso))
_BRACKET: tuple[_Reader, ...] = (("mono", stamps.uptime),)


class Line(NamedTuple):
    """A line taken apart. header: see the module docstring. tag and pid are "" where the line has none."""

    header: str
    stamp: Stamp
    host: str
    tag: str
    pid: str
    text: str
    level: str


@lru_cache(maxsize=16)  # one line is looked at more than once, one after the other
def split(line: str) -> Line | None:
    """The parts of a line; None where it does not begin as one."""
    front = _FRONT.match(line)
    if front is None:
        return None
    pos = front.end()
    first = line[pos : pos + 1]
    readers = _DIGIT if first.isdigit() else _BRACKET if first == "[" else _ALPHA
    header, found = next(((name, f) for name, read in readers if (f := read(line, pos))), ("", None))
    if found is None:
        return None
    stamp, pos = found
    if line[pos : pos + 1] != " ":
        return None
    pos += 1 + (len(line) - pos - 1 - len(line[pos + 1 :].lstrip(" ")))
    level = _LEVELS[int(front["pri"]) & 7] if front["pri"] else ""
    host = _HOST.match(line, pos)
    if host is None or host["host"].lower() in _NO_HOST:
        return Line(header, stamp, "", "", "", line[pos:], level)
    name = "" if host["host"] == "-" else short_host(host["host"])
    tagged = None if front["v"] else _TAG.match(line, host.end())
    if header == "iso" and tagged is None and (m := _FIELDS.match(line, host.end())):
        tag, pid = m["tag"].removesuffix(":"), m["pid"]
        return Line("5424", stamp, name, _given(tag), _given(pid), line[m.end() :], level)
    tagged = tagged or _TAG.match(line, host.end())
    if tagged is None:
        # `host: text` of daemons that leave the tag out would make the tag a host; a lone word with a colon is a tag.
        if line[host.end() - 2 : host.end()] == ": ":
            return Line(header, stamp, "", host["host"].rstrip(":"), "", line[host.end() :], level)
        return Line(header, stamp, name, "", "", line[host.end() :], level)
    return Line(header, stamp, name, tagged["tag"], tagged["pid"] or "", line[tagged.end() :], level)


def _given(value: str) -> str:
    return "" if value == "-" else value


def _to_frame(parts: Line) -> Frame:
    text = unescape_rsyslog(parts.text)
    extra: dict[str, str] = {}
    if parts.tag:
        extra["tag"] = parts.tag
    if parts.pid:
        extra["pid"] = parts.pid
    if parts.level:
        extra["level"] = parts.level
    if m := _REPEATED.match(text):
        extra["repeated"], text = m[1], m[2]
    text = clean(text)
    clock = None
    if parts.tag.startswith("kernel") or not parts.tag:
        body = text.lstrip()
        if m2 := _INNER_PRI.match(body):
            body = body[m2.end() :]
        up = stamps.uptime(body)
        if up is not None and up[0].kind == "mono":
            text = body[up[1] :].removeprefix(" ")
            if parts.stamp.kind in ("utc", "local", "noyear"):
                clock = (parts.stamp.kind, up[0].us, parts.stamp.us)
    return Frame(text, parts.stamp, parts.host, None, clock, extra)


def frame_line(line: str, back: LookBack) -> Frame:
    """A line without its wrapping; see `kernel_text` for lines that are joined to the ones before them."""
    parts = split(line)
    if parts is not None:
        frame = _to_frame(parts)
        if parts.header in ("iso", "5424") and parts.stamp.kind == "utc" and (offset := stamps.printed_offset(line)):
            frame.extra["utc_offset"] = offset
        return join_split(frame, _earlier(back)) if split_chain(frame.text) else frame
    if _JOURNAL_NOTE.match(line) or prompt_host(line) is not None:
        return Frame("")
    joined = continuation(line, back.lines(), lambda earlier: split(earlier) is not None)
    head = None if joined is None else split(joined[0])
    if joined is None or head is None:
        return Frame(clean(line.strip()), ok=False)
    frame = _to_frame(head)
    return replace(frame, text=f"{frame.text} {clean(unescape_rsyslog(joined[1]))}".strip())


def _earlier(back: LookBack) -> Iterator[Frame]:
    for line in back.lines():
        if parts := split(line):
            yield _to_frame(parts)


def is_journal_note(line: str) -> bool:
    """Whether the line is one of journalctl's own (`-- Boot ... --`)."""
    return _JOURNAL_NOTE.match(line) is not None
