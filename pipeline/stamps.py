"""Reading time stamps: text in, `Stamp` in the frame in which it was printed out. No year, zone or clock is assumed.

Every family has one function `family(text, pos=0) -> (Stamp, end) | None`: the stamp that begins exactly at `pos` and
the index behind it. `find_stamp(text)` tries them all at a line's start, then the unmistakable ones further right;
`parse_field(value)` reads a whole column. Nothing here raises: what is no valid time is None or `NO_STAMP`.

Frames (see `schemas.facts.Stamp`): a printed offset gives `utc`; a full date without one `local`; no year `noyear`
(microseconds into the leap year 2000, so that 29 February exists); only a time of day `time`; uptime `mono`.
A leap second (`:60`) is read as the last microsecond before it, so that it sorts behind `:59`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime

from schemas.facts import NO_STAMP, Stamp

Found = tuple[Stamp, int]

SECOND = 1_000_000
DAY = 86_400 * SECOND
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FRAME_DAY = date(2000, 1, 1).toordinal()
#: Years outside are taken for something else (version, step, model name).
_YEARS = range(1990, 2100)

MONTHS = {
    m: i + 1 for i, m in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"))
}
#: Beginnings of month names that `date` prints in other languages (it, fr, de, es, pt).
_OTHER_MONTHS = {
    "gen": 1, "ene": 1, "fév": 2, "fev": 2, "mär": 3, "mrz": 3, "abr": 4, "avr": 4, "mai": 5, "mag": 5, "giu": 6,
    "lug": 7, "ago": 8, "aoû": 8, "set": 9, "ott": 10, "okt": 10, "out": 10, "déc": 12, "dic": 12, "dez": 12,
}  # fmt: skip
#: Zone names with one meaning. Others (CST, IST, BST) have several and leave a stamp local.
_ZONES = {
    "Z": 0, "UTC": 0, "GMT": 0, "CET": 60, "CEST": 120, "EET": 120, "EEST": 180, "JST": 540, "KST": 540,
    "EST": -300, "EDT": -240, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420,
}  # fmt: skip

_MON = r"Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_DOW = r"Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_CLOCK = r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
_ZONE = (
    r"(?:Z\b|UTC\b|[+-]\d\d(?::?\d\d)?(?!\d|[:.]\d)"
    r"|\s(?:UTC|GMT|[A-Z]{3,4}(?=[\s\])]|$)|[+-]\d\d(?::?\d\d)?(?!\d|[:.]\d)))"
)

_ISO = re.compile(rf"(\d{{4}})([-/.])(\d\d)\2(\d\d)(?:T|[ _]{{1,2}}|-){_CLOCK}({_ZONE})?")
_FULL = re.compile(rf"(?:{_DOW}),?\s+")
_CTIME = re.compile(
    rf"(?:{_DOW})\s+({_MON})\s+(\d{{1,2}})\s+{_CLOCK}(?:\s+(AM|PM))?(?:\s+([A-Z]{{2,5}}|[+-]\d\d(?::?\d\d)?))?"
    r"(?:\s+(\d{4})\b)?"
)
_BSD = re.compile(rf"({_MON})\s+(\d{{1,2}})\s+(?:(\d{{4}})\s+)?{_CLOCK}")
_BSD_OTHER = re.compile(rf"([^\W\d_]{{3,5}})\.? +(\d{{1,2}}) {_CLOCK}")
_RFC2822 = re.compile(rf"(\d{{1,2}})[ /-]({_MON})[ /-](\d{{4}})[ :]{_CLOCK}({_ZONE})?")
_GLOG = re.compile(rf"[IWEFCD](?:(\d{{4}})(\d\d)(\d\d)|(\d{{1,2}}?)(\d\d)) {_CLOCK}")
_MMDD = re.compile(rf"(\d\d)([/-])(\d\d)(?:\2(\d{{4}}|\d\d))?\s+{_CLOCK}")
_COMPACT = re.compile(rf"(\d{{4}})(\d\d)(\d\d)[-T _]{_CLOCK}(Z\b)?")
_TIME = re.compile(rf"{_CLOCK}(?=[\])\s,|:-]|$)")
_EPOCH = re.compile(r"(\d{10})(?:\.(\d{1,9}))?(?![\d.,])|(\d{13}|\d{16}|\d{19})(?![\d.])")
_UPTIME = re.compile(r"\[\s*(\d{1,10})\.(\d{6})(?:\s+<\s*\d{1,12}\.\d{6}\s?>)?\](?:\[\s*[TC]\d+\])?")
_DELTA = re.compile(r"\[(?:<\s*(\d{1,10}\.\d{6})>|\s*\+(\d{1,10}\.\d{6}))\]")
_MINUTE = re.compile(rf"\[({_MON})\s?(\d{{1,2}}) (\d\d):(\d\d)\]")
_KMSG = re.compile(r"(\d{1,4}),(\d{1,20}),(\d{1,16}),[^;\s]{0,40};")
_SEL = re.compile(
    rf"(?:(\d\d)/(\d\d)/(\d{{4}}|\d\d)|({_MON})-(\d\d)-(\d{{4}}))\s*\|\s*{_CLOCK}(?:\s+(AM|PM))?(?:\s+([A-Z]{{3,5}})\b)?"
)
_JSON_EPOCH = re.compile(r'"__REALTIME_TIMESTAMP"\s*:\s*"?(\d{16})')
_JSON_UPTIME = re.compile(r'"time"\s*:\s*(\d{1,10})\.(\d{6})\s*,')
_DATE_OTHER = re.compile(
    r"(?:\w+\.?,?\s+)?(\d{1,2})\.?\s+(\w{3,})\.?\s+(\d{4}),?\s+(\d\d)[.:](\d\d)[.:](\d\d),?(?:\s+(AM|PM))?"
    r"(?:\s+([A-Z]{2,5}|[+-]\d\d(?::?\d\d)?))?"
)
_LEAD = re.compile(
    r"\ufeff?\s*(?:<\d{1,3}>(?:1 )?)?(?:\[(?:rank|default)\d+\]:\s?)?"
    r"(?:(?:kern|user|mail|daemon|auth|syslog|authpriv|local[0-7])\s*:[a-z]+\s*:\s*)?"
)
#: Stamps that are told from other text wherever they stand in the first characters of a line.
_INLINE = re.compile(
    r"(?<![\d.])(?:\d{4}([-/])\d\d\1\d\d[T _-]{1,2}\d\d:|\d{8}[-T _]\d\d:\d\d:"
    r"|\d\d[-/]\d\d \d\d:\d\d:\d\d|\d\d/\d\d/\d{2,4}\s)"
    r"|(?<![\d.\w=:-])1[5-9]\d{8}\.\d{3,9}\b|\b[IWEFC]\d{3,4} \d\d:\d\d:\d\d\.\d{6}"
)
#: Month names stand in messages as well (build dates): these count only near the start.
_INLINE_NAMES = re.compile(
    rf"\b(?:{_DOW}),?\s+(?:{_MON}|\d{{4}}-)|\b(?:{_MON})[ -]+\d{{1,2}}[ -]|\b\d{{1,2}}[ /-](?:{_MON})[ /-]\d{{4}}"
)
_PRINTED = re.compile(r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\s?([+-]\d\d):?(\d\d)(?!\d|[:.]\d)")
#: How far right of a line's start a stamp is looked for.
NEAR = 120
_NEAR_NAMES = 40


def _days(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal()
    except ValueError:
        return None


def _clock(h: str, m: str, s: str, frac: str | None, half: str | None = None) -> int | None:
    """Microseconds since midnight of a printed time of day; fraction digits beyond six are cut."""
    hour, minute, second = int(h), int(m), int(s)
    if half is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "PM" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    if second == 60:
        return (hour * 3600 + minute * 60 + 59) * SECOND + SECOND - 1
    us = int(frac[:6].ljust(6, "0")) if frac else 0
    return (hour * 3600 + minute * 60 + second) * SECOND + us


def _offset(zone: str | None) -> int | None:
    """Microseconds east of UTC of a printed zone; None where it is missing or has more than one meaning."""
    if not zone:
        return None
    zone = zone.strip()
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        hours, minutes = int(digits[:2]), int(digits[2:])
        if hours > 14 or minutes > 59:
            return None
        east = (hours * 60 + minutes) * 60 * SECOND
        return east if zone[0] == "+" else -east
    named = _ZONES.get(zone)
    return None if named is None else named * 60 * SECOND


def _zone_name(word: str) -> bool:
    """Whether a word behind a stamp names a zone, known or not (`CST`, `AEST`)."""
    return word in _ZONES or (word.endswith("T") and len(word) in (3, 4))


def _dated(year: int, month: int, day: int, clock: int | None, zone: str | None = None) -> Stamp | None:
    days = _days(year, month, day) if year in _YEARS else None
    if days is None or clock is None:
        return None
    us = (days - _EPOCH_DAY) * DAY + clock
    east = _offset(zone)
    return Stamp("local", us) if east is None else Stamp("utc", us - east)


def _noyear(month: int, day: int, clock: int | None) -> Stamp | None:
    days = _days(2000, month, day)
    if days is None or clock is None:
        return None
    return Stamp("noyear", (days - _FRAME_DAY) * DAY + clock)


def _full_year(text: str) -> int:
    return int(text) + (2000 if len(text) == 2 else 0)


def _found(stamp: Stamp | None, end: int) -> Found | None:
    return None if stamp is None else (stamp, end)


def iso(text: str, pos: int = 0) -> Found | None:
    """`2026-03-03T04:31:07`; blank, `_` or `-` for T, `/` or `.` in the date, comma or dot fraction, offset or Z."""
    m = _ISO.match(text, pos)
    if m is None:
        return None
    year, _, month, day, h, mi, s, frac, zone = m.groups()
    end = m.end()
    if zone and zone[0] == " " and zone.strip().isalpha() and not _zone_name(zone.strip()):
        end -= len(zone)  # a word that follows, such as a log level
    return _found(_dated(int(year), int(month), int(day), _clock(h, mi, s, frac), zone), end)


def compact(text: str, pos: int = 0) -> Found | None:
    """`20310423-11:20:12.801`, also with blank, `_` or T."""
    m = _COMPACT.match(text, pos)
    if m is None:
        return None
    year, month, day, h, mi, s, frac, zone = m.groups()
    return _found(_dated(int(year), int(month), int(day), _clock(h, mi, s, frac), zone), m.end())


def ctime(text: str, pos: int = 0) -> Found | None:
    """`Fri Mar  3 03:40:54 2023`, with zone before the year (`date`), AM/PM, fraction, or without the year."""
    m = _CTIME.match(text, pos)
    if m is None:
        return None
    mon, day, h, mi, s, frac, half, zone, year = m.groups()
    month, clock = MONTHS[mon.lower()], _clock(h, mi, s, frac, half)
    if year is None:
        end = m.end(7) if half else (m.end(6) if frac else m.end(5))
        return _found(_noyear(month, int(day), clock), end)
    return _found(_dated(int(year), month, int(day), clock, zone), m.end())


def weekday_iso(text: str, pos: int = 0) -> Found | None:
    """`Tue 2026-03-03 04:31:07 UTC` (journalctl short-full) and `Sat, 09 Aug 2025 10:35:32 GMT` (RFC 2822)."""
    m = _FULL.match(text, pos)
    return None if m is None else iso(text, m.end()) or day_month_year(text, m.end())


def day_month_year(text: str, pos: int = 0) -> Found | None:
    """`09 Aug 2025 10:35:32 GMT`, `09/Aug/2025:10:35:32 +0000`."""
    m = _RFC2822.match(text, pos)
    if m is None:
        return None
    day, mon, year, h, mi, s, frac, zone = m.groups()
    return _found(_dated(int(year), MONTHS[mon.lower()], int(day), _clock(h, mi, s, frac), zone), m.end())


def bsd(text: str, pos: int = 0) -> Found | None:
    """`Nov 26 09:36:22` (RFC 3164, journalctl), with a fraction, and `Mar 03 2026 07:53:55` (fabric manager)."""
    m = _BSD.match(text, pos)
    if m is None:
        return _bsd_other(text, pos)
    mon, day, year, h, mi, s, frac = m.groups()
    month, clock = MONTHS[mon.lower()], _clock(h, mi, s, frac)
    if year is not None:
        return _found(_dated(int(year), month, int(day), clock), m.end())
    return _found(_noyear(month, int(day), clock), m.end())


def _bsd_other(text: str, pos: int) -> Found | None:
    """`Mär 03 04:31:07`: journalctl prints month names in the reader's language."""
    m = _BSD_OTHER.match(text, pos)
    month = None if m is None else _OTHER_MONTHS.get(m[1][:3].lower())
    if m is None or month is None:
        return None
    return _found(_noyear(month, int(m[2]), _clock(*m.groups()[2:6])), m.end())


