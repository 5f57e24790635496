"""One job object of Slurm's JSON output as fragments: `sacct --json`, `squeue --json`, `scontrol show jobs --json`.

The layout changes with the data_parser version (v0.0.36 to v0.0.43): numbers are plain or `{"set", "infinite",
"number"}`, states and exit statuses a word or a list of words, step ids an object or a string, times epoch seconds with
0 for "not set". All are read; what is absent leaves a field's default. Pure, never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.records import slurm_fields as sf
from pipeline.scanning.mask import secrets
from schemas.facts import NO_STAMP, RunFragment, Stamp
from schemas.identity import short_host


def get(obj: object, *path: str) -> Any:  # noqa: ANN401 - whatever the document holds
    """The value below a path of members, None where there is none."""
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def number(value: object) -> int | None:
    """A number in either spelling; None if unset or infinite."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        return sf.number(value)
    return int(value) if abs(value) < 1e18 else None  # False for NaN too


def word(value: object) -> str:
    """A string, or the strings of a list joined by commas; "" for anything else."""
    if isinstance(value, list):
        return ",".join(v for v in value if isinstance(v, str))
    return value if isinstance(value, str) else ""


def time(value: object) -> Stamp:
    """Epoch seconds as a UTC stamp; 0, unset and values past the year 2100 (Slurm's "never") as `NO_STAMP`."""
    seconds = number(value)
    return Stamp("utc", seconds * 1_000_000) if seconds and 0 < seconds < 4_102_444_800 else NO_STAMP


def exit_status(value: object) -> tuple[int | None, int | None]:
    """(code, signal) of an exit code object, or of a plain wait status as old versions print it."""
    if isinstance(value, Mapping) and "number" not in value:
        signal = number(get(value, "signal", "id")) or number(get(value, "signal", "signal_id"))
        return number(value.get("return_code")), signal or None
    status = number(value)
    return (None, None) if status is None else (status >> 8 & 0xFF, status & 0x7F or None)


def _tres(value: object) -> str:
    """A TRES list in the form that sacct prints: `cpu=96,gres/gpu=8`."""
    if isinstance(value, str):
        return value
    out = []
    for item in value if isinstance(value, list) else ():
        kind, name, count = word(get(item, "type")), word(get(item, "name")), number(get(item, "count"))
        if kind and count is not None:
            out.append(f"{kind}/{name}={count}" if name else f"{kind}={count}")
    return ",".join(out)


def _job_id(job: Mapping[str, Any]) -> tuple[str, str]:
    """(id as Slurm prints it, raw id): array task `100_3` and component `100+1` of the base job."""
    raw = str(number(job.get("job_id")) or "")
    array = job.get("array") if isinstance(job.get("array"), Mapping) else {}
    base = number(get(array, "job_id")) or number(job.get("array_job_id"))
    task_value = get(array, "task_id") if array else job.get("array_task_id")
    task = number(task_value)
    if base and task is not None:
        return f"{base}_{task}", raw
    het = number(get(job, "het", "job_id")) or number(job.get("het_job_id"))
    part = number(get(job, "het", "job_offset")) if "het" in job else number(job.get("het_job_offset"))
    if het and part is not None:
        return f"{het}+{part}", raw
    return raw, raw


def _nodes(value: object) -> tuple[tuple[str, ...], bool]:
    listed = get(value, "list")
    if isinstance(listed, list):
        return tuple(dict.fromkeys(short_host(n) for n in listed if isinstance(n, str) and n)), True
    return sf.nodes(word(get(value, "range")) or word(value))


def _steps(job: Mapping[str, Any], lead: RunFragment, offset: int) -> list[RunFragment]:
    out = []
    for step in job.get("steps") or ():
        if not isinstance(step, Mapping):
            continue
        ident = get(step, "step", "id")
        name = word(ident).partition(".")[2] if isinstance(ident, str) else word(get(ident, "step_id"))
        if not name:
            plain = number(get(ident, "step_id"))
            name = "" if plain is None else str(plain)
        if not name:
            continue
        state, extra = sf.state(word(step.get("state")))
        code, signal = exit_status(step.get("exit_code"))
        names, whole = _nodes(step.get("nodes"))
        extra["cancelled_by"] = extra.get("cancelled_by", "") or word(step.get("kill_request_user"))
        extra["nodes_cut"] = "" if whole else "1"
        ended = state not in sf.OPEN_STATES
        out.append(
            RunFragment(
                source_id=lead.source_id, offset=offset, line=lead.line, scheduler="slurm", cluster=lead.cluster,
                job_id=lead.job_id, step=name, state=state, start=time(get(step, "time", "start")),
                end=time(get(step, "time", "end")) if ended else NO_STAMP, exit_code=code, exit_signal=signal,
                nodes=names, n_nodes=number(get(step, "nodes", "count")) or None,
                n_gpus=sf.tres_gpus(_tres(get(step, "tres", "allocated"))), user=lead.user, account=lead.account,
                name=secrets(word(get(step, "step", "name"))), extra=sf.tidy(extra),
            )
        )  # fmt: skip
    return out


