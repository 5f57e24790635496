"""The fields of one `JobRun` from its record and its log attempt. Pure.

`Draft` is what assembling found; `finish` computes times, flags, progress, the checkpoint to go back to, and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pipeline.joining.events import ClockLike
from pipeline.runs.attempts import LogView, Mark, Part
from pipeline.runs.job_logs import hosts_of
from pipeline.runs.job_records import OPEN_STATES, JobRecord
from pipeline.runs.log_attempts import LogAttempt, part_span, utc
from schemas.facts import SourceFact
from schemas.identity import log_run_key, run_key
from schemas.settings import Settings
from schemas.subject import JobRun

#: Groups of the marker rules that hold a checkpoint's step and path.
_STEP_FIELDS = ("step", *(f"step{i}" for i in range(2, 8)))
_PATH_FIELDS = ("path", *(f"path{i}" for i in range(2, 8)))
_STEP_IN_PATH = re.compile(r"(?i)(?:checkpoint|global_?step|step|iter(?:ation)?)[-_=]?0{0,8}(\d{1,10})(?!\d)")
ENDED_WELL = frozenset({"COMPLETED", "SUCCEEDED"})
#: States in which an end by the run's own plan is not believed.
_NOT_PLANNED = frozenset({"NODE_FAIL", "OUT_OF_MEMORY", "OOM_KILLED", "BOOT_FAIL", "FAILED", "PREEMPTED", "EVICTED"})
#: States that say that the program itself failed, whatever its log said before.
_NOT_SUCCESS = frozenset({"NODE_FAIL", "OUT_OF_MEMORY", "OOM_KILLED", "BOOT_FAIL", "FAILED"})


@dataclass(slots=True)
class Draft:
    """One attempt before its fields are computed.

    index: among the attempts of its record or logs. last: no other attempt of these follows it. tied: how each source
    was tied to the job.
    """

    record: JobRecord | None
    log: LogAttempt
    index: int
    last: bool
    job_id: str | None
    tied: Mapping[str, str]
    chain: str = ""  # what a job without a scheduler's record is called while its attempts are numbered


def finish(
    draft: Draft,
    sources: Mapping[str, SourceFact],
    clocks: Mapping[str, ClockLike],
    whole: Mapping[str, tuple[int, int] | None],
    views: Mapping[str, LogView],
    latest: Mapping[str, int],
    settings: Settings,
) -> JobRun:
    """The `JobRun` of a draft."""
    record, log = draft.record, draft.log
    ids = tuple(sorted({p.source_id for p in log.parts}))
    mine = [sources[s] for s in ids]
    spans = [sp for p in log.parts if (sp := part_span(p, clocks, whole)) is not None]
    log_start = min((a for a, _ in spans), default=None)
    log_end = max((b for _, b in spans), default=None)
    ended, end_mark = log.ended
    state = record.state if record is not None and draft.last else ""
    flags = _Flags(draft, ended, end_mark, state)
    start = record.start_us if record is not None and draft.index == 0 else log_start
    end, end_known = _end(draft, flags, log_end, end_mark, clocks)
    progress = _progress(log, views, clocks)
    roots = tuple(sorted({*(record.roots if record else ()), *(s.root for s in mine)}))
    extra = _extra(draft, flags, progress, mine)
    nodes = _nodes(record, mine, clocks)
    if flags.success and end is not None and progress.last_us is not None:
        progress.last_us = min(progress.last_us, end)  # results that were printed behind the end are older
    running = _hanging(draft, flags, progress, log_end, end, roots, latest, settings)
    n_gpus, n_nodes = _sizes(record, mine, nodes)
    resume = _resume(log, progress, clocks)
    return JobRun(
        run_key=_key(draft),
        scheduler=record.scheduler if record else "",
        cluster=record.cluster if record else "",
        job_id=draft.job_id,
        attempt=0,
        start_us=start,
        end_us=end,
        end_known=end_known,
        state=state,
        exit_code=record.exit_code if record and draft.last else None,
        exit_signal=record.exit_signal if record and draft.last else None,
        nodes=nodes,
        n_nodes=n_nodes,
        n_gpus=n_gpus,
        user=record.user if record else "",
        account=record.account if record else "",
        name=record.name if record else "",
        reason=record.reason if record and draft.last else "",
        source_ids=ids,
        assumed=_assumed(draft, ids, clocks),
        in_job_attempt=ended == "restart" or (not draft.last and ended not in ("success", "planned", "end")),
        success=flags.success,
        planned_end=flags.planned,
        truncated=bool(ids) and record is None and ended == "" and not flags.missing_end,
        still_running=running,
        first_step=progress.first_step,
        last_step=progress.last_step,
        last_progress_us=progress.last_us,
        step_s=progress.step_s,
        resume_step=resume[0],
        resume_path=resume[1],
        resume_us=resume[2],
        log_start_us=log_start,
        log_end_us=log_end,
        uncertainty_s=_uncertainty(record, log, clocks),
        extra=extra,
        spans=tuple(sorted((p.source_id, p.low, p.high) for p in log.parts)),
        roots=roots,
    )


class _Flags:
    """Success and its likes, from the log's last word and the scheduler's."""

    def __init__(self, draft: Draft, ended: str, end_mark: Mark | None, state: str) -> None:
        starts = [m for _, m in draft.log.marks("start") if "mlperf" in m.tags]
        self.ended = ended
        own_end = ended in ("success", "end", "planned")
        self.missing_end = bool(starts) and not own_end and ended != "restart" and draft.last
        self.planned = ended == "planned" and state not in _NOT_PLANNED and self._saved(draft, end_mark)
        self.success = state in ENDED_WELL or (ended in ("success", "end") and state not in _NOT_SUCCESS)
        if not draft.last and ended == "restart":
            self.success = False

    @staticmethod
    def _saved(draft: Draft, end_mark: Mark | None) -> bool:
        """An exit on a signal is by plan only behind a save; an exit by the run's own limit always is."""
        if end_mark is None or not end_mark.field("signal"):
            return True
        return bool(draft.log.marks("ckpt_saved") or draft.log.marks("ckpt_begin"))