def glog(text: str, pos: int = 0) -> Found | None:
    """Level letter and date: `E0303 04:31:07.412345` (glog, klog, absl), `E303 ...` (PyTorch), `I20260303 ...`."""
    m = _GLOG.match(text, pos)
    if m is None:
        return None
    year, month8, day8, month, day, h, mi, s, frac = m.groups()
    clock = _clock(h, mi, s, frac)
    if year is not None:
        return _found(_dated(int(year), int(month8), int(day8), clock), m.end())
    return _found(_noyear(int(month), int(day), clock), m.end())


def month_day(text: str, pos: int = 0) -> Found | None:
    """`12/09 06:49:23` and `06-12 12:34:56` (month first), with a year `12/09/2023 06:49:23`."""
    m = _MMDD.match(text, pos)
    if m is None:
        return None
    month, _, day, year, h, mi, s, frac = m.groups()
    clock = _clock(h, mi, s, frac)
    if year is not None:
        return _found(_dated(_full_year(year), int(month), int(day), clock), m.end())
    return _found(_noyear(int(month), int(day), clock), m.end())


def time_of_day(text: str, pos: int = 0) -> Found | None:
    """`15:58:29`, `15:58:29.801`: no date at all."""
    m = _TIME.match(text, pos)
    clock = None if m is None else _clock(*m.groups())
    return None if m is None or clock is None else (Stamp("time", clock), m.end())


