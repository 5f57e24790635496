"""One accounting row as a `RunFragment`: a mapping from Slurm's column names to printed values in, a fragment out.

Shared by every shape in which `sacct` prints (delimited, fixed width). Column names are compared in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.records import slurm_fields as sf
from pipeline.scanning.mask import secrets
from schemas.facts import NO_STAMP, RunFragment

#: Columns that sacct can print, in lower case (sacct --helpformat, Slurm 19.05 to 25.05).
COLUMNS = frozenset(
    """
    account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread avediskwrite
    avepages averss avevmsize blockid cluster comment constraints consumedenergy consumedenergyraw container cputime
    cputimeraw dbindex derivedexitcode elapsed elapsedraw eligible end exitcode extra failednode flags gid group jobid
    jobidraw jobname layout licenses maxdiskread maxdiskreadnode maxdiskreadtask maxdiskwrite maxdiskwritenode
    maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss maxrssnode maxrsstask maxvmsize maxvmsizenode
    maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus ngpus nnodes nodelist ntasks originalsluid partition
    planned plannedcpu plannedcpuraw priority qos qosraw qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax
    reqcpufreqmin reqcpus reqgres reqmem reqnodes reqtres reservation reservationid reserved restarts resvcpu
    resvcpuraw segmentsize sluid start state stderr stdin stdout submit submitline suspended systemcomment systemcpu
    timelimit timelimitraw totalcpu tresusageinave tresusageinmax tresusageinmaxnode tresusageinmaxtask
    tresusageinmin tresusageinminnode tresusageinmintask tresusageintot tresusageoutave tresusageoutmax
    tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin tresusageoutminnode tresusageoutmintask tresusageouttot
    uid user usercpu wckey wckeyid workdir
    """.split()  # noqa: SIM905
)
#: Columns that people fill: they can hold delimiters and line breaks.
FREE = frozenset(
    {"admincomment", "comment", "constraints", "extra", "jobname", "submitline", "systemcomment", "workdir",
     "stdout", "stderr", "stdin", "container", "wckey", "reservation"}
)  # fmt: skip
#: Columns whose text goes into `extra` as it is, and under which name.
_KEPT = {
    "partition": "partition", "qos": "qos", "uid": "uid", "flags": "flags", "reservation": "reservation",
    "failednode": "failed_node", "restarts": "restarts", "reqtres": "req_tres", "alloctres": "alloc_tres",
    "jobidraw": "job_id_raw", "constraints": "constraints", "sluid": "sluid",
}  # fmt: skip
_KEPT_FREE = {
    "comment": "comment", "admincomment": "admin_comment", "systemcomment": "system_comment", "extra": "extra",
    "submitline": "submit_line", "workdir": "work_dir", "stdout": "stdout", "stderr": "stderr",
}  # fmt: skip
_TIMES = ("start", "end", "submit", "eligible")


def problem(row: Mapping[str, str]) -> str | None:
    """Why the row cannot be one of sacct's, or None: typed columns must hold their type."""
    printed = sf.clean(row.get("jobid", "")) or sf.clean(row.get("jobidraw", ""))
    if not printed:
        return "no job id"
    if sf.job_id(printed) is None:
        return f"not a job id: {printed[:40]!r}"
    for name in _TIMES:
        if name in row and not sf.is_time(row[name]):
            return f"not a time in column {name}: {row[name][:40]!r}"
    for name in ("exitcode", "derivedexitcode"):
        if row.get(name, "").strip() and sf.exit_pair(row[name]) == (None, None):
            return f"not an exit code in column {name}: {row[name][:40]!r}"
    if "state" in row and not sf.is_state(row["state"]):
        return f"not a job state: {row['state'][:40]!r}"
    return None


def fragment(row: Mapping[str, str], source_id: str, offset: int, line: int | None) -> RunFragment:
    """The fragment of a row for which `problem` is None. Columns that are not there leave their defaults."""
    get = {name: sf.clean(value) for name, value in row.items()}.get
    printed = get("jobid") or get("jobidraw") or ""
    job, step = sf.job_id(printed) or (printed, "")
    state, extra = sf.state(get("state") or "")
    code, signal = sf.exit_pair(get("exitcode") or "")
    names, whole = sf.nodes(row.get("nodelist", ""))
    n_nodes = sf.number(get("nnodes") or "") or sf.number(get("allocnodes") or "")
    gpus = sf.tres_gpus(get("alloctres") or "") if get("alloctres") else None
    if gpus is None and not get("alloctres"):
        gpus = sf.tres_gpus(get("reqtres") or "") or sf.gres_gpus(get("reqgres") or "", n_nodes)
    if gpus is None:
        gpus = sf.number(get("ngpus") or "")
    for column, name in _KEPT.items():
        extra[name] = get(column) or ""
    for column, name in _KEPT_FREE.items():
        if text := get(column):
            extra[name] = secrets(text)
    derived_code, derived_signal = sf.exit_pair(get("derivedexitcode") or "")
    if derived_code is not None:
        extra["derived_exit_code"] = str(derived_code)
        extra["derived_exit_signal"] = str(derived_signal or "")
    elapsed = sf.number(get("elapsedraw") or "")
    if elapsed is None:
        elapsed = sf.seconds(get("elapsed") or "")
    limit = sf.number(get("timelimitraw") or "")
    limit_s = limit * 60 if limit is not None else sf.seconds(get("timelimit") or "")
    extra["elapsed_s"] = "" if elapsed is None else str(elapsed)
    extra["timelimit_s"] = "" if limit_s is None else str(limit_s)
    extra["eligible"] = row.get("eligible", "") if sf.stamp(row.get("eligible", "")) != NO_STAMP else ""
    extra["nodes_cut"] = "" if whole else "1"
    if extra["job_id_raw"] == printed:
        extra["job_id_raw"] = ""
    return RunFragment(
        source_id=source_id,
        offset=offset,
        line=line,
        scheduler="slurm",
        cluster=get("cluster") or "",
        job_id=job,
        step=step,
        state=state,
        submit=sf.stamp(row.get("submit", "")),
        start=sf.stamp(row.get("start", "")),
        end=sf.stamp(row.get("end", "")),
        exit_code=code,
        exit_signal=signal,
        nodes=names,
        n_nodes=n_nodes,
        n_gpus=gpus,
        user=get("user") or "",
        account=get("account") or "",
        name=secrets(get("jobname") or "") if get("jobname") else "",
        reason=get("reason") or "",
        extra=sf.tidy(extra),
    )
