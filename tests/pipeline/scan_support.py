"""Made-up logs, and short ways to scan bytes, for the tests of scanning."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from classifiers.knowledge import load_ruleset
from pipeline.scanning.scan import scan_engine, scan_range
from pipeline.sources import Range, Source, discover
from schemas.facts import Facts, merge_facts
from schemas.settings import Settings

SETTINGS = Settings()


@cache
def ruleset():
    return load_ruleset()


@cache
def engine(name: str = "auto"):
    return scan_engine(ruleset(), Settings(engine=name))


def source_of(path: Path, settings: Settings = SETTINGS) -> Source:
    """The one source under a path."""
    found = list(discover([path], settings))
    assert len(found) == 1, found
    assert isinstance(found[0], Source), found[0]
    return found[0]


def scan_cut(source: Source, borders: Iterable[int] = (), name: str = "auto") -> Facts:
    """Facts of a plain source that is cut at these offsets."""
    inner = sorted(b for b in set(borders) if 0 < b < (source.size or 0))
    edges = [0, *inner, source.size or 0]
    parts = [scan_range(Range(source, a, b), ruleset(), engine(name), SETTINGS) for a, b in pairwise(edges)]
    return merge_facts(parts)


def whole(facts: Facts) -> Facts:
    """Facts without the note of how they were cut."""
    from dataclasses import replace

    return replace(facts, sources=tuple(replace(s, ranges=()) for s in facts.sources))


def scan_file(path: Path, settings: Settings = SETTINGS) -> Facts:
    """Facts of everything under a path, one range each for packed files."""
    from pipeline.scanning.scan import scan_paths

    return scan_paths([path], settings, ruleset())


_NOISE = (
    "systemd[1]: Started Session {n} of user oda.",
    'kernel: [{up}] audit: type=1400 audit({n}.123:45): apparmor="STATUS" operation="profile_load"',
    "chronyd[811]: Selected source 10.0.{b}.{b}",
    'containerd[1422]: time="now" level=info msg="shim disconnected" id={n}',
    "sshd[{n}]: Connection closed by 10.1.{b}.9 port {n}",
)
_SIGNALS = (
    "kernel: [{up}] NVRM: Xid (PCI:0000:{p}:00): 79, pid={n}, name=python3, GPU has fallen off the bus.",
    "kernel: [{up}] NVRM: Xid (PCI:0000:{p}:00): 94, pid={n}, Contained: CE User Channel (0x9). RST: No, D-RST: No",
    "kernel: [{up}] mlx5_core 0000:{p}:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).",
    "kernel: [{up}] nvme nvme2: I/O {b} QID 1 timeout, reset controller",
    "kernel: [{up}] Out of memory: Killed process {n} (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
)


def syslog(seed: int, lines: int, signals: float = 0.01, storm: int = 0, hosts: Sequence[str] = ("gx-01",)) -> bytes:
    """A syslog of one or more hosts with kernel signals in it; `storm` repeats of one signal in the middle."""
    rng = random.Random(seed)
    out = []
    second = 0.0
    for i in range(lines):
        second += rng.random() * 2
        kinds = _SIGNALS if rng.random() < signals else _NOISE
        out.append(_line(rng, second, rng.choice(hosts), rng.choice(kinds)))
        if i == lines // 2:
            for _ in range(storm):
                second += 0.001
                out.append(_line(rng, second, hosts[0], _SIGNALS[0].replace("{n}", "4242").replace("{p}", "4d")))
    return ("\n".join(out) + "\n").encode()


def _clock(second: int) -> str:
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _line(rng: random.Random, second: float, host: str, text: str) -> str:
    clock = int(second)
    stamp = f"Mar {3 + clock // 86400:2d} {_clock(clock)}"
    values = {
        "n": rng.randrange(1000, 99999),
        "b": rng.randrange(256),
        "p": rng.choice(("4d", "b1")),
        "up": f"{1000 + second:.6f}",
    }
    return f"{stamp} {host} " + text.format(**values)


_JOB_NOISE = (
    "INFO:data:loaded shard {n} of 4096",
    "  warnings.warn(",
    "[rank{r}]: using cached index {n}",
    "Some text without any number",
)
_JOB_SIGNALS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {b}.00 MiB. GPU 0 has a total capacity of 79.11 GiB",
    "[rank{r}]: RuntimeError: CUDA error: an illegal memory access was encountered",
    "Traceback (most recent call last):",
    "ValueError: shapes {b} and {n} do not match",
    "gx-0{r}:{n}:{n} [0] net_ib.cc:{n} NCCL WARN NET/IB: Got completion from peer 10.0.0.{b}<1> with status=12",
)


def job_log(seed: int, lines: int, signals: float = 0.01, end: str = "\n") -> bytes:
    """Output of a training job: progress lines with stamps, noise and unstamped failures."""
    rng = random.Random(seed)
    out, step = ["+ srun python train.py", "SLURM_JOB_ID=4711", "world_size: 16"], 0
    for i in range(lines):
        roll = rng.random()
        if roll < 0.4:
            step += 1
            clock = 7 * step
            out.append(
                f"[2026-03-03 {_clock(clock)}] iteration {step:8d}/ 100000 | "
                f"consumed samples: {step * 512:12d} | elapsed time per "
                f"iteration (ms): 7000.1 | lm loss: 2.3{i % 10}E+00 |"
            )
        else:
            kinds = _JOB_SIGNALS if roll > 1 - signals else _JOB_NOISE
            values = {"n": rng.randrange(1000, 99999), "b": rng.randrange(256), "r": rng.randrange(8)}
            out.append(rng.choice(kinds).format(**values))
    return (end.join(out) + end).encode()