def epoch(text: str, pos: int = 0) -> Found | None:
    """Seconds since 1970 in 10 digits (with fraction), or 13, 16 and 19 digits for milli-, micro- and nanoseconds."""
    m = _EPOCH.match(text, pos)
    if m is None:
        return None
    seconds, frac, long = m.groups()
    if seconds is not None:
        us = int(seconds) * SECOND + (int(frac[:6].ljust(6, "0")) if frac else 0)
    else:
        us = int(long[:16].ljust(16, "0"))
    if not 1_000_000_000 * SECOND <= us < 4_100_000_000 * SECOND:
        return None
    return Stamp("utc", us), m.end()


def uptime(text: str, pos: int = 0) -> Found | None:
    """`[12345.678901]`, blank-padded, with `<delta>` or `[ T123]` behind: since boot; with 10 integer digits: epoch.

    Nine digits are still an uptime: three years without a reboot happen, an epoch before 2001 does not.
    """
    m = _UPTIME.match(text, pos)
    if m is None:
        return None
    us = int(m[1]) * SECOND + int(m[2])
    return Stamp("utc" if len(m[1]) == 10 else "mono", us), m.end()


def delta(text: str, pos: int = 0) -> Found | None:
    """`[<    0.021786>]` and `[  +0.080805]`: a step since the line before. The stamp is `none`; see `delta_us`."""
    m = _DELTA.match(text, pos)
    return None if m is None else (NO_STAMP, m.end())


