"""Where a fault plays and the lines that tell of it: what all wordings share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.simulate.settings import SimSettings

PCI = ("07", "0b", "48", "4c", "88", "8b", "c8", "cb", "1a", "2a", "5d", "6d", "9a", "aa", "da", "ea")


@dataclass(frozen=True, slots=True)
class Line:
    """One line to write. dt: seconds after the onset. channel: kern | job | switch | sel | ctld. rank: job lines."""

    dt: float
    channel: str
    host: int
    text: str
    rank: int | None = None
    level: str = "err"


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault plays: its host, device and process."""

    host: int
    gpu: int
    rank: int
    pid: int
    rng: np.random.Generator
    settings: SimSettings
    delay: float
    name: Callable[[int], str]

    @property
    def bdf(self) -> str:
        return f"0000:{PCI[self.gpu % len(PCI)]}:00"

    def pick(self, *options: str) -> str:
        return options[int(self.rng.integers(0, len(options)))]

    def hex(self, digits: int) -> str:
        return "".join(f"{int(x):x}" for x in self.rng.integers(0, 16, digits))

    def kern(self, dt: float, text: str, level: str = "err") -> Line:
        return Line(dt, "kern", self.host, text, None, level)

    def xid(self, dt: float, code: int, rest: str, process: bool = True) -> Line:
        who = f"pid={self.pid}, name=python" if process else "pid='<unknown>', name=<unknown>"
        return self.kern(dt, f"NVRM: Xid (PCI:{self.bdf}): {code}, {who}, {rest}")

    def job(self, dt: float, text: str, rank: int | None = None) -> Line:
        return Line(dt, "job", self.host, text, self.rank if rank is None else rank)


Story = Callable[[Scene], Sequence[Line]]
