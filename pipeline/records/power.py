"""Changes of power within 1 to 10 s: folded as samples are read, and as rows of `power_hourly`.

Hours cannot show a swing of seconds and the samples themselves are too many to keep. So each 64 KiB cell of a source
keeps, for each GPU, how many changes it holds, how large they usually are, and the largest of them with their times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from schemas.facts import CELL, Stamp, TelemetryFact

if TYPE_CHECKING:
    from pipeline.records.telemetry import ClockLike

#: The metric that is watched.
METRIC = "gpu_power_w"
#: A swing is a change over this many microseconds.
LEAST_US, MOST_US = 1_000_000, 10_000_000
#: Changes that a cell keeps of each GPU, largest first.
KEPT = 12
#: A change is a swing above this many times the usual one; what is usual is at least a share of the power itself.
TIMES, OF_LEVEL = 8.0, 0.01
#: Changes of GPUs of one host this close together are one swing of the host.
_TOGETHER_US = 2_500_000
HOUR_US = 3_600_000_000

#: (host, device, kind of stamp, begin of the hour in its frame).
Hour = tuple[str, str, str, int]
#: (microseconds in the stamps' frame, seconds over which, watts).
Change = tuple[int, float, float]
#: (cell, changes, median of their absolute values, the largest ones).
Cell = tuple[int, int, float, tuple[Change, ...]]


class ChangeFold:
    """Changes of the power of each GPU of one source."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str, str], deque[tuple[int, float]]] = {}
        self._open: dict[Hour, tuple[int, list[Change]]] = {}
        self._cells: dict[Hour, list[Cell]] = {}

    def add(self, stamp: Stamp, offset: int, host: str, device: str, watts: float) -> None:
        """One sample; samples of a GPU come in order of the source."""
        us = stamp.us
        recent = self._recent.get((host, device, stamp.kind))
        if recent is None:
            recent = self._recent[(host, device, stamp.kind)] = deque()
        elif recent and us <= recent[-1][0]:
            recent.clear()
        while recent and us - recent[0][0] > MOST_US:
            recent.popleft()
        # Samples a second apart and more, the usual ones, need no search.
        if recent and us - recent[-1][0] >= LEAST_US:
            before: tuple[int, float] | None = recent[-1]
            recent.clear()
        else:
            before = next((sample for sample in reversed(recent) if us - sample[0] >= LEAST_US), None)
        recent.append((us, watts))
        if before is None:
            return
        key = (host, device, stamp.kind, us // HOUR_US * HOUR_US)
        cell = offset // CELL
        opened = self._open.get(key)
        if opened is None or opened[0] != cell:
            if opened is not None:
                self._cells.setdefault(key, []).append(_closed(*opened))
            opened = self._open[key] = (cell, [])
        opened[1].append((us, (us - before[0]) / 1e6, round(watts - before[1], 3)))

    def cells(self) -> dict[Hour, tuple[Cell, ...]]:
        """The cells of each hour, in order."""
        out = {key: list(cells) for key, cells in self._cells.items()}
        for key, opened in self._open.items():
            out.setdefault(key, []).append(_closed(*opened))
        return {key: tuple(sorted(cells)) for key, cells in out.items()}


def _closed(cell: int, changes: list[Change]) -> Cell:
    largest = sorted(changes, key=lambda c: (-abs(c[2]), c))[:KEPT]
    return cell, len(changes), round(median(abs(w) for _, _, w in changes), 3), tuple(sorted(largest))


def power_rows(facts: Iterable[TelemetryFact], clocks: Mapping[str, ClockLike]) -> Iterator[dict[str, Any]]:
    """Rows of `power_hourly` without the cluster: one a host, hour and source whose samples are fine enough.

    swings: [microseconds UTC, seconds, watts of all its GPUs, GPUs], in order of time.
    """
    held: dict[tuple[str, int, str], list[tuple[int, TelemetryFact]]] = {}
    for fact in facts:
        clock = clocks.get(fact.source_id)
        utc = clock.utc(fact.hour)[0] if clock is not None and fact.changes else None
        if clock is None or utc is None:
            continue
        key = (fact.host or clock.host, utc // HOUR_US * HOUR_US, fact.source_id)
        held.setdefault(key, []).append((utc - fact.hour.us, fact))
    for (host, hour, source_id), found in sorted(held.items(), key=lambda kv: kv[0]):
        swings = _of_host([(shift, fact) for shift, fact in found])
        usual = [(fact.changes, fact) for _, fact in found]
        n = sum(c[1] for cells, _ in usual for c in cells)
        yield {
            "host": host, "hour_at": hour, "source_id": source_id, "n": n,
            "devices": len({fact.device for _, fact in found}),
            "typical_w": median(_usual(fact) for _, fact in found),
            "n_swings": len(swings), "largest_w": max((abs(s[2]) for s in swings), default=None), "swings": swings,
        }  # fmt: skip


def _usual(fact: TelemetryFact) -> float:
    """The usual change of a GPU in an hour: the median of its cells', each as often as it has changes."""
    half, passed = sum(c[1] for c in fact.changes) / 2, 0
    for _, n, typical, _ in sorted(fact.changes, key=lambda c: c[2]):
        passed += n
        if passed >= half:
            return typical
    return 0.0


def _of_host(found: list[tuple[int, TelemetryFact]]) -> list[list[float]]:
    """Swings of all GPUs of a host, those of one moment and direction as one."""
    single: list[tuple[int, float, float, str]] = []
    for shift, fact in found:
        n, total, _, _ = fact.totals
        least = TIMES * max(_usual(fact), OF_LEVEL * total / n if n else 0.0)
        single += [
            (us + shift, seconds, watts, fact.device)
            for _, _, _, largest in fact.changes
            for us, seconds, watts in largest
            if abs(watts) > least
        ]
    out: list[list[float]] = []
    for rising in (False, True):
        group: dict[str, tuple[int, float, float]] = {}
        last = None
        for us, seconds, watts, device in sorted(s for s in single if (s[2] > 0) == rising):
            if last is not None and us - last > _TOGETHER_US:
                out.append(_one(group))
                group = {}
            if device not in group or abs(watts) > abs(group[device][2]):
                group[device] = (us, seconds, watts)
            last = us
        if group:
            out.append(_one(group))
    return sorted(out)


def _one(group: dict[str, tuple[int, float, float]]) -> list[float]:
    largest = max(group.values(), key=lambda c: (abs(c[2]), -c[0]))
    return [largest[0], largest[1], round(sum(w for _, _, w in group.values()), 3), len(group)]