@dataclass(slots=True)
class _Progress:
    first_step: int | None = None
    last_step: int | None = None
    first_us: int | None = None
    last_us: int | None = None
    step_s: float | None = None
    unit: str = ""


def _progress(log: LogAttempt, views: Mapping[str, LogView], clocks: Mapping[str, ClockLike]) -> _Progress:
    """Progress of the source of the attempt that shows most of it."""
    best: Part | None = None
    for part in sorted(log.parts, key=lambda p: p.source_id):
        if part.steps() and (best is None or len(part.steps()) > len(best.steps())):
            best = part
    if best is None:
        return _Progress()
    steps, clock, seen = best.steps(), clocks.get(best.source_id), views[best.source_id]
    times = [t for m in steps if (t := utc(m.stamp, clock)) is not None]
    last_us = utc(steps[-1].stamp, clock)
    if last_us is None and times and steps[-1].stamp.kind == "none":
        last_us = times[-1]
    rates = [
        p.step_s
        for p in seen.progress
        if p.step_s and best.low <= p.last_offset and (best.high < 0 or p.first_offset < best.high)
    ]
    unit = seen.series.partition("/")[0]
    numbers = [m.step for m in steps if m.step is not None]
    counted = unit == "step"
    return _Progress(
        numbers[0] if counted else None,
        max(numbers) if counted else None,
        times[0] if times else None,
        last_us,
        median(rates) if rates and counted else None,
        unit,
    )


def _end(
    draft: Draft, flags: _Flags, log_end: int | None, end_mark: Mark | None, clocks: Mapping[str, ClockLike]
) -> tuple[int | None, bool]:
    """End of the attempt in UTC microseconds, and whether it is known."""
    record = draft.record
    if record is not None and draft.last and record.end_us is not None:
        return record.end_us, True
    if record is not None and draft.last and record.state not in OPEN_STATES:
        return log_end, log_end is not None
    if flags.ended in ("success", "end", "planned", "restart") and end_mark is not None:
        owners = [p for p in draft.log.parts if p.end_mark is end_mark]
        at = next((t for p in owners if (t := utc(end_mark.stamp, clocks.get(p.source_id)))), None)
        return (at if at is not None else log_end), True
    if flags.missing_end:
        return log_end, True
    return log_end, False


def _hanging(
    draft: Draft,
    flags: _Flags,
    progress: _Progress,
    log_end: int | None,
    end: int | None,
    roots: Sequence[str],
    latest: Mapping[str, int],
    settings: Settings,
) -> bool | None:
    """True while the run hangs (see `pipeline.runs.assemble`), None otherwise."""
    record = draft.record
    if not draft.last or progress.last_us is None or flags.ended or flags.missing_end or flags.success:
        return None
    limit = max(settings.hang_steps * (progress.step_s or 0.0), settings.hang_s) * 1e6
    if record is not None:
        if not record.open or record.state in ("PENDING", "CONFIGURING"):
            return None
        now = max((latest[r] for r in roots if r in latest), default=None)
    else:
        # No record says that nodes are still held: only a log that is written on for long counts.
        now, limit = log_end, max(limit, settings.watchdog_s * 1e6)
    if now is None or (end is not None and record is not None and record.end_us is not None):
        return None
    return True if now - progress.last_us > limit else None


def _key(draft: Draft) -> str:
    record = draft.record
    if record is None:
        return log_run_key(*draft.log.key)
    stamp = ""
    if draft.index > 0:
        source, low = draft.log.key
        first = next((m.stamp for p in draft.log.parts for m in p.marks if m.stamp.kind != "none"), None)
        stamp = f"{first.kind}:{first.us}" if first is not None else f"{source}:{low}"
    return run_key(record.scheduler, record.cluster, record.job_id, record.printed_start, stamp)


