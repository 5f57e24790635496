"""Three tiny sites whose logs are written here: Slurm accounting, kernel logs and job logs of a few minutes.

`hbm`: a GPU's memory error stops a job of two hosts. `bug`: a job dies of its own out-of-memory error while a
neighbour runs on and a host prints corrected errors only. `idle`: a GPU falls off the bus of a host without a job, a
job is cancelled by its user, and a link failure stops another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

#: When all files were last written, seconds since 1970.
WRITTEN = 1772700000
Files = dict[str, str]
_HEAD = "JobID|JobName|Partition|User|State|ExitCode|Start|End|Elapsed|NNodes|NodeList|Reason\n"


def _same(name: str) -> str:
    return name


@dataclass(frozen=True)
class Site:
    """How a site is written: moved in time, hosts renamed, with more noise, with one more (healthy) host."""

    shift: timedelta = timedelta(0)
    rename: Callable[[str], str] = _same
    noise: int = 1
    healthy: bool = False
    noise_lines: int = 40

    def at(self, minute: float) -> datetime:
        return datetime(2026, 3, 4, 10, 0, tzinfo=UTC) + self.shift + timedelta(minutes=minute)

    def iso(self, minute: float) -> str:
        return self.at(minute).strftime("%Y-%m-%dT%H:%M:%S")

    def kern(self, host: str, told: Mapping[float, str]) -> str:
        """A kernel log with ISO stamps: what is told at its minute, and noise every few seconds."""
        name = self.rename(host)
        n = self.noise_lines * self.noise
        lines = [(60.0 * i / n, f"audit: type=1400 audit({i}): apparmor allowed pid={1000 + i}") for i in range(n)]
        lines.extend(told.items())
        return "".join(
            f"{self.at(m).isoformat(timespec='microseconds')} {name} kernel: {text}\n" for m, text in sorted(lines)
        )

    def joblog(self, told: Mapping[float, str], *, steps: int, until: float, start: float = 1.0) -> str:
        """A job's output: a step every 20 s until it stops, what is told at its minute, and chatter."""
        lines: list[tuple[float, str]] = []
        step = 0
        at = start
        while at < until and step < steps:
            step += 1
            stamp = self.at(at).strftime("%Y-%m-%d %H:%M:%S")
            lines.append((at, f"[{stamp}] iteration {step:8d}/ {steps:8d} | elapsed time per iteration (ms): 20000.0"))
            lines.extend((at + 0.01, f"[{stamp}] data loader: shard {step * 7 + i} opened") for i in range(self.noise))
            at += 1 / 3
        lines.extend((m, f"[{self.at(m).strftime('%Y-%m-%d %H:%M:%S')}] {text}") for m, text in told.items())
        return "".join(f"{text}\n" for _, text in sorted(lines, key=lambda item: item[0]))

    def job(self, number: int, name: str, state: str, code: str, start: float, end: float, nodes: list[str]) -> str:
        hosts = ",".join(self.rename(n) for n in nodes)
        elapsed = timedelta(minutes=end - start)
        times = f"{self.iso(start)}|{self.iso(end)}|{elapsed}"
        return f"{number}|{name}|train|mira|{state}|{code}|{times}|{len(nodes)}|{hosts}|None\n"

    def extra(self) -> Files:
        return {"hosts/ok9/kern.log": self.kern("ok9", {})} if self.healthy else {}


def hbm(site: Site) -> Files:
    xid = "NVRM: Xid (PCI:0000:4d:00): {}"
    return {
        "slurm/sacct.txt": _HEAD
        + site.job(5101, "pretrain", "FAILED", "1:0", 0, 21, ["tula1", "tula2"])
        + site.job(5102, "short", "COMPLETED", "0:0", 25, 40, ["tula2"]),
        "hosts/tula1/kern.log": site.kern(
            "tula1",
            {
                20.0: xid.format(
                    "48, pid=7001, name=python, An uncorrectable double bit error (DBE) has been detected on GPU"
                ),
                20.01: xid.format("94, pid=7001, name=python, Contained: SM (0x1). RST: No, D-RST: No"),
                20.02: xid.format("45, pid=7001, name=python, Ch 00000010"),
            },
        ),
        "hosts/tula2/kern.log": site.kern(
            "tula2", {20.3: "NVRM: Xid (PCI:0000:1b:00): 45, pid=81, name=python, Ch 00000008"}
        ),
        "jobs/slurm-5101.out": site.joblog(
            {
                20.05: "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
                20.2: "[rank9]:[E ProcessGroupNCCL.cpp:563] [Rank 9] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for "
                "600012 milliseconds before timing out.",
            },
            steps=100,
            until=20.0,
        ),
        "jobs/slurm-5102.out": site.joblog(
            {39.5: "training done, saved final checkpoint"}, steps=20, start=26, until=40
        ),
        **site.extra(),
    }


def bug(site: Site) -> Files:
    return {
        "slurm/sacct.txt": _HEAD
        + site.job(6201, "tune", "FAILED", "1:0", 2, 14, ["oka1"])
        + site.job(6202, "eval", "COMPLETED", "0:0", 3, 50, ["oka2"]),
        "hosts/oka1/kern.log": site.kern("oka1", {}),
        "hosts/oka2/kern.log": site.kern(
            "oka2",
            {12.0: "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x8f)"},
        ),
        "jobs/slurm-6201.out": site.joblog(
            {
                13.5: "Traceback (most recent call last):",
                13.51: '  File "/opt/train/loop.py", line 88, in step',
                13.52: "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
                "capacity of 79.11 GiB of which 1.02 GiB is free.",
            },
            steps=100,
            start=3,
            until=13.4,
        ),
        "jobs/slurm-6202.out": site.joblog({49.0: "evaluation finished"}, steps=140, start=4, until=49),
        **site.extra(),
    }


def idle(site: Site) -> Files:
    return {
        "slurm/sacct.txt": _HEAD
        + site.job(7301, "sweep", "CANCELLED by 4021", "0:0", 1, 18, ["vik2"])
        + site.job(7302, "pretrain", "FAILED", "1:0", 5, 34, ["vik3", "vik4"]),
        "hosts/vik1/kern.log": site.kern(
            "vik1",
            {30.0: "NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
        ),
        "hosts/vik2/kern.log": site.kern("vik2", {}),
        "hosts/vik3/kern.log": site.kern(
            "vik3",
            {
                32.0: "NVRM: Xid (PCI:0000:5d:00): 74, pid=4411, name=python, NVLink: fatal error detected on link 6"
                "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
                32.1: "NVRM: Xid (PCI:0000:5d:00): 45, pid=4411, name=python, Ch 00000010",
            },
        ),
        "hosts/vik4/kern.log": site.kern("vik4", {}),
        "jobs/slurm-7302.out": site.joblog(
            {32.5: "[rank2]: RuntimeError: NCCL error: unhandled cuda error, NCCL version 2.21.5"},
            steps=200,
            start=6,
            until=32,
        ),
        "jobs/slurm-7301.out": site.joblog(
            {18.0: "slurmstepd: error: *** JOB 7301 ON vik2 CANCELLED ***"}, steps=90, start=2, until=18
        ),
        **site.extra(),
    }


SITES: dict[str, Callable[[Site], Files]] = {"hbm": hbm, "bug": bug, "idle": idle}


def write(files: Mapping[str, str], root: Path) -> Path:
    """Writes files below `root` (made if it is not there); returns it."""
    for name, text in sorted(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (WRITTEN, WRITTEN))  # a copy that keeps its time, as rsync and tar make them
    root.mkdir(parents=True, exist_ok=True)
    return root
