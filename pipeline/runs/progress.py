"""Training progress in job output: which step was finished, when, and how long a step takes.

`read_cell` reads the lines of one 64 KiB cell into at most one `ProgressFact`: every line is tried against the forms
that training frameworks print (`pipeline.runs.progress_forms`), lines of one form make a series, and the best series of
the cell is kept. Bars of downloads, of tokenising and of evaluation are left out by their words and units, or lose
against a better series. `main_series` makes the same choice for a whole source, `steps_after` counts the steps that
were finished after an offset.

All functions are pure; the counts are lower bounds (a step that may have been running at the offset is not counted).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from pipeline.formats.base import Frame
from pipeline.runs.progress_forms import LINE, LOSS, read_line, seconds_of, trust
from schemas.facts import MAX_POINTS, NO_STAMP, ProgressFact, Stamp, merge_progress

#: Of the points that are kept of a cell, how many are the last ones, and how many falls of the step (the deepest)
#: are kept on both sides.
_TAIL, _FALLS = 8, 12
#: How many earlier lines of a cell lend their stamp to a step line without one.
_LOOK_UP = 3


@dataclass(slots=True)
class _Point:
    offset: int
    step: int
    seconds: float | None
    strong: bool  # the line also speaks of loss, learning rate or speed
    index: int


def read_cell(
    source_id: str,
    cell: int,
    lines: Sequence[tuple[int, str]],
    frame: Callable[[str], Frame],
    *,
    portion: bool = False,
) -> ProgressFact | None:
    """Progress of one cell; None where no line tells of any.

    lines: (absolute offset, text) of every line that begins in the cell, in order. frame: the format's frame for one
    line, used for the few lines that are kept and their neighbours. portion: these are some lines of the cell, and
    others come before or after: which points are kept must not depend on how lines are gathered.
    """
    series: dict[str, list[_Point]] = defaultdict(list)
    rank: dict[str, int] = {}
    speeds: list[float] = []
    for index, (offset, line) in enumerate(lines):
        if not any(c.isdigit() for c in line[:LINE]):
            continue
        found = read_line(line)
        if found is None:
            if "global_step/sec" in line and (speed := seconds_of(line)):
                speeds.append(speed)
            continue
        form, name, step, seconds = found
        strong = form.rank == 0 or LOSS.search(line) is not None
        series[name].append(_Point(offset, step, seconds, strong, index))
        rank[name] = form.rank
    bare = series.get("step/bare")
    if bare is not None and not _counts(bare):
        del series["step/bare"]
    if not series:
        return None
    name = min(series, key=lambda s: _order(rank[s], series[s], s))
    points = series[name]
    fact = _fact(source_id, cell, name, points, lines, frame, speeds, points if portion else _thin(points))
    return merge_progress(fact, fact) if portion else fact


def _order(rank: int, points: list[_Point], name: str) -> tuple[float, int, int, str]:
    """Key of the best series: lines with a loss first, then the form's rank, then how many steps it saw."""
    strong = sum(p.strong for p in points) * 2 >= len(points)
    distinct = len({p.step for p in points})
    return (rank if strong else rank + 1.5, -distinct, -max(p.step for p in points), name)


def _counts(points: list[_Point]) -> bool:
    """Whether lines of a bare number are a counter: three or more, each one more than the last, restarts allowed."""
    ups = sum(b.step == a.step + 1 for a, b in pairwise(points))
    return len(points) >= 3 and ups >= 0.7 * (len(points) - 1)


def _stamp_of(index: int, lines: Sequence[tuple[int, str]], frame: Callable[[str], Frame]) -> Stamp:
    """The stamp of a line, or the one printed just before it in the same cell."""
    own = frame(lines[index][1]).stamp
    if own.kind != "none":
        return own
    for back in range(index - 1, max(-1, index - 1 - _LOOK_UP), -1):
        near = frame(lines[back][1]).stamp
        if near.kind != "none":
            return near._replace(borrowed=True)
    return NO_STAMP


