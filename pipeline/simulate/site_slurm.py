"""A Slurm site on disk: sacct, slurmctld.log, kernel logs in mixed stamp styles, job output, SEL, switches, telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pipeline.simulate.hostlogs import Said, logging_hosts, merged, noise, spoken, stories
from pipeline.simulate.joblogs import NODE_DOWN, ending, training
from pipeline.simulate.plan import Attempt, Plan
from pipeline.simulate.stamps import Calendar

SACCT = "JobID|JobName|Partition|User|Account|State|ExitCode|Submit|Start|End|Elapsed|NNodes|AllocTRES|NodeList|AdminComment"
_STATES = {"completed": "COMPLETED", "cancelled": "CANCELLED by 7001", "timed_out": "TIMEOUT", "preempted": "PREEMPTED",
           "planned": "CANCELLED by 0"}  # fmt: skip


def node_list(a: Attempt, name: Callable[[int], str]) -> str:
    """Compressed like Slurm's: consecutive hosts as one range."""
    first, last = name(a.hosts[0]), name(a.hosts[-1])
    stem = first.rstrip("0123456789")
    return first if len(a.hosts) == 1 else f"{stem}[{first[len(stem) :]}-{last[len(stem) :]}]"


def _elapsed(seconds: float) -> str:
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def allocations(plan: Plan) -> list[list[Attempt]]:
    """Attempts by job id: those restarted inside the job share an allocation."""
    jobs: dict[int, list[Attempt]] = {}
    for a in (*plan.attempts, *plan.side):
        jobs.setdefault(a.job_id, []).append(a)
    return list(jobs.values())


def _state(a: Attempt) -> tuple[str, str]:
    if a.kind != "unexpected":
        return _STATES[a.kind], "0:0"
    return ("NODE_FAIL", "0:0") if a.component in NODE_DOWN else ("FAILED", "1:0")


def _sacct(plan: Plan, cal: Calendar, name: Callable[[int], str]) -> Iterator[str]:
    yield SACCT
    for attempts in allocations(plan):
        a, last = attempts[0], attempts[-1]
        state, code = _state(last)
        gpus = len(a.hosts) * plan.settings.gpus_per_host
        comment = "planned maintenance window" if last.kind == "planned" else ""
        side = a.job_id >= 61_000
        yield "|".join(
            (
                str(a.job_id), "probe" if side else "pretrain", "train", "mira" if side else "orrin", "lab", state, code,
                cal.slurm(a.queued), cal.slurm(a.start), cal.slurm(last.end), _elapsed(last.end - a.start),
                str(len(a.hosts)), f"cpu={len(a.hosts) * 96},gres/gpu={gpus},node={len(a.hosts)}", node_list(a, name), comment,
            )
        )  # fmt: skip


