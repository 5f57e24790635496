"""Which year, which day? Stamps without a year or a date, placed by the dated sources around them.

The evidence comes in rings: the same folder, then the same root. Only where a ring has no dated source at all is the
next one asked, and last the file's modification time, which is no more than an upper bound (a copy made today says
nothing but "not later").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline.placing.clock import DAY, SECOND, Interval, in_year, latest_before, year_of

_YEAR = 366 * DAY
_HALF = 183 * DAY
#: How near a dated source must be to New Year for a span from January to December to be a turn of the year.
_NEAR_NEW_YEAR = 60 * DAY
_SLACK = 600 * SECOND
_MOST_DAYS = 4


def year_window(
    span: Interval,
    rings: Iterable[tuple[str, Sequence[Interval]]],
    mtime_us: int | None,
    to_local: Callable[[int], int],
) -> tuple[int | None, str]:
    """(`Clock.noyear_until`, what was assumed) for a source whose stamps without a year span `span`.

    span: microseconds in the leap year 2000. rings: (name, dated intervals), nearest ring first. to_local: UTC to
    the source's local microseconds.
    """
    for name, intervals in rings:
        if intervals:
            local = sorted((to_local(low), to_local(high)) for low, high in intervals)
            until, year = _by_neighbours(span, local)
            if until is not None:
                return until, f"year {year} assumed: nearest to the dated logs of {name}"
    if mtime_us is None:
        return None, "no year known: stamps carry none, and nothing around them is dated"
    bound = to_local(mtime_us) + DAY
    if span[1] - span[0] > _HALF:
        return bound, f"year {year_of(bound)} or the one before assumed: latest before the file was written"
    high = latest_before(span[1], bound)
    low = None if high is None else _below(span[0], high)
    if high is None or low is None:
        return None, "no year known: no date before the file was written fits"
    return _around(low, high), f"year {year_of(high)} assumed: latest before the file was written"


def _below(frame_us: int, until: int) -> int | None:
    return latest_before(frame_us, until + 1)


def _around(low: int, high: int) -> int:
    """A bound that lets every stamp between low and high stand for just that time, with room on both sides."""
    return high + (365 * DAY - (high - low)) // 2


def _by_neighbours(span: Interval, dated: Sequence[Interval]) -> tuple[int | None, int]:
    years = range(year_of(dated[0][0]) - 1, year_of(max(high for _, high in dated)) + 2)
    if span[1] - span[0] > _HALF:
        turn = _turn_of_year(dated)
        if turn is not None:
            return turn + _HALF, year_of(turn - 1)
    best: tuple[int, int, int, int] | None = None
    for year in years:
        low, high = in_year(span[0], year), in_year(span[1], year)
        if low is None or high is None:
            # 29 February at an end of the span: only a leap year has it.
            continue
        gaps = [max(0, a - high, low - b) for a, b in dated]
        found = (min(gaps), -year, low, high)
        best = found if best is None else min(best, found)
    if best is None:
        return None, 0
    return _around(best[2], best[3]), -best[1]


def _turn_of_year(dated: Sequence[Interval]) -> int | None:
    """Local midnight of the New Year that a dated interval touches or nearly touches; None if none does."""
    near: list[tuple[int, int]] = []
    for low, high in dated:
        for year in range(year_of(low), year_of(high) + 2):
            turn = in_year(0, year)
            if turn is not None:
                gap = max(0, turn - high, low - turn)
                if gap <= _NEAR_NEW_YEAR:
                    near.append((gap, -turn))
    return -min(near)[1] if near else None


def only_day(
    span: Interval, rings: Iterable[tuple[str, Sequence[Interval]]], to_local: Callable[[int], int]
) -> tuple[int | None, str]:
    """(`Clock.day`, what was assumed) for stamps that are times of day: the only date on which they can lie.

    The dated neighbours must leave one choice: just one date puts the whole span inside them (ten minutes of slack).
    """
    for name, intervals in rings:
        if not intervals:
            continue
        low = min(to_local(a) for a, _ in intervals) - _SLACK
        high = max(to_local(b) for _, b in intervals) + _SLACK
        if high - low > _MOST_DAYS * DAY:
            break
        first = low // DAY * DAY
        fits = [day for day in range(first, high + 1, DAY) if day + span[0] <= high and low <= day + span[1]]
        if len(fits) == 1:
            return fits[0], f"date assumed: the only one that the dated logs of {name} leave"
        break
    return None, "no date known: stamps are times of day, and the logs around them leave several dates or none"
