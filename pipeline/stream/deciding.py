"""Deciding in a process of its own, so that it never stands in the way of reading: Python uses one core a process.

`DecidingProcess` is the side of the worker: it starts `python -m pipeline.stream.deciding`, asks in lines of JSON over
its standard input and output, and waits. Calls that come while one is under way are answered together by the next. A
process that dies is started again with the next call; what it was at is marked in the warehouse as undecided. It ends
when its standard input does, so it never outlives who started it.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import IO, Any

from pipeline.stream.errors import StreamError
from schemas.settings import Settings

log = logging.getLogger(__name__)

#: (incident id, what became of it, component or "" where there is none any more).
Changed = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Done:
    """What a call did. decided: subjects looked at. away: why the database could not be asked; "" where it was."""

    decided: int = 0
    changes: tuple[Changed, ...] = ()
    seconds: float = 0.0
    away: str = ""


class DecidingDied(StreamError):  # noqa: N818 - reads as the fact that it states
    """The process ended without an answer."""


class DecidingProcess:
    """Decides in another process. Threads may share one."""

    def __init__(self, warehouse: str, settings: Settings) -> None:
        self._said = json.dumps([warehouse, settings.model_dump()])
        self._process: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()
        self._waiting = threading.Lock()
        self._ids: set[str] = set()
        self._at_us = 0

    def decide(self, source_ids: Collection[str], at_us: int) -> Done:
        """Decides what these sources changed (`Decider.decide`); nothing where a call of somebody else has done it.

        Raises DecidingDied where the process ended meanwhile: what it was at is undecided.
        """
        with self._waiting:
            self._ids.update(source_ids)
            self._at_us = max(self._at_us, at_us)
        with self._turn:
            with self._waiting:
                ids, self._ids = sorted(self._ids), set()
                at_us = self._at_us
            return self._ask(ids, at_us) if ids else Done()

    def decide_pending(self, at_us: int) -> Done:
        """The periodic pass (`Decider.decide_pending`). Raises DecidingDied."""
        with self._turn:
            return self._ask(None, at_us)

    def close(self) -> None:
        """Ends the process after what it is at."""
        with self._turn:
            process, self._process = self._process, None
            if process is not None:
                _end(process)

    def _ask(self, ids: list[str] | None, at_us: int) -> Done:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = _start(self._said)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _tell(process.stdin, [ids, at_us])
            answer = process.stdout.readline()
        except (BrokenPipeError, OSError):
            answer = ""
        if not answer:
            self._process = None
            _end(process)
            raise DecidingDied(f"the process that decides ended with {process.returncode}; it is started again")
        told: dict[str, Any] = json.loads(answer)
        return Done(told["decided"], tuple((i, w, c) for i, w, c in told["changes"]), told["seconds"], told["away"])


def _start(said: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pipeline.stream.deciding"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    try:
        process.stdin.write(said + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        log.warning("the process that decides ended before it was told what to do")
    return process


def _end(process: subprocess.Popen[str]) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except BrokenPipeError:
        pass  # it has ended
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _tell(out: IO[str], value: object) -> None:
    out.write(json.dumps(value, separators=(",", ":")) + "\n")
    out.flush()


def main() -> int:
    """The other side: answers until its standard input ends."""
    import signal

    # who started this process ends it: a signal to the whole group must not cut a transaction that it waits for
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    url, settings = json.loads(sys.stdin.readline())
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not be taken for an answer
    from pipeline.stream.logs import set_up_logs

    set_up_logs(level="WARNING")
    decider = _decider(url, Settings(**settings))
    for line in sys.stdin:
        ids, at_us = json.loads(line)
        _tell(answers, asdict(_decided(decider, ids, at_us)))
    return 0


def _decider(url: str, settings: Settings) -> Any:  # noqa: ANN401 - a Decider, imported where it is used
    """Opens the warehouse, as soon as it answers."""
    from classifiers.knowledge import load_ruleset
    from pipeline.warehouse.live import Decider
    from sql.errors import CannotConnect
    from sql.store import open_store

    while True:
        try:
            return Decider(open_store(url), settings, load_ruleset())
        except CannotConnect as error:
            log.warning("cannot decide yet: %s", error)
            time.sleep(1.0)


def _decided(decider: Any, ids: list[str] | None, at_us: int) -> Done:  # noqa: ANN401
    from sql.errors import CannotConnect

    began = time.monotonic()
    try:
        done = decider.decide_pending(at_us) if ids is None else decider.decide(ids, at_us)
    except CannotConnect as error:
        return Done(away=str(error))
    changes = tuple((c.incident_id, c.what, c.after[0] if c.after else "") for c in done.changes)
    return Done(done.decided, changes, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