def delta_us(text: str, pos: int = 0) -> int | None:
    """The step that `delta` reads, in microseconds."""
    m = _DELTA.match(text, pos)
    return None if m is None else int((m[1] or m[2]).replace(".", ""))


def minute(text: str, pos: int = 0) -> Found | None:
    """`[Nov30 21:50]`: the anchor of dmesg's relative times, resolution one minute."""
    m = _MINUTE.match(text, pos)
    if m is None:
        return None
    return _found(_noyear(MONTHS[m[1].lower()], int(m[2]), _clock(m[3], m[4], "0", None)), m.end())


def kmsg(text: str, pos: int = 0) -> Found | None:
    """`6,1234,5678901234,-;`: /dev/kmsg, microseconds since boot."""
    m = _KMSG.match(text, pos)
    return None if m is None else (Stamp("mono", int(m[3])), m.end())


def sel(text: str, pos: int = 0) -> Found | None:
    """`03/03/2026 | 07:50:01 UTC` (ipmitool, month first, two-digit year on new ones), `Mar-12-2023 | 21:47:47`."""
    m = _SEL.match(text, pos)
    if m is None:
        return None
    month, day, year, mon, day2, year2, h, mi, s, frac, half, zone = m.groups()
    clock = _clock(h, mi, s, frac, half)
    if mon is not None:
        return _found(_dated(int(year2), MONTHS[mon.lower()], int(day2), clock, zone), m.end())
    return _found(_dated(_full_year(year), int(month), int(day), clock, zone), m.end())


def json_stamp(text: str, pos: int = 0) -> Found | None:
    """`"__REALTIME_TIMESTAMP":"1772512267412345"` (journald) and `"time": 0.000000,` (dmesg -J) at `pos`."""
    if m := _JSON_EPOCH.match(text, pos):
        return Stamp("utc", int(m[1])), m.end()
    if m := _JSON_UPTIME.match(text, pos):
        return Stamp("mono", int(m[1]) * SECOND + int(m[2])), m.end()
    return None