def _slurmctld(plan: Plan, cal: Calendar, ctld: dict[int, list[Said]], name: Callable[[int], str]) -> Iterator[str]:
    lines: list[tuple[float, str]] = [(t, line.text) for said in ctld.values() for t, line in said]
    for attempts in allocations(plan):
        a, last = attempts[0], attempts[-1]
        lines.append(
            (
                a.start,
                f"sched: Allocate JobId={a.job_id} NodeList={node_list(a, name)} #CPUs={len(a.hosts) * 96} Partition=train",
            )
        )
        if last.kind == "unexpected" and last.component in NODE_DOWN:
            host = name(last.host or 0)
            lines.append((last.end - 0.2, f"error: Nodes {host} not responding, setting DOWN"))
            said = f"Killing JobId={a.job_id} on failed node {host}"
            if plan.settings.wording == "other":
                said = f"requeue job JobId={a.job_id} due to failure of node {host}"
            lines.append((last.end, said))
        elif last.kind == "unexpected":
            lines.append((last.end, f"_job_complete: JobId={a.job_id} WEXITSTATUS 1"))
        elif last.kind in ("cancelled", "planned"):
            uid = 0 if last.kind == "planned" else 7001
            lines.append((last.end, f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={a.job_id} uid {uid}"))
        elif last.kind == "timed_out":
            lines.append((last.end, f"Time limit exhausted for JobId={a.job_id}"))
        elif last.kind == "preempted":
            lines.append(
                (
                    last.end,
                    f"preempted job JobId={a.job_id} has been killed to reclaim resources for JobId={a.job_id + 40_000}",
                )
            )
        else:
            lines.append((last.end, f"_job_complete: JobId={a.job_id} WEXITSTATUS 0"))
    for t, text in sorted(lines):
        yield f"[{cal.slurmctld(t)}] {text}"


def _kern(
    host: int, said: Iterator[Said], plan: Plan, cal: Calendar, name: Callable[[int], str]
) -> tuple[str, Iterator[str]]:
    """(file name, lines) in the style of that host: ISO syslog, syslog without a year, or `dmesg -T`."""
    skew, style = float(plan.skew[host]), host % 5
    if style < 3:
        return "kern.log", (f"{cal.iso(t, skew)} {name(host)} kernel: {line.text}" for t, line in said)
    if style == 3:
        return "messages", (f"{cal.rfc3164(t, skew)} {name(host)} kernel: {line.text}" for t, line in said)
    return "dmesg-T.txt", (f"[{cal.ctime(t, skew)}] {line.text}" for t, line in said)


def _telemetry(plan: Plan, host: int, cal: Calendar) -> Iterator[str]:
    """nvidia-smi CSV: temperature follows the hour, power follows the training."""
    s = plan.settings
    rng = np.random.default_rng([s.seed, host, 29])
    yield "timestamp, index, uuid, temperature.gpu, power.draw [W], clocks.sm [MHz], utilization.gpu [%]"
    starts = [(a.first_progress or a.end, a.onset or a.end) for a in plan.attempts]
    i = 0
    for k in range(int(plan.length / s.telemetry_every_s)):
        t = k * s.telemetry_every_s
        while i < len(starts) - 1 and starts[i][1] < t:
            i += 1
        busy = starts[i][0] <= t < starts[i][1]
        warm = 3.0 * float(np.cos(2 * np.pi * ((t % 86400) / 3600 - s.slowest_hour) / 24))
        stamp = f"{cal.local(t):%Y/%m/%d %H:%M:%S}.000"
        for g, (a, b, c) in enumerate(rng.normal(0, 1, (s.gpus_per_host, 3)).tolist()):
            temp, power = (62 + warm + a, 652 + 9 * b) if busy else (34 + warm + a, 92 + 3 * b)
            clock = round(1755 - (warm if busy else 0) * 4 + 3 * c)
            yield (
                f"{stamp}, {g}, GPU-{host:08x}-0000-4000-8000-{g:012x}, {temp:.0f}, {power:.2f} W, {clock} MHz, "
                f"{99 if busy else 0} %"
            )


def _write(path: Path, lines: Iterator[str]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    n = 0
    with path.open("w", encoding="utf-8", buffering=1 << 20) as out:
        for line in lines:
            n += out.write(line)
            n += out.write("\n")
    return n


def write_slurm(root: Path, plan: Plan, cal: Calendar, name: Callable[[int], str]) -> int:
    """Everything of the site below `root`; bytes written."""
    s = plan.settings
    told = stories(plan, name)
    said = spoken(plan, told, name)
    size = _write(root / "slurm" / "sacct.txt", _sacct(plan, cal, name))
    size += _write(root / "slurm" / "slurmctld.log", _slurmctld(plan, cal, said["ctld"], name))
    for host in logging_hosts(plan, said["kern"]):
        stream = merged(said["kern"].get(host, []), noise(plan, host))
        file, lines = _kern(host, stream, plan, cal, name)
        size += _write(root / "hosts" / name(host) / file, lines)
    for attempts in allocations(plan):
        a = attempts[0]
        skew = float(plan.skew[a.hosts[0]])

        def output(parts: list[Attempt] = attempts, skew: float = skew) -> Iterator[str]:
            for k, part in enumerate(parts):
                if k:
                    yield (
                        f"I{cal.local(part.start, skew):%m%d %H:%M:%S}.000000 411 torch/distributed/elastic/agent/server/api.py:910] "
                        f"[default] Worker group FAILED. {3 - k}/3 attempts left; will restart worker group"
                    )
                for _, text in training(part, s, cal, skew):
                    yield text
                for _, text in ending(part, s, cal, skew, told.get((part.job_id, part.attempt), []), name):
                    yield text

        size += _write(root / "jobs" / str(a.job_id) / f"slurm-{a.job_id}.out", output())
    for host, power in said["sel"].items():
        rows = (
            f"{i + 1:4x} | {cal.local(t):%m/%d/%Y} | {cal.local(t):%H:%M:%S} | {line.text}"
            for i, (t, line) in enumerate(power)
        )
        size += _write(root / "bmc" / f"{name(host)}.sel.txt", iter([f"# {name(host)}: ipmitool sel elist", *rows]))
    for leaf, ports in said["switch"].items():
        size += _write(
            root / "switch" / f"leaf{leaf:03d}.log",
            (f"{cal.rfc3164(t, 0.0)} leaf{leaf:03d} {line.text}" for t, line in ports),
        )
    for host in range(min(s.telemetry_hosts, s.hosts)):
        size += _write(root / "telemetry" / f"{name(host)}.csv", _telemetry(plan, host, cal))
    return size
