"""Hosts, jobs and the logs that stories write into."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

ROOT = "example-site"
GPUS = 8
#: PCI buses of the GPUs and names of the adapters of every host, by index.
BUS = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
DAY = datetime(2026, 3, 9, tzinfo=UTC)
BOOT = datetime(2026, 2, 20, 5, 30, tzinfo=UTC)
HOSTS = tuple(f"hn{n:02d}" for n in range(1, 17))
SECOND = timedelta(seconds=1)


@dataclass
class Job:
    """One job: what the scheduler knows of it, and how its output goes on."""

    id: int
    name: str
    user: str
    hosts: tuple[str, ...]
    start: datetime
    minutes: float
    state: str
    exit: str
    step_s: float
    first_step: int
    lines: list[tuple[datetime, str]] = field(default_factory=list)
    stop_steps: float | None = None  # minutes after the start at which steps stop, None: at the end
    save_every: int = 100

    @property
    def end(self) -> datetime:
        return self.start + timedelta(minutes=self.minutes)

    def at(self, minutes: float) -> datetime:
        return self.start + timedelta(minutes=minutes)

    def host_of(self, rank: int) -> str:
        return self.hosts[rank // GPUS]

    def say(self, when: datetime, *texts: str) -> None:
        for n, text in enumerate(texts):
            self.lines.append((when + n * timedelta(milliseconds=1), text))


class Site:
    """Collects every log while jobs are told; `files()` gives them with their paths."""

    def __init__(self, seed: int = 405) -> None:
        self.rng = random.Random(seed)
        self.kernel: dict[str, list[tuple[datetime, str]]] = {h: [] for h in HOSTS}
        self.boots: dict[str, list[datetime]] = {h: [BOOT] for h in HOSTS}
        self.controller: list[tuple[datetime, str]] = []
        self.jobs: list[Job] = []

    def kern(self, host: str, when: datetime, text: str) -> None:
        self.kernel[host].append((when, text))

    def ctl(self, when: datetime, text: str) -> None:
        self.controller.append((when, text))

    def nvrm(self, host: str, when: datetime, gpu: int, xid: int, text: str, *, name: bool = True) -> None:
        who = "pid='<unknown>', name=<unknown>, " if not name else f"pid={48200 + gpu}, name=python3, "
        self.kern(host, when, f"NVRM: Xid (PCI:0000:{BUS[gpu]}:00): {xid}, {who}{text}")

    def add(self, job: Job) -> Job:
        self.jobs.append(job)
        self.ctl(
            job.start - 2 * SECOND,
            f"sched: Allocate JobId={job.id} NodeList={squeeze(job.hosts)} #CPUs={96 * len(job.hosts)} Partition=train",
        )
        return job


def squeeze(hosts: tuple[str, ...]) -> str:
    """`hn[01-03,05]`, as Slurm prints a node list."""
    numbers = sorted(int(h[2:]) for h in hosts)
    if len(numbers) == 1:
        return f"hn{numbers[0]:02d}"
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return "hn[" + ",".join(f"{a:02d}" if a == b else f"{a:02d}-{b:02d}" for a, b in runs) + "]"


def hosts(*numbers: int) -> tuple[str, ...]:
    return tuple(f"hn{n:02d}" for n in numbers)


def glog(when: datetime) -> str:
    """Time as glog prints it in C++ (`310 04:12:01.123456789`, no leading zero of the month)."""
    return f"{when.month}{when.day:02d} {when:%H:%M:%S}.{when.microsecond:06d}000"


def pylog(when: datetime) -> str:
    """Time as the elastic agent prints it (`0310 04:12:01.123000`)."""
    return f"{when:%m%d %H:%M:%S}.{when.microsecond // 1000:03d}000"
