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

from pipeline.clock import SECOND, Zone
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


def zone_of(
    source: SourceFact, members: Sequence[SourceFact], fragments: Sequence[RunFragment], setting: str
) -> Verdict:
    """Zone and assumption of one source. members: all sources of its root, fragments: all fragments of its root."""
    base = Zone(setting)
    if setting != "UTC":
        return base, f"zone {setting} from the settings"
    if (printed := _printed(members)) is not None and not _fits(source, members, base):
        zone, label = printed
        return zone, f"zone {zone.label} assumed: the offset that {label} prints"
    if (booted := _from_boots(members)) is not None:
        zone, label = booted
        return zone, f"zone {zone.label} assumed: boot times in {label} fit no other"
    if (ended := _from_end(source, fragments)) is not None:
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


def _fits(source: SourceFact, members: Sequence[SourceFact], zone: Zone) -> bool:
    """Whether a dated source overlaps the UTC stamps of another source as it is."""
    span = _span(source, "local")
    if span is None:
        return False
    low, high = zone.to_utc(span[0])[0], zone.to_utc(span[1])[0]
    return any(
        low <= theirs[1] and theirs[0] <= high
        for other in members
        if other.source_id != source.source_id and (theirs := _span(other, "utc")) is not None
    )


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


def _from_end(source: SourceFact, fragments: Sequence[RunFragment]) -> Zone | None:
    jobs = {f.job_id for f in fragments}
    ends = [f.end.us for f in fragments if f.end.kind == "utc"]
    span = _span(source, "local")
    if len(jobs) != 1 or not ends or span is None or source.family != "job":
        return None
    end = max(ends)
    start = min((f.start.us for f in fragments if f.start.kind == "utc"), default=None)
    low, high = span
    if high <= end + _AGREE_US and (start is None or low >= start - _AGREE_US):
        return None  # nothing contradicts the setting: a log may well stop before its job does
    fits = []
    for minutes in OFFSETS_MIN:
        shift = minutes * 60 * SECOND
        if abs(high - shift - end) <= _AGREE_US and (start is None or low - shift >= start - _AGREE_US):
            fits.append(shift)
    return Zone(fixed_us=fits[0]) if len(fits) == 1 and fits != [0] else None
