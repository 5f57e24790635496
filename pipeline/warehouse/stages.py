"""Wall time by stage: where a call spends it."""

from __future__ import annotations

import time


class Stages:
    """Wall seconds by stage, summed over repetitions. The clock is looked at where a stage is done."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, name: str) -> None:
        """What passed since the last call belongs to this stage."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
