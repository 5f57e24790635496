"""What happens: the attempts of the main job one after the other, with cause, culprit, onset and end.

The plan is made before anything is written and knows nothing of wording. Times are seconds since the start of the
simulation. The truth of the totals (effective training time, lost work ...) is computed here, from the plan itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pipeline.simulate.pace import ends_of_steps, steps_between
from pipeline.simulate.settings import SimSettings

#: Components whose fault sits on one host (and often one GPU).
_HOST_BOUND = ("gpu.", "host.", "net.nic")
#: Other answers that a reviewer would take for a cause, given only what the logs of that cause can show.
ACCEPTABLE = {
    "gpu.device": ("host.pcie",),
    "gpu.hbm": ("gpu.device",),
    "gpu.sram": ("gpu.device",),
    "gpu.nvlink": ("gpu.device",),
    "gpu.gsp": ("software.driver",),
    "host.power": ("host.os",),
    "net.nic": ("net.fabric",),
    "net.fabric": ("net.nic",),
    "unknown": ("unknown.nccl_timeout",),
    "unknown.nccl_timeout": ("unknown",),
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a job. Steps are global; `first_step` is the first one that this attempt computes."""

    job_id: int
    attempt: int
    queued: float
    start: float
    first_progress: float | None
    onset: float | None
    end: float
    component: str  # "" for an end that is no interruption
    kind: str  # unexpected | planned | completed | cancelled | timed_out | preempted
    host: int | None
    gpu: int | None
    fault: int | None
    first_step: int
    last_step: int
    saves: tuple[tuple[float, float, int], ...]  # (begin, seconds, step)
    hosts: tuple[int, ...]
    framework: str
    in_job: bool  # restarted inside the same allocation
    variant: int
    stop_delay: float
    withheld: bool = False
    weak: int = 0  # the n-th fault of the one weak GPU, 0 for all others


@dataclass(frozen=True, slots=True)
class SideFault:
    """A fault that stopped nothing of the main job: survived by training, or on an idle host."""

    t: float
    host: int
    gpu: int
    component: str
    recovered: bool
    variant: int


@dataclass(slots=True)
class Plan:
    settings: SimSettings
    attempts: list[Attempt] = field(default_factory=list)
    side: list[Attempt] = field(default_factory=list)
    faults: list[SideFault] = field(default_factory=list)
    skew: np.ndarray = field(default_factory=lambda: np.zeros(0))
    withheld: frozenset[int] = frozenset()
    useful_s: float = 0.0
    lost_s: list[float] = field(default_factory=list)

    @property
    def length(self) -> float:
        return self.settings.days * 86400


def _lognormal(rng: np.random.Generator, median_sigma: tuple[float, float]) -> float:
    return float(median_sigma[0] * math.exp(median_sigma[1] * rng.standard_normal()))


def _causes(s: SimSettings, rng: np.random.Generator) -> list[tuple[str, str]]:
    names = sorted(s.mix)
    if s.exact_mix:
        drawn = [n for n in names for _ in range(round(s.mix[n]))]
    else:
        weights = np.array([s.mix[n] for n in names], dtype=float)
        drawn = [names[i] for i in rng.choice(len(names), size=s.interruptions, p=weights / weights.sum())]
    every = [(c, "unexpected") for c in drawn] + [("maintenance.planned", "planned")] * s.planned
    return [every[i] for i in rng.permutation(len(every))]


