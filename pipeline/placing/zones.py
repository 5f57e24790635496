"""In which zone does a source print stamps that name none? The setting, unless the root's own UTC times contradict it.

Three kinds of evidence inside one root, strongest first. Each only speaks where the zone of the settings is UTC (a
zone that somebody set is believed), and each names itself in `Clock.assumed`:
1. another source prints one offset, not zero, with its stamps (fact `utc_offset=+08:00`);
2. a controller log prints boot times since 1970 that lie in the future of its own stamps;
3. the root has one job whose end is known in UTC, and a local job log begins before it or outlasts it, while one offset
   in use somewhere makes both ends agree within two minutes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.placing.clock import SECOND, Interval, Zone, merged
from schemas.facts import RunFragment, SourceFact

#: Minutes east of UTC of all zones in use (whole hours, and those with half hours and quarters).
OFFSETS_MIN = (
    *range(-12 * 60, 14 * 60 + 1, 60),
    *(-570, -210, -150, 210, 270, 330, 345, 390, 525, 570, 630, 765),
)
_AGREE_US = 120 * SECOND
#: A node reports to its controller within this after a boot.
_REPORT_US = 30 * 60 * SECOND
_OFFSET = re.compile(r"utc_offset=([+-])(\d\d):?(\d\d)$")

Verdict = tuple[Zone, str | None]


def zones_of(group: Sequence[SourceFact], fragments: Sequence[RunFragment], setting: str) -> dict[str, Verdict]:
    """Zone and assumption of every source of one root. fragments: all of that root."""
    base = Zone(setting)
    if setting != "UTC":
        return {source.source_id: (base, f"zone {setting} from the settings") for source in group}
    printed, booted = _printed(group), _from_boots(group)
    explicit = merged(span for source in group if (span := _span(source, "utc")) is not None)
    job = _only_job(fragments)
    return {source.source_id: _zone_of(source, base, printed, booted, explicit, job) for source in group}


def _zone_of(
    source: SourceFact,
    base: Zone,
    printed: tuple[Zone, str] | None,
    booted: tuple[Zone, str] | None,
    explicit: Sequence[Interval],
    job: tuple[int | None, int] | None,
) -> Verdict:
    if printed is not None and not _fits(source, base, explicit):
        zone, label = printed
        return zone, f"zone {zone.label} assumed: the offset that {label} prints"
    if booted is not None:
        zone, label = booted
        return zone, f"zone {zone.label} assumed: boot times in {label} fit no other"
    if job is not None and (ended := _from_end(source, *job)) is not None:
        return ended, f"zone {ended.label} inferred: the log then ends with the only job of its root"
    return base, "zone UTC assumed"


def _label(source: SourceFact) -> str:
    return source.inner_paths[0] if source.inner_paths else source.source_id


def _span(source: SourceFact, kind: str) -> tuple[int, int] | None:
    return next(((low, high) for k, low, high in source.spans if k == kind), None)


def _printed(members: Sequence[SourceFact]) -> tuple[Zone, str] | None:
    found: dict[int, str] = {}
    for source in members:
        for fact in source.facts:
            if m := _OFFSET.match(fact):
                minutes = int(m[2]) * 60 + int(m[3])
                found.setdefault(-minutes if m[1] == "-" else minutes, _label(source))
    found.pop(0, None)
    if len(found) != 1:
        return None
    minutes, label = found.popitem()
    return Zone(fixed_us=minutes * 60 * SECOND), label


def _fits(source: SourceFact, zone: Zone, explicit: Sequence[Interval]) -> bool:
    """Whether a dated source without offsets overlaps stamps with one as it is."""
    span = _span(source, "local")
    if span is None:
        return False
    low, high = zone.to_utc(span[0])[0], zone.to_utc(span[1])[0]
    return any(low <= b and a <= high for a, b in explicit)


def _from_boots(members: Sequence[SourceFact]) -> tuple[Zone, str] | None:
    zones: dict[int, str] = {}
    for source in members:
        span = _span(source, "local")
        boots = [
            int(f.split("=", 1)[1]) for f in source.facts if f.startswith("boot:") and f.rpartition("=")[2].isdigit()
        ]
        if span is None or not boots or span[1] >= max(boots):
            continue
        fits = [m for m in OFFSETS_MIN if 0 <= span[1] - m * 60 * SECOND - max(boots) <= _REPORT_US]
        if len(fits) == 1:
            zones.setdefault(fits[0], _label(source))
    if len(zones) != 1:
        return None
    minutes, label = zones.popitem()
    return Zone(fixed_us=minutes * 60 * SECOND), label


def _only_job(fragments: Sequence[RunFragment]) -> tuple[int | None, int] | None:
    """(start, end) in UTC of the root's only job; None where there are more, or no end is known in UTC."""
    ends = [f.end.us for f in fragments if f.end.kind == "utc"]
    if len({f.job_id for f in fragments}) != 1 or not ends:
        return None
    return min((f.start.us for f in fragments if f.start.kind == "utc"), default=None), max(ends)


def _from_end(source: SourceFact, start: int | None, end: int) -> Zone | None:
    span = _span(source, "local")
    if span is None or source.family != "job":
        return None
    low, high = span
    if high <= end + _AGREE_US and (start is None or low >= start - _AGREE_US):
        return None  # nothing contradicts the setting: a log may well stop before its job does
    fits = []
    for minutes in OFFSETS_MIN:
        shift = minutes * 60 * SECOND
        if abs(high - shift - end) <= _AGREE_US and (start is None or low - shift >= start - _AGREE_US):
            fits.append(shift)
    return Zone(fixed_us=fits[0]) if len(fits) == 1 and fits != [0] else None
