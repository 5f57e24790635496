"""Attempts inside one job log: where one ends and the next begins, and how each ended. Pure.

A log is cut at restart lines (elastic agent, Ray, requeue), at a start banner that comes after progress or after an
end, and where training goes on from a checkpoint behind a failure with a step that was already done. What the log
says in between decides how an attempt ended: by its own end, by plan, by a restart, by a failure, or not at all.

`LogView` is what is known of one source; `cut` gives its `Part`s in order of offset, which cover it without gaps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.runs.progress import main_series
from schemas.facts import NO_STAMP, ProgressFact, SignalFact, Stamp

#: Roles of events in the order in which they sort at one offset.
_EPOCH_WORDS = re.compile(r"(?i)\bepoch\b|\bstage\b|\bphase\b|\bstep \d|tokenizer|capture|\bfold\b")
#: A step that is at most this far behind the peak counts as the lag of another rank, not as a new start.
_LAG = 50
#: Somebody else ended the job: said in its log by the scheduler's tools.
_STOP = frozenset({"cancel", "preempt", "time_limit", "nodefail"})


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing at one place of a log: a marker rule's hit, a failure, or a step.

    kind: start | soft | init | resume | restart | success | end | planned_end | ckpt_saved | ckpt_begin | failure |
    stop (by the scheduler) | teardown | step. rule: of the signal, "" for steps. fields: of the signal.
    """

    offset: int
    kind: str
    stamp: Stamp = NO_STAMP
    rule: str = ""
    text: str = ""
    step: int | None = None
    fields: tuple[tuple[str, str], ...] = ()
    tags: frozenset[str] = frozenset()

    def field(self, *names: str) -> str:
        for name in names:
            for key, value in self.fields:
                if key == name and value:
                    return value
        return ""


@dataclass(frozen=True, slots=True)
class LogView:
    """A job log as its marks, in order of offset. `series`: name of the progress series, "" if there is none."""

    source_id: str
    marks: tuple[Mark, ...]
    progress: tuple[ProgressFact, ...]
    series: str = ""


@dataclass(slots=True)
class Part:
    """One attempt's part of one log: bytes from `low` to `high` (-1: to the end) and the marks inside.

    ended: "" (nothing says so), `success`, `planned`, `end`, `restart`, `failure`.
    """

    source_id: str
    low: int
    high: int
    marks: list[Mark] = field(default_factory=list)
    ended: str = ""
    end_mark: Mark | None = None

    def steps(self) -> list[Mark]:
        return [m for m in self.marks if m.kind == "step"]

    @property
    def stamps(self) -> list[Stamp]:
        return [m.stamp for m in self.marks if m.stamp.kind != "none"]


def _kind(tags: frozenset[str], failure: bool) -> str:
    """The one kind of a signal by its tags; "" for what says nothing of attempts."""
    if "restart" in tags:
        return "restart"
    if "planned_end" in tags:
        return "planned_end"
    if "success" in tags:
        return "success"
    if "end" in tags:
        return "end"
    if "start" in tags:
        return "soft" if "soft" in tags else "start"
    for name in ("ckpt_saved", "ckpt_begin", "resume", "init"):
        if name in tags:
            return name
    if "ckpt_load" in tags:
        return "resume"
    if _STOP & tags:
        return "stop"
    if "teardown" in tags:
        return "teardown"
    return "failure" if failure else ""


def view(
    source_id: str, signals: Iterable[tuple[SignalFact, frozenset[str], bool]], progress: Sequence[ProgressFact]
) -> LogView:
    """The marks of one source. signals: (fact, tags of its meaning, whether it tells of a failure), in any order."""
    marks: set[Mark] = set()
    for fact, tags, failure in signals:
        kind = _kind(tags, failure)
        if not kind or (kind == "success" and "mlperf" not in tags and _EPOCH_WORDS.search(fact.text)):
            continue
        marks.add(Mark(fact.first_offset, kind, fact.first, fact.rule, fact.text, None, fact.fields, tags))
        if fact.last_offset != fact.first_offset:
            marks.add(Mark(fact.last_offset, kind, fact.last, fact.rule, fact.text, None, fact.fields, tags))
    main = main_series(progress)
    for p in main:
        if p.points:
            frame = p.first.kind
            for offset, step, us in p.points:
                marks.add(Mark(offset, "step", Stamp(frame, us) if us >= 0 else NO_STAMP, step=step))
        for offset, step, stamp in ((p.first_offset, p.first_step, p.first), (p.last_offset, p.last_step, p.last)):
            marks.add(Mark(offset, "step", stamp, step=step))
    ordered = sorted(marks, key=lambda m: (m.offset, m.kind != "step", m.kind, m.rule, m.stamp, m.step or 0))
    return LogView(source_id, tuple(_one_step(ordered)), tuple(main), main[0].series if main else "")


def _one_step(marks: list[Mark]) -> Iterable[Mark]:
    """Marks with one step an offset, the one with a stamp."""
    best: dict[int, Mark] = {}
    for m in marks:
        if m.kind == "step" and (m.offset not in best or best[m.offset].stamp.kind == "none"):
            best[m.offset] = m
    return (m for m in marks if m.kind != "step" or best[m.offset] == m)