def _fact(
    source_id: str,
    cell: int,
    name: str,
    points: list[_Point],
    lines: Sequence[tuple[int, str]],
    frame: Callable[[str], Frame],
    speeds: list[float],
    kept: list[_Point],
) -> ProgressFact:
    stamps = {p.offset: _stamp_of(p.index, lines, frame) for p in kept}
    first, last = kept[0], kept[-1]
    kind = stamps[first.offset].kind
    printed = [p.seconds for p in points if p.seconds is not None] or speeds
    rate = median(printed) if printed else _rate([(p.step, stamps[p.offset]) for p in kept])
    return ProgressFact(
        source_id=source_id,
        cell=cell,
        first_step=first.step,
        first=stamps[first.offset],
        first_offset=first.offset,
        last_step=last.step,
        last=stamps[last.offset],
        last_offset=last.offset,
        n=len(points),
        step_s=None if rate is None else round(rate, 6),
        series=name,
        points=tuple(
            (p.offset, p.step, s.us if (s := stamps[p.offset]).kind == kind and kind != "none" else -1) for p in kept
        ),
    )


def _thin(points: list[_Point]) -> list[_Point]:
    """At most `MAX_POINTS` of the points: the first, the last eight, where the step falls back, and every n-th."""
    distinct = [p for i, p in enumerate(points) if i in (0, len(points) - 1) or p.step != points[i - 1].step]
    if len(distinct) <= MAX_POINTS:
        return distinct
    deep = sorted((b.step - a.step, i) for i, (a, b) in enumerate(pairwise(distinct)) if b.step < a.step)
    falls = [i for _, i in deep[:_FALLS]]
    keep = {0, *range(len(distinct) - _TAIL, len(distinct)), *falls, *(i + 1 for i in falls)}
    every = -(-len(distinct) // (MAX_POINTS - len(keep)))
    keep.update(range(0, len(distinct), every))
    return [distinct[i] for i in sorted(keep)]


def _rate(points: list[tuple[int, Stamp]]) -> float | None:
    """Median seconds a step by differences of stamps of one kind, None where fewer than two tell."""
    rates = []
    for (a, sa), (b, sb) in pairwise(points):
        if b > a and sa.kind == sb.kind and sa.kind != "none" and not sb.borrowed and sb.us > sa.us:
            rates.append((sb.us - sa.us) / 1e6 / (b - a))
    return median(rates) if rates else None


def main_series(progress: Iterable[ProgressFact]) -> list[ProgressFact]:
    """The facts of one source that belong to its training, by offset.

    Cells that only saw bars of other work are left out: the series of the best form stays; among bars of one form,
    those with the same total as the most read one, and those that count on where another left off.
    """
    facts = sorted(progress, key=lambda p: (p.first_offset, p.cell))
    if not facts:
        return []
    best = min(trust(p.series) for p in facts)
    good = [p for p in facts if trust(p.series) <= (best if best > 2 else max(best, 1) if best <= 1 else 2)]
    read: dict[str, int] = defaultdict(int)
    for p in good:
        read[p.series] += p.n
    lead = max(read, key=lambda s: (read[s], s))
    if "tqdm" not in lead and "keras" not in lead:
        return [p for p in good if p.series.split(":")[0] == lead.split(":")[0]]
    return [p for p in good if p.series == lead]


#: A fall of the step by more than this is a new start (epoch, restart), a smaller one the lag of another rank.
_LAG = 50


def _restarted(peak: int, step: int) -> bool:
    return step < peak and (peak - step > _LAG or step <= peak // 2)


def steps_after(progress: Sequence[ProgressFact], source_offset: int, until: int | None = None) -> int:
    """Completed steps of the job that one source shows after an offset (and before `until`): a lower bound.

    progress: facts of that source, in any order. The first step printed behind the offset counts as one, because it
    may have been all but done at the offset.
    """
    points = [
        (offset, step)
        for p in main_series(progress)
        for offset, step, _ in (p.points or ((p.first_offset, p.first_step, -1), (p.last_offset, p.last_step, -1)))
        if until is None or offset < until
    ]
    before = [step for offset, step in points if offset <= source_offset]
    after = [step for offset, step in points if offset > source_offset]
    if not after:
        return 0
    peak: int | None = None
    for step in before:
        peak = step if peak is None or step > peak or _restarted(peak, step) else peak
    done = 0
    for step in after:
        if peak is None or _restarted(peak, step):
            done, peak = done + 1, step
        elif step > peak:
            done += (step - peak) if done else 1
            peak = step
    return done