def _first(job: Mapping[str, Any], *paths: tuple[str, ...]) -> str:
    """The first of these members that is set, as text."""
    for path in paths:
        value = get(job, *path)
        text = word(value) or ("" if (n := number(value)) is None else str(n))
        if sf.clean(text):
            return text
    return ""


def job_fragments(job: Mapping[str, Any], source_id: str, offset: int, line: int | None) -> list[RunFragment]:
    """The job and its steps; [] where the object has no job id."""
    printed, raw = _job_id(job)
    if not printed:
        return []
    state, extra = sf.state(word(get(job, "state", "current")) or word(job.get("job_state")) or word(job.get("state")))
    code, signal = exit_status(job.get("exit_code"))
    names, whole = _nodes(job.get("nodes") if job.get("nodes") else get(job, "job_resources", "nodes"))
    allocated = _tres(get(job, "tres", "allocated")) or word(job.get("tres_alloc_str"))
    requested = _tres(get(job, "tres", "requested")) or word(job.get("tres_req_str"))
    clock = job.get("time") if isinstance(job.get("time"), Mapping) else {}
    derived, derived_signal = exit_status(job.get("derived_exit_code"))
    limit = number(get(clock, "limit")) if clock else number(job.get("time_limit"))
    elapsed = number(get(clock, "elapsed"))
    comment = job.get("comment")
    pending = state in ("PENDING", "REQUEUE_HOLD", "RESV_DEL_HOLD")
    n_nodes = number(job.get("allocation_nodes")) or (None if pending else number(job.get("node_count")))
    extra |= {
        "job_id_raw": raw if raw != printed else "",
        "partition": word(job.get("partition")),
        "qos": word(job.get("qos")),
        "uid": _first(job, ("user_id",), ("association", "uid")),
        "flags": word(job.get("flags")),
        "reservation": _first(job, ("reservation", "name"), ("resv_name",)),
        "failed_node": word(job.get("failed_node")),
        "restarts": _first(job, ("restart_cnt",)).removeprefix("0"),
        "req_tres": requested,
        "alloc_tres": allocated,
        "batch_host": short_host(word(job.get("batch_host"))),
        "derived_exit_code": "" if derived is None else str(derived),
        "derived_exit_signal": str(derived_signal or ""),
        "elapsed_s": "" if elapsed is None else str(elapsed),
        "timelimit_s": "" if limit is None else str(limit * 60),
        "nodes_cut": "" if whole else "1",
        "comment": secrets(word(get(comment, "job")) or word(comment)),
        "admin_comment": secrets(word(get(comment, "administrator")) or word(job.get("admin_comment"))),
        "system_comment": secrets(word(get(comment, "system")) or word(job.get("system_comment"))),
        "submit_line": secrets(word(job.get("submit_line"))),
        "work_dir": _first(job, ("working_directory",), ("current_working_directory",)),
        "stdout": _first(job, ("stdout_expanded",), ("stdout",), ("standard_output",)),
        "stderr": _first(job, ("stderr_expanded",), ("stderr",), ("standard_error",)),
    }
    if killer := word(job.get("kill_request_user")):
        extra.setdefault("cancelled_by", killer)
    ended = state not in sf.OPEN_STATES
    end = time(get(clock, "end")) if clock else time(job.get("end_time"))
    lead = RunFragment(
        source_id=source_id,
        offset=offset,
        line=line,
        scheduler="slurm",
        cluster=word(job.get("cluster")),
        job_id=printed,
        state=state,
        submit=time(get(clock, "submission")) if clock else time(job.get("submit_time")),
        start=NO_STAMP if pending else time(get(clock, "start")) if clock else time(job.get("start_time")),
        end=end if ended else NO_STAMP,
        exit_code=code if ended else None,
        exit_signal=signal if ended else None,
        nodes=names,
        n_nodes=n_nodes,
        n_gpus=sf.tres_gpus(allocated) if allocated else sf.tres_gpus(requested),
        user=_first(job, ("user",), ("user_name",), ("association", "user")),
        account=_first(job, ("account",), ("association", "account")),
        name=secrets(word(job.get("name"))),
        reason=sf.clean(_first(job, ("state", "reason"), ("state_reason",))),
        extra=sf.tidy(extra),
    )
    return [lead, *_steps(job, lead, offset)]
