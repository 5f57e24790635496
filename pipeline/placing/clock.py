"""The clock of one source: turns stamps of any frame into UTC, with what had to be assumed for it.

`pipeline.placing.place` builds clocks from all facts together; this module only computes. Everything is plain data
and pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from statistics import median_low
from typing import NamedTuple
from zoneinfo import ZoneInfo

from pipeline.errors import PipelineError
from pipeline.placing.devices import Gpu
from schemas.facts import Stamp

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
Interval = tuple[int, int]  # microseconds, both ends included
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local microseconds are counted without a zone
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FRAME_DAY = date(2000, 1, 1).toordinal()
#: The kernel's clock is not disciplined: about a second a day away from the nearest known pair.
DRIFT = 1.2e-5
#: How many of the nearest pairs the offset is taken from.
NEAREST = 5
#: A stamp that was borrowed from an earlier line may be late by this, seconds.
BORROWED_S = 30.0
NOWHERE = (None, float("inf"))


class ZoneError(PipelineError):
    """A zone name that this machine does not know."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone by IANA name, or a fixed offset in microseconds east of UTC (inferred, or printed elsewhere)."""

    name: str = "UTC"
    fixed_us: int | None = None

    def to_utc(self, local_us: int, after: int | None = None) -> tuple[int, float]:
        """UTC microseconds of a local time, and seconds of doubt.

        An hour that exists twice (clocks set back) is the first one, with an hour of doubt, unless `after`, the UTC
        time of something earlier in the same source, rules that out. A time that does not exist (clocks set
        forward) moves on by the gap, with the gap as doubt.
        """
        if self.fixed_us is not None:
            return local_us - self.fixed_us, 0.0
        if self.name == "UTC":
            return local_us, 0.0
        # Rules change at whole minutes: a quarter of an hour never holds two offsets' worth of change.
        first, second = _offsets(self.name, local_us // (15 * 60 * SECOND))
        if first == second:
            return local_us - first, 0.0
        doubt = abs(first - second) / SECOND
        if first < second:  # a gap
            return local_us - first, doubt
        if after is not None and local_us - first < after:
            return local_us - second, 0.0
        return local_us - first, doubt

    def to_local(self, utc_us: int) -> int:
        """Local microseconds of a UTC time."""
        if self.fixed_us is not None:
            return utc_us + self.fixed_us
        if self.name == "UTC":
            return utc_us
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=utc_us)
        offset = moment.astimezone(_zone(self.name)).utcoffset()
        return utc_us + (0 if offset is None else offset // timedelta(microseconds=1))

    @property
    def label(self) -> str:
        """The zone in words: its name, or `+08:00`."""
        if self.fixed_us is None:
            return self.name
        minutes = abs(self.fixed_us) // (60 * SECOND)
        return f"{'-' if self.fixed_us < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        msg = f"unknown time zone {name!r}: {error}; give an IANA name such as Europe/Berlin or UTC"
        raise ZoneError(msg) from None


@lru_cache(maxsize=65536)
def _offsets(name: str, quarter: int) -> tuple[int, int]:
    """Microseconds east of UTC before and after any change, for a local quarter of an hour."""
    local = _EPOCH + timedelta(minutes=15 * quarter)
    zone = _zone(name)
    both = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    first, second = (0 if o is None else o // timedelta(microseconds=1) for o in both)
    return first, second


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same stretches of time, sorted and without overlaps."""
    out: list[Interval] = []
    for low, high in sorted(intervals):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return out


def in_year(frame_us: int, year: int) -> int | None:
    """Local microseconds of a stamp without a year in this year; None for 29 February of a common year."""
    day = date.fromordinal(_FRAME_DAY + frame_us // DAY)
    try:
        there = day.replace(year=year)
    except ValueError:
        return None
    return (there.toordinal() - _EPOCH_DAY) * DAY + frame_us % DAY


def year_of(local_us: int) -> int:
    """The year of local microseconds."""
    return date.fromordinal(_EPOCH_DAY + local_us // DAY).year


def latest_before(frame_us: int, until: int) -> int | None:
    """Local microseconds of the last time that a stamp without a year can stand for, before `until`."""
    top = year_of(until)
    for year in range(top, top - 9, -1):  # 29 February may be eight years back
        local = in_year(frame_us, year)
        if local is not None and local < until:
            return local
    return None


class Shift(NamedTuple):
    """What is added to the stamps of a clock that is off. us: microseconds. doubt_s: of the shift. why: in words."""

    us: int
    doubt_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of one source.

    host: whose log it is, "" if several or unknown. zone: of stamps that print none. noyear_until: local microseconds
    that no stamp without a year reaches (each is the latest such date before it), None where no year is known. day:
    local microseconds of the midnight of stamps without a date, else None. anchors: (mono_us, utc_us), sorted by the
    first. doubt_s: uncertainty of a stamp of this source. method: `explicit`, `zone assumed`, `year assumed`, `date
    assumed`, `boot-relative`, `none`: the weakest step that its stamps need. assumed: what was assumed, in words.
    shift: of the clock that wrote the stamps; by_host: of the hosts whose stamps those of its lines are (`on`).
    gpus: of the host, by all their names. aliases: host names in its lines that the scheduler calls otherwise.
    """

    host: str = ""
    method: str = "none"
    assumed: tuple[str, ...] = ()
    zone: Zone = Zone()
    noyear_until: int | None = None
    day: int | None = None
    anchors: tuple[tuple[int, int], ...] = ()
    doubt_s: float = 1.0
    anchor_doubt_s: float = 1.0
    shift: Shift | None = None
    by_host: tuple[tuple[str, Shift], ...] = ()
    gpus: tuple[Gpu, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()

    def on(self, host: str) -> Clock:
        """The clock of the lines of one host (a short name), in a log of several."""
        shift = next((shift for name, shift in self.by_host if name == host), None) if self.by_host else None
        return self if shift is None else replace(self, shift=shift, by_host=())

    def utc(self, stamp: Stamp, after: int | None = None) -> tuple[int | None, float]:
        """UTC microseconds and uncertainty in seconds; (None, inf) where nothing ties the stamp to UTC.

        after: UTC microseconds of an earlier line of the same source, which tells the second of a doubled hour.
        """
        shift = self.shift
        if shift is None:
            us, doubt = self._place(stamp, after)
        else:
            us, doubt = self._place(stamp, None if after is None else after - shift.us)
            us, doubt = (None if us is None else us + shift.us), doubt + shift.doubt_s
        return us, doubt + BORROWED_S if stamp.borrowed and us is not None else doubt

    def _place(self, stamp: Stamp, after: int | None) -> tuple[int | None, float]:
        if stamp.kind == "utc":
            return stamp.us, min(self.doubt_s, 1.0)
        if stamp.kind == "mono":
            return self._booted(stamp.us)
        local: int | None = None
        if stamp.kind == "local":
            local = stamp.us
        elif stamp.kind == "noyear" and self.noyear_until is not None:
            local = latest_before(stamp.us, self.noyear_until)
        elif stamp.kind == "time" and self.day is not None:
            local = self.day + stamp.us
        if local is None:
            return NOWHERE
        us, doubt = self.zone.to_utc(local, after)
        return us, self.doubt_s + doubt

    def _booted(self, mono: int) -> tuple[int | None, float]:
        if not self.anchors:
            return NOWHERE
        at = bisect_left(self.anchors, (mono,))
        near = sorted(self.anchors[max(0, at - NEAREST) : at + NEAREST], key=lambda a: (abs(a[0] - mono), a))[:NEAREST]
        offset = median_low([utc - up for up, utc in near])
        away = min(abs(up - mono) for up, _ in near) / SECOND
        return mono + offset, self.anchor_doubt_s + away * DRIFT
