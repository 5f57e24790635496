"""Attempts joined to tasks, and what of their training was kept. Pure functions over rows of the saved queries.

A task is what one user calls by one name: all its attempts, whatever their job ids. Steps of an attempt were kept as
far as the next attempt did not compute them again. Overlapping attempts count their time once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from sql.review.checkpoints import Mark, Save, saves
from sql.review.rows import Row, document, micros, seconds

#: A wait longer than this between two attempts is a break of the task, not part of its elapsed time (s).
BREAK_S = 86400.0


@dataclass(slots=True)
class Attempt:
    """One attempt; times in seconds since 1970 UTC, None where no log or record tells."""

    cluster: str
    run_key: str
    job_id: str | None
    start: float
    end: float | None
    gpus: int | None
    hosts: int | None
    first_step: int | None
    last_step: int | None
    step_s: float | None
    first_progress: float | None
    last_progress: float | None
    onset: float | None
    log_start: float | None
    counts_as: str | None
    state: str
    success: bool
    saves: list[Save] = field(default_factory=list)
    load_at: float | None = None
    kept_steps: int = 0
    lost_s: float | None = None  # only of interrupted attempts
    recovery_s: float | None = None
    queue_s: float | None = None

    @property
    def startup_s(self) -> float | None:
        if self.first_progress is None or self.first_progress < self.start:
            return None
        # The first useful step itself is training, not start-up.
        return max(self.first_progress - (self.step_s or 0.0) - self.start, 0.0)

    @property
    def useful_s(self) -> float:
        return self.kept_steps * (self.step_s or 0.0)


@dataclass(slots=True)
class Task:
    """Attempts of one task, in order. spans: (begin, end) of its time within the period, short waits included."""

    key: tuple[str, str, str, str]
    attempts: list[Attempt]
    spans: list[tuple[float, float]]
    active_s: float

    @property
    def elapsed_s(self) -> float:
        return sum(end - begin for begin, end in self.spans)

    def clock(self, at: float) -> float:
        """Elapsed seconds of the task up to a moment: breaks are not counted."""
        return sum(min(at, end) - begin for begin, end in self.spans if at > begin)

    @property
    def gpus(self) -> int | None:
        return max((a.gpus for a in self.attempts if a.gpus), default=None)

    @property
    def hosts(self) -> int | None:
        return max((a.hosts for a in self.attempts if a.hosts), default=None)

    @property
    def weight(self) -> float:
        return self.active_s * (self.gpus or 1)


def dated(rows: Iterable[Row]) -> frozenset[str]:
    """Attempts whose first step lines carry stamps of their own; of others it is not known when training began."""
    first: dict[str, tuple[int, bool]] = {}
    for row in rows:
        key = row["run_key"]
        if key is not None and (key not in first or int(row["cell"]) < first[key][0]):
            first[key] = (int(row["cell"]), bool(row["first_borrowed"]))
    return frozenset(key for key, (_, borrowed) in first.items() if not borrowed)


def tasks(
    rows: Iterable[Row],
    marks: Mapping[tuple[str, str], list[Mark]],
    since: float | None,
    until: float | None,
    with_first_step: frozenset[str] = frozenset(),
) -> list[Task]:
    """Tasks of a period, the one with the most GPU-hours first. with_first_step: attempts whose first step is dated."""
    held: dict[tuple[str, str, str, str], list[Attempt]] = defaultdict(list)
    for row in rows:
        attempt = _attempt(row, marks)
        if attempt is not None:
            if attempt.run_key not in with_first_step:
                attempt.first_progress = None
            name = row["name"] or row["job_id"] or row["run_key"]
            held[(row["cluster"], row["user_name"] or "", row["account"] or "", name)].append(attempt)
    out = []
    for key, attempts in sorted(held.items()):
        attempts.sort(key=lambda a: (a.start, a.end or a.start, a.run_key))
        _keep(attempts)
        _waits(attempts)
        spans, active = _spans(attempts, since, until)
        if active > 0 or (since is None and until is None):
            out.append(Task(key, attempts, spans, active))
    return sorted(out, key=lambda t: (-t.weight, t.key))


def _attempt(row: Row, marks: Mapping[tuple[str, str], list[Mark]]) -> Attempt | None:
    start = seconds(row["started_at"])
    if start is None:
        return None
    extra = dict(e.split("=", 1) for e in document(row["extra"]) or [] if "=" in e)
    first_us = extra.get("first_progress_us", "")
    mine: list[Mark] = []
    for source, begin, end in (document(row["more"]) or {}).get("spans", []):
        inside = [
            m for m in marks.get((row["cluster"], source), []) if m.offset >= begin and (end < 0 or m.offset < end)
        ]
        # Every rank may print the same; the log that says most speaks for the attempt.
        mine = inside if len(inside) > len(mine) else mine
    end_at = seconds(row["ended_at"])
    return Attempt(
        cluster=row["cluster"],
        run_key=row["run_key"],
        job_id=row["job_id"],
        start=start,
        end=None if end_at is None else max(end_at, start),
        gpus=row["n_gpus"],
        hosts=row["n_hosts"],
        first_step=row["first_step"],
        last_step=row["last_step"],
        step_s=row["step_s"],
        first_progress=int(first_us) / 1e6 if first_us.lstrip("-").isdigit() else None,
        last_progress=seconds(row["last_progress_at"]),
        onset=seconds(row["onset_at"]),
        log_start=seconds(row["log_started_at"]),
        counts_as=row["counts_as"],
        state=row["state"] or "",
        success=bool(row["success"]),
        saves=saves([m for m in mine if m.kind != "load"]),
        load_at=next((m.at for m in mine if m.kind == "load" and m.own_stamp), None),
    )


def _reach(a: Attempt) -> int | None:
    """The last step that the attempt is known to have finished."""
    steps = [s.step for s in a.saves if s.step is not None]
    known = [x for x in (a.last_step, *steps) if x is not None]
    return max(known, default=None)


def _keep(attempts: Sequence[Attempt]) -> None:
    """Steps kept, going back from the last attempt: a later attempt that begins at step n undoes n and all after it."""
    bound: int | None = None
    for a in reversed(attempts):
        reach = _reach(a)
        if a.first_step is None or reach is None:
            continue
        if bound is not None:
            kept_last = min(reach, bound - 1)
        elif a.counts_as in ("unexpected", "planned"):
            # Nothing is known after it: what will be kept is what was saved.
            kept_last = max((s.step for s in a.saves if s.done and s.step is not None), default=a.first_step - 1)
        else:
            kept_last = reach
        a.kept_steps = max(0, kept_last - a.first_step + 1)
        if a.counts_as in ("unexpected", "planned"):
            a.lost_s = _lost(a, kept_last)
        saved = any(s.done for s in a.saves)
        # The first step of all: what went before was another experiment, unless it never saved anything.
        bound = a.first_step if bound is None else min(bound, a.first_step)
        if a.first_step <= 1 and saved:
            bound = None


#: Steps after the last printed one count up to this many; a longer silence is a stall, told by its onset.
_UNPRINTED = 60


def _lost(a: Attempt, kept_last: int) -> float | None:
    """Seconds of training after the last kept step until the interruption."""
    if a.step_s is None or a.last_step is None:
        return None
    printed = max(0, a.last_step - kept_last) * a.step_s
    stopped = min((x for x in (a.onset, a.end) if x is not None), default=None)
    if a.last_progress is None or stopped is None:
        return printed
    # A save behind the last printed step moves the moment from which work is lost.
    known = a.last_progress + max(0, kept_last - a.last_step) * a.step_s
    known += sum(s.took or 0.0 for s in a.saves if s.step is not None and s.step >= a.last_step)
    return printed + min(max(stopped - known, 0.0), _UNPRINTED * a.step_s)


def _waits(attempts: Sequence[Attempt]) -> None:
    for before, after in pairwise(attempts):
        if before.end is None:
            continue
        wait = after.start - before.end
        if 0 <= wait <= BREAK_S:
            after.queue_s = wait
        if after.first_progress is not None and before.counts_as == "unexpected":
            onset = before.onset if before.onset is not None else before.end
            if 0 <= after.first_progress - onset <= BREAK_S:
                before.recovery_s = after.first_progress - onset


def _spans(
    attempts: Sequence[Attempt], since: float | None, until: float | None
) -> tuple[list[tuple[float, float]], float]:
    """(time of the task, active seconds) within the period: short waits belong to its time, overlaps count once."""
    spans: list[tuple[float, float]] = []
    active = 0.0
    for a in attempts:
        end = a.end if a.end is not None else max(a.start, a.last_progress or a.start)
        start = a.start if since is None else max(a.start, since)
        end = end if until is None else min(end, until)
        if end <= start:
            continue
        reach = spans[-1][1] if spans else None
        active += max(0.0, end - (start if reach is None else max(start, min(reach, end))))
        if reach is not None and start - reach <= BREAK_S:
            spans[-1] = (spans[-1][0], max(reach, end))
        else:
            spans.append((start, end))
    return spans, active


def checkpoint_interval(task: Task) -> float | None:
    """Median seconds between two checkpoints of an attempt."""
    gaps = [
        b.at - a.at
        for attempt in task.attempts
        for a, b in pairwise([s for s in attempt.saves if s.done])
        if a.at is not None and b.at is not None and b.at > a.at
    ]
    return median(gaps) if gaps else None


def throughput(
    rows: Iterable[Row], marks: Mapping[tuple[str, str], list[Mark]], keys: frozenset[str] | None
) -> list[tuple[float, float, str]]:
    """(middle in seconds since 1970 UTC, steps a second, attempt) between sampled steps, those with a save left out."""
    out = []
    by_source: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if (keys is None or row["run_key"] in keys) and not row["first_borrowed"]:
            by_source[(row["cluster"], row["source_id"])].append(row)
    for source, held in by_source.items():
        stops = sorted(m.offset for m in marks.get(source, ()))
        points: list[tuple[int, int, int]] = []
        for row in sorted(held, key=lambda r: int(r["cell"])):
            shift = (micros(row["first_at"]) or 0) - int(row["first_us"])
            points += [(o, step, us + shift) for o, step, us in document(row["points"]) or [] if us >= 0]
        at = 0
        group = f"{source[0]}/{source[1]}"
        for (o1, s1, t1), (o2, s2, t2) in pairwise(points):
            while at < len(stops) and stops[at] < o1:
                at += 1
            saved = at < len(stops) and stops[at] < o2
            if not saved and s2 > s1 and t2 > t1 and t2 - t1 < 3_600_000_000:
                out.append(((t1 + t2) / 2e6, (s2 - s1) * 1e6 / (t2 - t1), group))
    return out
