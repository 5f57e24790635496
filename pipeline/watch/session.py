"""What `faultbeam watch` does: poll, decide, tell, wait, until it is told to stop.

A first answer comes when what a source brought has rested for `_SETTLE_S`, and is provisional until the grace is over.
A warehouse that is away is waited for. Nothing is kept in this process that a kill would lose.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.warehouse.live import Decided, Decider, DecidingError
from pipeline.watch.entries import Polled
from pipeline.watch.watcher import Watcher
from sql.errors import CannotConnect
from sql.housekeeping import sweep
from sql.published import Outgoing, relay

if TYPE_CHECKING:
    from sql.store import Store

#: How long facts of one moment are gathered before they are decided. Seconds.
_SETTLE_S = 10.0
#: How often what is old is forgotten. Seconds.
_SWEEP_S = 6 * 3600.0
#: Longest wait between two tries to reach the warehouse. Seconds.
_BACK_OFF_S = 30.0


@dataclass(slots=True)
class Totals:
    """What a session has done so far."""

    polls: int = 0
    files: int = 0
    read: int = 0
    signals: int = 0
    quarantined: int = 0
    decided: int = 0
    told: int = 0
    provisional: int = 0


@dataclass(slots=True)
class Session:
    """Polls a watcher and decides. tell: takes an incident that is new, changed or retracted. status: after each poll.

    trouble: told once when the warehouse cannot be reached, with the reason.
    """

    watcher: Watcher
    decider: Decider
    store: Store
    tell: Callable[[Outgoing], None]
    status: Callable[[Totals, Polled], None] = lambda _totals, _polled: None
    trouble: Callable[[str], None] = lambda _why: None
    stop: threading.Event = field(default_factory=threading.Event)
    totals: Totals = field(default_factory=Totals)
    _touched: dict[str, float] = field(default_factory=dict)
    _swept: float | None = None

    def once(self) -> Totals:
        """Read all that is there, decide it and tell."""
        busy = True
        while busy and not self.stop.is_set():
            busy = self._poll(hurry=True).busy
        self._decide(everything=True)
        self._sweep()
        return self.totals

    def run(self, interval_s: float) -> Totals:
        """Until `stop` is set."""
        wait, first = 0.0, True
        while not self.stop.wait(wait):
            try:
                polled = self._poll(hurry=False)
                if not self.stop.is_set():
                    self._decide(everything=first)
                    first = False
                    self._sweep()
                wait = 0.0 if polled.busy else interval_s
            except (CannotConnect, DecidingError) as error:
                self.trouble(str(error))
                self.decider.forget()
                wait, first = min(_BACK_OFF_S, max(interval_s, 2 * wait)), True
        return self.totals

    def _poll(self, *, hurry: bool) -> Polled:
        polled = self.watcher.poll(hurry=hurry)
        now = time.monotonic()
        for source_id in polled.touched:
            self._touched.setdefault(source_id, now)
        totals = self.totals
        totals.polls += 1
        totals.files = polled.files
        totals.read += polled.read
        totals.signals += polled.signals
        totals.quarantined += polled.quarantined
        self.status(totals, polled)
        return polled

    def _decide(self, *, everything: bool) -> None:
        now = time.monotonic()
        settled = {sid for sid, since in self._touched.items() if now - since >= _SETTLE_S}
        at_us = self.store.now_us()
        done: Decided = self.decider.decide_pending(at_us) if everything else self.decider.decide(settled, at_us)
        for source_id in list(self._touched) if everything else settled:
            self._touched.pop(source_id, None)
        self.totals.decided += done.decided
        self.totals.provisional = done.provisional
        self.totals.told += relay(self.store, self._send, cluster=self.decider.settings.cluster)

    def _sweep(self) -> None:
        """Now and then, forget marks and messages that nobody needs any more."""
        now = time.monotonic()
        if self._swept is None or now - self._swept >= _SWEEP_S:
            sweep(self.store, self.decider.settings.cluster)
            self._swept = now

    def _send(self, waiting: Sequence[Outgoing]) -> list[int]:
        for message in waiting:
            self.tell(message)
        return [message.seq for message in waiting]
