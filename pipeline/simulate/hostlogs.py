"""Logs of hosts, BMCs and switches: who says what when, and in which stamp style each host writes.

Everything is a generator of (seconds, text) in time order; nothing is kept but the lines of faults, which are few.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pipeline.simulate.plan import Attempt, Plan
from pipeline.simulate.scene import Line
from pipeline.simulate.wording import lethal, mild, story

Said = tuple[float, Line]

_NOISE = (
    "perf: interrupt took too long ({a} > {b}), lowering kernel.perf_event_max_sample_rate to 50000",
    "docker0: port {c}(veth{x}) entered blocking state",
    "eth0: renamed from veth{x}",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{x}: link becomes ready",
    "systemd-journald[{b}]: Under memory pressure, flushing caches.",
)


def stories(plan: Plan, name: Callable[[int], str]) -> dict[tuple[int, int], list[Line]]:
    """The lines of each unexpected end, by (job id, attempt)."""
    return {
        (a.job_id, a.attempt): story(a, plan.settings, name)
        for a in plan.attempts
        if a.kind == "unexpected" and a.onset is not None
    }


def spoken(
    plan: Plan, told: dict[tuple[int, int], list[Line]], name: Callable[[int], str]
) -> dict[str, dict[int, list[Said]]]:
    """channel -> host (or leaf) -> (seconds, line) in order, of everything that is not job output."""
    s = plan.settings
    out: dict[str, dict[int, list[Said]]] = defaultdict(lambda: defaultdict(list))
    for a in plan.attempts:
        for line in told.get((a.job_id, a.attempt), ()):
            if line.channel != "job":
                out[line.channel][line.host].append(((a.onset or 0.0) + line.dt, line))
        if a.kind == "unexpected" and a.component != "unknown":
            for t, line in _teardown(plan, a):
                out["kern"][line.host].append((t, line))
    for f in plan.faults:
        make = mild if f.recovered else lethal
        for line in make(f.component, f.variant, s, f.host, f.gpu, name):
            out[line.channel][line.host].append((f.t + line.dt, line))
    for hosts in out.values():
        for said in hosts.values():
            said.sort(key=lambda item: (item[0], item[1].text))
    return out


def _teardown(plan: Plan, a: Attempt) -> Iterator[Said]:
    """Xid 45 of processes killed at the end, on a few hosts: what everybody sees and nobody should count."""
    s = plan.settings
    rng = np.random.default_rng([s.seed, a.job_id, a.attempt, 17])
    for i in range(min(s.teardown_lines // 8, len(a.hosts))):
        host = a.hosts[int(rng.integers(0, len(a.hosts)))]
        text = f"NVRM: Xid (PCI:0000:{int(rng.integers(16, 255)):02x}:00): 45, pid={30_000 + i}, name=python, Ch {i + 8:08x}"
        yield a.end + 0.2 + 0.05 * i, Line(0, "kern", host, text, None, "warning")


def noise(plan: Plan, host: int) -> Iterator[Said]:
    """Benign kernel lines of one host, by a Poisson process."""
    s = plan.settings
    if s.noise_lines_per_host_day <= 0:
        return
    rng = np.random.default_rng([s.seed, host, 19])
    t, gap = 0.0, 86400 / s.noise_lines_per_host_day
    while (t := t + float(rng.exponential(gap))) < plan.length:
        text = _NOISE[int(rng.integers(0, len(_NOISE)))].format(
            a=int(rng.integers(3000, 9000)), b=int(rng.integers(700, 2999)), c=int(rng.integers(1, 12)),
            x=f"{int(rng.integers(0, 1 << 28)):07x}",
        )  # fmt: skip
        yield t, Line(0, "kern", host, text, None, "info")


def merged(said: Sequence[Said], more: Iterator[Said]) -> Iterator[Said]:
    """Two streams in time order as one."""
    return heapq.merge(said, more, key=lambda item: item[0])


def logging_hosts(plan: Plan, kern: dict[int, list[Said]]) -> list[int]:
    """Hosts whose kernel log is written: those with something to say, and a sample of the silent."""
    s = plan.settings
    rng = np.random.default_rng([s.seed, 23])
    sample = np.flatnonzero(rng.random(s.hosts + s.spare_hosts) < s.noise_hosts).tolist()
    return [h for h in sorted({*kern, *sample}) if h not in plan.withheld]