def _nodes(record: JobRecord | None, mine: Sequence[SourceFact], clocks: Mapping[str, ClockLike]) -> tuple[str, ...]:
    if record is not None and record.nodes:
        return record.nodes
    return tuple(sorted({h for s in mine for h in hosts_of(s, clocks.get(s.source_id))}))


def _numbers(mine: Sequence[SourceFact], name: str) -> list[int]:
    return [
        int(f[len(name) + 1 :])
        for s in mine
        for f in s.facts
        if f.startswith(f"{name}=") and f[len(name) + 1 :].isdigit()
    ]


def _sizes(record: JobRecord | None, mine: Sequence[SourceFact], nodes: Sequence[str]) -> tuple[int | None, int | None]:
    """(GPUs, nodes): the record's, else what launchers and NCCL print, the largest."""
    n_nodes = record.n_nodes if record is not None else None
    n_gpus = record.n_gpus if record is not None else None
    if n_nodes is None:
        n_nodes = max([*_numbers(mine, "n_nodes"), len(nodes)], default=0) or None
    if n_gpus is None:
        per_node = max(_numbers(mine, "nproc_per_node"), default=0)
        seen = [*_numbers(mine, "world_size"), *_numbers(mine, "nranks"), *_numbers(mine, "n_gpus")]
        n_gpus = max([*seen, per_node * (n_nodes or 1)], default=0) or None
    return n_gpus, n_nodes


def _resume(
    log: LogAttempt, progress: _Progress, clocks: Mapping[str, ClockLike]
) -> tuple[int | None, str | None, int | None]:
    """(step, path, time) of the last checkpoint surely written in the attempt; what it began from otherwise."""
    saved = log.marks("ckpt_saved")
    for part, m in log.marks("ckpt_begin"):
        if any(s.offset > m.offset for s in part.steps()):
            saved.append((part, m))  # training went on behind it
    chosen = max(saved, key=lambda x: (x[1].offset, x[1].kind), default=None)
    if chosen is None:
        began = [x for x in log.marks("resume") if "resume" in x[1].tags]
        chosen = max(began, key=lambda x: x[1].offset, default=None)
    if chosen is None:
        return None, None, None
    part, mark = chosen
    step, path = mark.field(*_STEP_FIELDS), mark.field(*_PATH_FIELDS)
    if not step and (named := _STEP_IN_PATH.search(path)):
        step = named[1]
    if not step:  # the line that began the save may have said which one
        begun = [m for p, m in log.marks("ckpt_begin") if p is part and m.offset < mark.offset]
        step = begun[-1].field(*_STEP_FIELDS) if begun else ""
    before = [s.step for s in part.steps() if s.offset <= mark.offset and s.step is not None]
    number = int(step) if step.isdigit() else (before[-1] if before and progress.unit == "step" else None)
    near = [m for _, m in saved if m.field(*_PATH_FIELDS)]
    path = path or (near[-1].field(*_PATH_FIELDS) if near else "")
    return number, re.sub(r"[.,;:)\]]+$", "", path) or None, utc(mark.stamp, clocks.get(part.source_id))


def _assumed(draft: Draft, ids: Sequence[str], clocks: Mapping[str, ClockLike]) -> tuple[str, ...]:
    words = {f"job log tied by: {draft.tied[s]}" for s in ids if draft.tied.get(s)}
    words.update(a for s in ids if s in clocks for a in clocks[s].assumed)
    words.update(draft.record.assumed if draft.record else ())
    return tuple(sorted(words))


def _uncertainty(record: JobRecord | None, log: LogAttempt, clocks: Mapping[str, ClockLike]) -> float:
    """Seconds by which the times may be off: the record's, else the worst of the logs' clocks."""
    if record is not None and record.start_us is not None:
        return record.unc or 1.0
    worst = [
        unc
        for p in log.parts
        for s in p.stamps[-1:]
        if (clock := clocks.get(p.source_id)) is not None
        for t, unc in (clock.utc(s),)
        if t is not None
    ]
    return max(worst, default=1.0)


def _extra(draft: Draft, flags: _Flags, progress: _Progress, mine: Sequence[SourceFact]) -> tuple[str, ...]:
    words = set(draft.record.extra) if draft.record else set()
    if flags.missing_end:
        words.add("end_marker=missing")
    if flags.ended:
        words.add(f"log_ended={flags.ended}")
    _, mark = draft.log.ended
    if mark is not None and mark.field("status"):
        words.add(f"end_status={mark.field('status')}")
    if progress.first_us is not None:
        words.add(f"first_progress_us={progress.first_us}")
    if progress.unit and progress.unit != "step":
        words.add(f"progress_unit={progress.unit}")
    if draft.index > 0:
        words.add(f"in_record_attempt={draft.index}")
    for s in mine:
        words.update(f for f in s.facts if f.startswith(("rdzv_id=", "master_addr=")))
    return tuple(sorted(words))
