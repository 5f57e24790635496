"""Stamps as the sources of a site print them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Calendar:
    """Turns seconds since the start into printed stamps; `skew` in seconds is the printing host's error."""

    start: datetime
    zone: ZoneInfo

    def utc(self, t: float, skew: float = 0.0) -> datetime:
        return self.start + timedelta(seconds=t + skew)

    def local(self, t: float, skew: float = 0.0) -> datetime:
        return self.utc(t, skew).astimezone(self.zone)

    def slurm(self, t: float) -> str:
        return self.local(t).strftime("%Y-%m-%dT%H:%M:%S")

    def slurmctld(self, t: float) -> str:
        return self.local(t).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]

    def rfc3164(self, t: float, skew: float) -> str:
        moment = self.local(t, skew)
        return f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S}"

    def iso(self, t: float, skew: float) -> str:
        return self.utc(t, skew).isoformat(timespec="microseconds")

    def ctime(self, t: float, skew: float) -> str:
        moment = self.local(t, skew)
        return f"{moment:%a %b} {moment.day:2d} {moment:%H:%M:%S %Y}"

    def logging(self, t: float, skew: float) -> str:
        moment = self.local(t, skew)
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"

    def torch(self, t: float, skew: float) -> str:
        moment = self.local(t, skew)
        return f"{moment.month}{moment:%d %H:%M:%S}.{moment.microsecond:06d}000"


def calendar(start: str, zone: str) -> Calendar:
    """A calendar from an ISO start (UTC if it names no zone) and an IANA zone; ValueError or KeyError if wrong."""
    moment = datetime.fromisoformat(start)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return Calendar(moment, ZoneInfo(zone))