def make_plan(s: SimSettings) -> Plan:
    """The whole story of a cluster, deterministic in the settings."""
    rng = np.random.default_rng(s.seed)
    plan = Plan(s)
    total_hosts = s.hosts + s.spare_hosts
    plan.skew = rng.normal(0, s.skew_s, total_hosts)
    plan.withheld = frozenset(np.flatnonzero(rng.random(total_hosts) < s.withheld).tolist())
    causes = _causes(s, rng)
    # Ends of attempts: uniform over the period, kept apart by at least one start-up, so that each attempt trains.
    room = plan.length - len(causes) * (s.startup_s[0] * 1.5 + s.queue_s[0] * 1.5 + 60)
    gaps = rng.exponential(1.0, len(causes) + 1)
    gaps *= max(room, 1.0) / gaps.sum()
    job_id, attempt, step, saved_step = 41_000 + int(rng.integers(0, 900)), 0, 0, 0
    t, in_job, framework = 0.0, False, s.frameworks[0]
    host_ids = tuple(range(s.hosts))
    weak_place, weak = np.random.default_rng([s.seed, 31]).integers(0, (s.hosts, s.gpus_per_host)).tolist(), 0
    for index in range(len(causes) + 1):
        last = index == len(causes)
        component, kind = ("", "completed") if last else causes[index]
        framework = s.frameworks[index % len(s.frameworks)] if not in_job else framework
        start = t + (0.0 if in_job else _lognormal(rng, s.queue_s))
        ready = start + _lognormal(rng, s.startup_s) * (0.5 if in_job else 1.0)
        stop_delay = 0.0 if kind != "unexpected" else min(_lognormal(rng, s.stop_delay_s), 300.0)
        if component.startswith("unknown") or component == "net.fabric":
            stop_delay = s.watchdog_s + float(rng.uniform(0.2, 2.0))
        onset = min(ready + gaps[index] + 5 * s.step_s, plan.length - 1) if not last else plan.length
        first_step = saved_step + 1
        saves, step, useful, tail = _train(s, rng, ready, onset, first_step)
        end = plan.length if last else onset + stop_delay
        new_saved = max((x for _, _, x in saves), default=saved_step)
        if kind == "planned":
            seconds = _lognormal(rng, s.checkpoint_s)
            saves.append((onset, seconds, step))
            new_saved, end = step, onset + seconds + 4.0
        host = gpu = None
        if component.startswith(_HOST_BOUND) or component in ("maintenance.unplanned", "software.bug"):
            host, gpu = int(rng.integers(0, s.hosts)), int(rng.integers(0, s.gpus_per_host))
            if component == "gpu.device" and weak < s.weak_gpu_faults:
                weak += 1
                host, gpu = weak_place
        elif component == "net.fabric":
            host = int(rng.integers(0, max(1, s.hosts // s.hosts_per_leaf))) * s.hosts_per_leaf
        restart_inside = bool(kind == "unexpected" and component == "software.bug" and rng.random() < s.in_job_restarts)
        plan.attempts.append(
            Attempt(
                job_id, attempt, t, start, ready if step >= first_step else None, onset if not last else None, end,
                component, kind, host, gpu, index if kind == "unexpected" else None, first_step, step,
                tuple(saves), host_ids, framework, in_job, int(rng.integers(0, 1 << 16)), stop_delay,
                host in plan.withheld if host is not None else False,
                weak if [host, gpu] == weak_place and component == "gpu.device" else 0,
            )
        )  # fmt: skip
        lost = 0.0 if last or kind == "planned" else tail
        plan.lost_s.append(lost)
        plan.useful_s += useful - lost
        saved_step = new_saved if not last else step
        in_job, t = restart_inside, end + (3.0 if restart_inside else float(rng.uniform(8, 40)))
        if restart_inside:
            attempt += 1
        else:
            job_id, attempt = job_id + int(rng.integers(1, 9)), 0
    _side_faults(plan, rng)
    _side_jobs(plan, rng)
    return plan


def _train(
    s: SimSettings, rng: np.random.Generator, ready: float, until: float, first_step: int
) -> tuple[list[tuple[float, float, int]], int, float, float]:
    """Saves, last completed step, seconds spent on completed steps, and those of them after the last save."""
    saves: list[tuple[float, float, int]] = []
    t, step, useful, spent = ready, first_step - 1, 0.0, 0.0
    next_save = ready + s.checkpoint_every_s
    while t < until:
        block_end = min(next_save, until)
        n = max(0, int(steps_between(s, t, block_end) + 1e-9))
        spent = float(ends_of_steps(s, t, np.array([float(n)]))[0]) - t
        step += n
        useful += spent
        t = block_end
        if t >= until:
            break
        seconds = _lognormal(rng, s.checkpoint_s)
        if t + seconds >= until:
            break
        saves.append((t, seconds, step))
        spent = 0.0
        t += seconds
        next_save = t + s.checkpoint_every_s
    return saves, step, useful, spent


def _side_faults(plan: Plan, rng: np.random.Generator) -> None:
    s = plan.settings
    running = [a for a in plan.attempts if a.first_progress is not None and a.end - a.first_progress > 1800]
    for _ in range(s.recovered_faults if running else 0):
        a = running[int(rng.integers(0, len(running)))]
        assert a.first_progress is not None
        t = float(rng.uniform(a.first_progress + 300, (a.onset or a.end) - 900))
        component = ["gpu.hbm", "host.memory", "host.pcie", "net.nic", "dependency"][int(rng.integers(0, 5))]
        plan.faults.append(
            SideFault(t, int(rng.integers(0, s.hosts)), int(rng.integers(0, s.gpus_per_host)), component, True,
                      int(rng.integers(0, 1 << 16)))
        )  # fmt: skip
    if s.spare_hosts:
        for a in plan.attempts:
            if a.onset is not None and rng.random() < s.neighbour_faults:
                plan.faults.append(
                    SideFault(a.onset + float(rng.uniform(-40, 40)), s.hosts + int(rng.integers(s.spare_hosts // 2, s.spare_hosts)),
                              int(rng.integers(0, s.gpus_per_host)), "gpu.device", False, int(rng.integers(0, 1 << 16)))
                )  # fmt: skip
    plan.faults.sort(key=lambda f: (f.t, f.host))


def _side_jobs(plan: Plan, rng: np.random.Generator) -> None:
    """Short jobs on spare hosts that end without a fault; one at a time on each host."""
    s = plan.settings
    wanted = [("completed", s.side_jobs.completed), ("cancelled", s.side_jobs.cancelled),
              ("timed_out", s.side_jobs.timed_out), ("preempted", s.side_jobs.preempted)]  # fmt: skip
    kinds = [kind for kind, n in wanted for _ in range(n)]
    if not kinds or s.spare_hosts < 2:
        return
    slot = plan.length / len(kinds)
    for i, k in enumerate(rng.permutation(len(kinds)).tolist()):
        width = min(s.side_jobs.hosts_each, s.spare_hosts // 2)
        first = s.hosts + int(rng.integers(0, s.spare_hosts // 2 - width + 1))
        start = i * slot + float(rng.uniform(0.02, 0.1)) * slot
        end = start + float(rng.uniform(0.4, 0.8)) * slot
        ready = min(start + 30.0, end)
        saves, step, _, _ = _train(s, rng, ready, end, 1)
        plan.side.append(
            Attempt(
                61_000 + i, 0, start - 5, start, ready, None, end, "", kinds[k], None, None, None, 1, step, tuple(saves),
                tuple(range(first, first + width)), s.frameworks[i % len(s.frameworks)], False,
                int(rng.integers(0, 1 << 16)), 0.0,
            )
        )  # fmt: skip