def date_command(text: str, pos: int = 0) -> Found | None:
    """Output of `date` in some languages: `Thu Oct 27 08:50:11 PM -03 2022`, `mar 13 set 2011, 23.11.55, CEST`."""
    if found := ctime(text, pos) or weekday_iso(text, pos):
        return found
    m = _DATE_OTHER.match(text, pos)
    if m is None:
        return None
    day, name, year, h, mi, s, half, zone = m.groups()
    month = MONTHS.get(name[:3].lower()) or _OTHER_MONTHS.get(name[:3].lower())
    if month is None:
        return None
    return _found(_dated(int(year), month, int(day), _clock(h, mi, s, None, half), zone), m.end())


_DIGIT: tuple[Callable[[str, int], Found | None], ...] = (
    iso, month_day, time_of_day, compact, epoch, sel, day_month_year, kmsg,
)  # fmt: skip
_ALPHA: tuple[Callable[[str, int], Found | None], ...] = (bsd, ctime, weekday_iso, glog, sel)
_BRACKET: tuple[Callable[[str, int], Found | None], ...] = (uptime, minute, delta)
_TAIL = re.compile(r"\s*[\])]?:?\s*")


def _at(text: str, pos: int) -> Found | None:
    """Whatever stamp begins at `pos`, after a digit, a letter or an opening bracket."""
    c = text[pos : pos + 1]
    if c.isdigit():
        readers = _DIGIT
    elif c in "[(":
        for read in _BRACKET:
            if found := read(text, pos):
                return found
        inner = pos + 1
        while text[inner : inner + 1] == " ":
            inner += 1
        return None if text[inner : inner + 1] in ("[", "(", "") else _at(text, inner)
    elif c.isalpha():
        readers = _ALPHA
    else:
        return None
    for read in readers:
        if found := read(text, pos):
            return found
    return None


def find_stamp(text: str) -> Found | None:
    """The stamp at or near the start of a line, and where the message begins; None if the line has none.

    Before a stamp at the start only blanks, `<prio>`, a rank tag and brackets may stand: the message begins behind
    it and its closing bracket. Where words stand before it (`app WARNING (2026-03-03 04:22:45,123) - text`,
    JSON), they belong to the message, which then begins at 0. A step (`[  +0.08]`) has the stamp `NO_STAMP`.
    """
    lead = _LEAD.match(text)
    pos = lead.end() if lead else 0
    if found := _at(text, pos):
        tail = _TAIL.match(text, found[1])
        return found[0], tail.end() if tail else found[1]
    head = text[:NEAR]
    for m in (*_INLINE.finditer(head), *_INLINE_NAMES.finditer(head[:_NEAR_NAMES])):
        if inline := _at(text, m.start()):
            return inline[0], 0
    for pattern in (_JSON_EPOCH, _JSON_UPTIME):
        if (m2 := pattern.search(text)) and (record := json_stamp(text, m2.start())):
            return record[0], 0
    if head.startswith("Date:") and (dated := date_command(text, 5 + len(head[5:]) - len(head[5:].lstrip()))):
        return dated[0], 0
    if text.lstrip().startswith("{") and (m3 := re.search(r'"(?:time|timestamp|ts|@timestamp)"\s*:\s*"', text)):
        field = _at(text, m3.end())
        return None if field is None else (field[0], 0)
    return None


def printed_offset(text: str) -> str:
    """The offset that the stamp near a line's start is printed with, as `+08:00`; "" for none, zero or a zone's name.

    Who prints an offset tells in which zone the other clocks around it are likely to be (`pipeline.placing.place`).
    """
    m = _PRINTED.search(text, 0, NEAR)
    if m is None or (m[1][1:] == "00" and m[2] == "00"):
        return ""
    return f"{m[1]}:{m[2]}" if int(m[1][1:]) <= 14 and int(m[2]) < 60 else ""


def parse_field(value: str) -> Stamp:
    """A stamp that fills a whole column or value; `NO_STAMP` for `Unknown`, `None`, empty and other words."""
    value = value.strip().strip('"')
    if not value or value in ("Unknown", "None", "N/A", "null"):
        return NO_STAMP
    found = _at(value, 0) or date_command(value)
    return NO_STAMP if found is None else found[0]


def utc_text(us: int) -> str:
    """UTC microseconds as ISO 8601 with Z, microseconds only where there are any."""
    whole = datetime.fromtimestamp(us // SECOND, UTC).replace(microsecond=us % SECOND)
    return whole.isoformat().replace("+00:00", "Z")
