"""Placing: whose log each source is, and what its stamps mean in UTC, decided from all facts together.

Pure and independent of the order of its inputs: no wall clock, no environment. What is assumed is said in
`Clock.assumed`; what nothing ties to UTC stays None (`Clock.utc`), never guessed.

Order of the steps: hosts (`placing_hosts`), zones (`placing_zones`), then years and dates from the dated sources of the
same folder or root (`placing_years`), then boots, because anchors may come from lines whose year was just found
(`placing_boots`), and at last how far the clocks of hosts are off, from events that two clocks date (`skew`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from pipeline.placing.boots import Estimate, anchor
from pipeline.placing.clock import Clock, Interval, Zone, merged
from pipeline.placing.devices import gpus_by_host
from pipeline.placing.hosts import aliases_of, hosts_of
from pipeline.placing.skew import with_skew
from pipeline.placing.years import only_day, year_window
from pipeline.placing.zones import zones_of
from schemas.facts import RunFragment, SourceFact, Stamp
from schemas.identity import short_host
from schemas.settings import Settings

__all__ = ["Clock", "place"]

#: Seconds of doubt that a format's own stamps have, beyond their resolution.
_FORMAT_DOUBT_S = {
    # dmesg computes wall time from uptime when it is read: drift and suspend shift it.
    "dmesg.ctime": 5.0,
    "dmesg.iso": 5.0,
    # Anchored to a whole minute, always printed early.
    "dmesg.reltime": 60.0,
}
_SCHEDULER_BOOT_S = 5.0
#: Facts `<name>:<host>=<microseconds>` of a scheduler, and the frame of their values.
_SCHEDULER_BOOTS = {"boot": "utc", "boot_local": "local"}
_BOOT_LINE_S = 5.0
_PAIR_S = 1.0
#: Words for `Clock.method`, from the strongest to the weakest; a clock is named by the weakest that it needs.
_METHODS = ("explicit", "zone assumed", "year assumed", "date assumed", "boot-relative", "none")


def place(sources: Iterable[SourceFact], fragments: Iterable[RunFragment], settings: Settings) -> dict[str, Clock]:
    """A clock for every source, by source id.

    sources: all that are to be seen together (one input, or a warehouse's). fragments: what schedulers said of runs;
    their start and end date the other sources of the root. settings: only `tz` is read.
    """
    ordered = sorted(sources, key=lambda s: (s.source_id, s.root))
    members: dict[str, list[SourceFact]] = {}
    for source in ordered:
        members.setdefault(source.root, []).append(source)
    root_of = {source.source_id: source.root for source in ordered}
    runs: dict[str, list[RunFragment]] = {}
    for fragment in _in_order(fragments):
        runs.setdefault(root_of.get(fragment.source_id, ""), []).append(fragment)

    hosts = hosts_of(ordered, runs)
    clocks: dict[str, Clock] = {}
    for root, group in members.items():
        clocks.update(_wall_clocks(group, runs.get(root, []), settings.tz))
    for source in ordered:
        host, why = hosts[source.source_id]
        clock = clocks[source.source_id]
        clocks[source.source_id] = replace(clock, host=host, assumed=(*clock.assumed, why) if why else clock.assumed)
    by_host = _estimates_by_host(ordered, clocks)
    for root, group in members.items():
        dated = _Dated(group, runs.get(root, []), {s.source_id: clocks[s.source_id].zone for s in group})
        booted = _booted(group, clocks, by_host)
        for source in group:
            sid = source.source_id
            clocks[sid] = _with_boot(source, clocks[sid], booted, by_host, dated.root)
    if aliases := aliases_of(ordered):
        for source in ordered:
            mine = {name for printed, _ in source.names if (name := short_host(printed)) in aliases}
            if mine:
                pairs = tuple((name, aliases[name]) for name in sorted(mine))
                clocks[source.source_id] = replace(clocks[source.source_id], aliases=pairs)
    gpus = gpus_by_host(ordered, {sid: clock.host for sid, clock in clocks.items()})
    clocks = {sid: replace(c, gpus=gpus[c.host]) if c.host in gpus else c for sid, c in clocks.items()}
    return with_skew(ordered, [f for group in runs.values() for f in group], clocks)


def _in_order(fragments: Iterable[RunFragment]) -> Iterator[RunFragment]:
    """Fragments by key, those of one key by all that they say; node lists are long, so only where it matters."""
    for _, alike in groupby(sorted(fragments, key=lambda f: f.key), key=lambda f: f.key):
        same = list(alike)
        yield from same if len(same) == 1 else sorted(same, key=repr)


# --- zone, year, date ---------------------------------------------------------------------------------------------


def _wall_clocks(group: Sequence[SourceFact], runs: Sequence[RunFragment], tz: str) -> dict[str, Clock]:
    """Clocks of one root's sources, without host and boot."""
    zones = zones_of(group, runs, tz)
    dated = _Dated(group, runs, {sid: zone for sid, (zone, _) in zones.items()})
    return {source.source_id: _wall_clock(source, *zones[source.source_id], dated) for source in group}


def _wall_clock(source: SourceFact, zone: Zone, zone_why: str | None, dated: _Dated) -> Clock:
    kinds = {kind: (low, high) for kind, low, high in source.spans}
    doubt = _FORMAT_DOUBT_S.get(source.format, 1.0)
    until: int | None = None
    day: int | None = None
    assumed: list[str] = []
    methods = ["explicit"] if "utc" in kinds else []
    if kinds.keys() & {"local", "noyear", "time"}:
        assumed += [zone_why] if zone_why else []
        methods.append("zone assumed")
    if "noyear" in kinds or any(kind == "noyear" for kind, _, _ in source.clocks):
        span = kinds.get("noyear") or _pair_span(source)
        until, why = year_window(span, dated.rings(source), source.mtime_us, zone.to_local)
        assumed.append(why)
        methods.append("year assumed" if until is not None else "none")
    if "time" in kinds:
        day, why = only_day(kinds["time"], dated.rings(source), zone.to_local)
        assumed.append(why)
        methods.append("date assumed" if day is not None else "none")
    method = max(methods, key=_METHODS.index, default="none")
    return Clock(method=method, assumed=tuple(assumed), zone=zone, noyear_until=until, day=day, doubt_s=doubt)


def _pair_span(source: SourceFact) -> Interval:
    walls = [us for kind, _, us in source.clocks if kind == "noyear"]
    return min(walls), max(walls)


class _Dated:
    """The dated stretches of one root in UTC: of each source, of each folder, and of the whole root."""

    def __init__(self, group: Sequence[SourceFact], runs: Sequence[RunFragment], zones: Mapping[str, Zone]) -> None:
        own: dict[str, list[Interval]] = {}
        for source in group:
            zone = zones[source.source_id]
            for kind, low, high in source.spans:
                if kind == "utc":
                    own.setdefault(source.source_id, []).append((low, high))
                elif kind == "local":
                    own.setdefault(source.source_id, []).append((zone.to_utc(low)[0], zone.to_utc(high)[0]))
        for run in runs:
            zone = zones.get(run.source_id, Zone())
            ends = [us for us in (_moment(run.start, zone), _moment(run.end, zone)) if us is not None]
            if ends:
                own.setdefault(run.source_id, []).append((min(ends), max(ends)))
        by_folder: dict[str, list[Interval]] = {}
        for source in group:
            for folder in _folders(source):
                by_folder.setdefault(folder, []).extend(own.get(source.source_id, ()))
        self._own = own
        self._folders = {folder: merged(intervals) for folder, intervals in by_folder.items()}
        self.root = merged(interval for intervals in own.values() for interval in intervals)

    def rings(self, source: SourceFact) -> list[tuple[str, list[Interval]]]:
        """Dated stretches around a source, nearest first: its own, those of its folder, those of its root."""
        near = merged(interval for folder in _folders(source) for interval in self._folders.get(folder, ()))
        return [
            ("the same file", self._own.get(source.source_id, [])),
            ("the same folder", near),
            ("the same root", self.root),
        ]


def _moment(stamp: Stamp, zone: Zone) -> int | None:
    if stamp.kind == "utc":
        return stamp.us
    return zone.to_utc(stamp.us)[0] if stamp.kind == "local" else None


def _folders(source: SourceFact) -> set[str]:
    return {path.rpartition("/")[0] for path in source.inner_paths}


# --- boots --------------------------------------------------------------------------------------------------------


def _label(source: SourceFact) -> str:
    return source.inner_paths[0] if source.inner_paths else source.source_id


def _estimates(source: SourceFact, clock: Clock) -> list[Estimate]:
    """What one source says of its own host's boots."""
    out: list[Estimate] = []
    for kind, mono, us in source.clocks:
        utc, doubt = clock.utc(Stamp(kind, us))
        if utc is not None:
            out.append(Estimate(mono, utc, False, _label(source), max(doubt, _PAIR_S)))
    spans = {kind for kind, _, _ in source.spans}
    for fact in source.facts:
        name, _, value = fact.partition("=")
        if name not in ("boot", "boot_noyear") or not value.isdigit():
            continue
        kind = "noyear" if name == "boot_noyear" else ("utc" if "utc" in spans and "local" not in spans else "local")
        utc, doubt = clock.utc(Stamp(kind, int(value)))
        if utc is not None:
            out.append(Estimate(0, utc, False, f"{_label(source)} (first kernel line)", doubt + _BOOT_LINE_S))
    return out


def _estimates_by_host(sources: Sequence[SourceFact], clocks: Mapping[str, Clock]) -> dict[str, list[Estimate]]:
    out: dict[str, list[Estimate]] = {}
    for source in sources:
        clock = clocks[source.source_id]
        if clock.host:
            out.setdefault(clock.host, []).extend(_estimates(source, clock))
        for fact in source.facts:
            name, _, value = fact.partition("=")
            kind, _, host = name.partition(":")
            if kind not in _SCHEDULER_BOOTS or not host or not value.isdigit():
                continue
            # `boot_local` is printed in the zone of the host that asked the scheduler: the source's own
            utc, doubt = clock.utc(Stamp(_SCHEDULER_BOOTS[kind], int(value)))
            if utc is not None:
                doubt = _SCHEDULER_BOOT_S if kind == "boot" else doubt + _SCHEDULER_BOOT_S
                estimate = Estimate(0, utc, False, f"{_label(source)} (scheduler)", doubt)
                out.setdefault(short_host(host), []).append(estimate)
    return out


def _booted(
    group: Sequence[SourceFact], clocks: Mapping[str, Clock], by_host: Mapping[str, Sequence[Estimate]]
) -> list[str]:
    """Hosts that one root names, in its logs or as booted, and whose boot is known."""
    hosts = {clocks[source.source_id].host for source in group}
    hosts.update(
        short_host(host)
        for source in group
        for fact in source.facts
        for kind, _, host in [fact.partition("=")[0].partition(":")]
        if kind in _SCHEDULER_BOOTS
    )
    return sorted(host for host in hosts if host and by_host.get(host))


def _with_boot(
    source: SourceFact,
    clock: Clock,
    booted: Sequence[str],
    by_host: Mapping[str, Sequence[Estimate]],
    dated: Sequence[Interval],
) -> Clock:
    """The clock with anchors for uptime stamps, if the source has any.

    A kernel log that no host is known of takes the boot of the only host under its root that has one (`booted`).
    """
    span = next(((low, high) for kind, low, high in source.spans if kind == "mono"), None)
    if span is None:
        return clock
    host, guess = clock.host, None
    if not host and source.family == "kernel" and len(booted) == 1:
        host = booted[0]
        guess = f"boot of {host} assumed: the only host under this root with a known boot"
    own = [e._replace(own=True) for e in _estimates(source, clock)]
    known = {(e.mono, e.utc) for e in own}
    others = [e for e in by_host.get(host, ()) if (e.mono, e.utc) not in known]
    anchors, doubt, why = anchor(span, [*own, *others], source.mtime_us, dated)
    if not anchors:
        reason = "boot time unknown: stamps count from a boot that no other log dates"
        return replace(clock, assumed=(*clock.assumed, reason))
    only_mono = all(kind == "mono" for kind, _, _ in source.spans)
    return replace(
        clock,
        method="boot-relative" if only_mono else clock.method,
        assumed=(*clock.assumed, *(word for word in (guess, why) if word)),
        anchors=anchors,
        anchor_doubt_s=doubt,
    )