class _Cutter:
    """Walks the marks of a log and decides where to cut."""

    def __init__(self, log: LogView) -> None:
        self.log = log
        self.cuts: list[tuple[int, Mark | None, str]] = []  # (first byte of the next part, what ended, why)
        self.reset(None)

    def reset(self, restart: Mark | None) -> None:
        self.peak: int | None = None
        self.steps = 0  # how often the step rose in this part
        self.failed: Mark | None = None  # last failure behind the last step
        self.begun: set[str] = set()  # start rules seen in this part
        self.end: Mark | None = None
        self.restart = restart  # the restart that began this part, while nothing else was seen
        self.pending: Mark | None = None  # a begin mark behind a failure, to be confirmed by an old step

    def cut(self, at: int, mark: Mark | None, why: str, restart: Mark | None = None) -> None:
        self.cuts.append((at, mark, why))
        self.reset(restart)

    def run(self) -> None:
        for m in self.log.marks:
            if m.kind == "restart":
                if self.restart is None:
                    self.cut(m.offset + 1, m, "restart", m)
                continue
            if m.kind in ("start", "soft", "init", "resume"):
                self._begin(m)
            elif m.kind == "step":
                self._step(m)
            elif m.kind in ("success", "end", "planned_end"):
                self.end = m
            elif m.kind in ("failure", "stop"):
                self.failed = m
            if m.kind not in ("failure", "stop", "teardown"):
                self.restart = None

    def _begin(self, m: Mark) -> None:
        stopped = self.failed is not None and self.failed.kind == "stop"
        again = self.failed is not None and (m.rule in self.begun or stopped)
        known = m.rule in self.begun
        done = self.steps >= 2 if "mlperf" not in m.tags else known and self.peak is not None
        if m.kind == "start" and (self.end is not None or done or again):
            why = _ended_by(self.end) if self.end is not None else "restart"
            self.cut(m.offset, self.end or self.failed or m, why)
        elif m.kind == "soft" and (self.end is not None or stopped):
            self.cut(m.offset, self.end or self.failed, _ended_by(self.end) if self.end else "restart")
        elif self.failed is not None and self.peak is not None and self.pending is None:
            self.pending = m
        if m.kind in ("start", "soft"):
            self.begun.add(m.rule)

    def _step(self, m: Mark) -> None:
        step = m.step or 0
        if self.pending is not None and self.peak is not None and self.failed is not None:
            if step <= self.peak:
                self.cut(self.pending.offset, self.failed, "restart")
                self.peak, self.steps = step, 1
                return
            self.pending = None
        if self.failed is not None and self.peak is not None and step < self.peak - _LAG and self.end is None:
            self.cut(self.failed.offset + 1, self.failed, "restart")
        self.steps += self.peak is None or step > self.peak
        self.peak = step if self.peak is None else max(self.peak, step)
        self.failed = None
        if self.end is not None and "mlperf" not in self.end.tags:
            self.end = None  # training went on: the word of an end was about something else


def _ended_by(mark: Mark) -> str:
    return {"success": "success", "planned_end": "planned", "end": "end"}[mark.kind]


def cut(log: LogView) -> list[Part]:
    """The log's attempts in order, at least one. A restart after which nothing came has no successor."""
    cutter = _Cutter(log)
    cutter.run()
    parts: list[Part] = []
    low = 0
    for at, mark, why in cutter.cuts:
        parts.append(Part(log.source_id, low, at, [], why, mark))
        low = at
    parts.append(Part(log.source_id, low, -1))
    for m in log.marks:
        for part in parts:
            if part.low <= m.offset and (part.high < 0 or m.offset < part.high):
                part.marks.append(m)
                break
    last = parts[-1]
    if len(parts) > 1 and not any(m.kind not in ("teardown", "restart") for m in last.marks):
        before = parts[-2]  # nothing came after the restart: the attempt that it ended is the last one
        before.high = -1
        before.marks.extend(last.marks)
        parts.pop()
    elif not last.ended:
        last.ended, last.end_mark = how_it_ended(last.marks)
    return parts


def _only_shutdown(failure: Mark) -> bool:
    """Whether a failure behind a run's own end can come from releasing its resources: time-outs and exit codes."""
    return failure.kind == "failure" and bool({"timeout", "exit_code"} & failure.tags)


def how_it_ended(marks: Sequence[Mark]) -> tuple[str, Mark | None]:
    """What the last part of a log says of its end: (`success` | `planned` | `end` | `failure` | "", the mark).

    An end counts if no step and no failure follow it; MLPerf's own end counts whatever follows. Behind an end that
    comes after a save, a collective that times out and its exit codes are the shutdown of processes, no failure.
    """
    ends = [m for m in marks if m.kind in ("success", "planned_end", "end")]
    steps = [m.offset for m in marks if m.kind == "step"]
    failures = [m for m in marks if m.kind in ("failure", "stop")]
    last_step = max(steps, default=-1)
    for m in sorted(ends, key=lambda m: (m.kind == "end", -m.offset)):
        if "mlperf" in m.tags:
            return _ended_by(m), m
        saved = any(s.kind == "ckpt_saved" and last_step <= s.offset <= m.offset for s in marks)
        later = [f for f in failures if f.offset > m.offset and not (saved and _only_shutdown(f))]
        if m.offset >= last_step and not later:
            return _ended_by(m), m
    late = [f for f in failures if f.offset > last_step]
    return ("failure", late[0]) if late else ("", None)
