"""`faultbeam stream` as a process of its own, for tests that kill it and what it starts.

What it leaves behind when it is killed is known by id and ended with the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.services.process import end, free_ports, leashed, tail

ROOT = Path(__file__).resolve().parents[2]


def processes(root: int) -> list[int]:
    """A process and all below it, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, wanted = [], [root]
    while wanted:
        found.append(wanted.pop(0))
        wanted += children.get(found[-1], [])
    return found


def name_of(pid: int) -> str:
    """The command's name; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def runs(pid: int, module: str) -> bool:
    """Whether a process is Python with this module."""
    try:
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


class StreamProcess:
    """The command with these options. `port`: of its metrics and its probe."""

    def __init__(self, folder: Path, options: Mapping[str, str], words: Sequence[str] = ()) -> None:
        self.port = free_ports(1)[0]
        self.log = folder / "stream.log"
        self.starts = 0
        named = {**options, "--metrics-port": str(self.port)}
        self._command = [sys.executable, "-m", "pipeline.cli.main", "stream"]
        self._command += [word for pair in named.items() for word in pair] + list(words)
        self._process: subprocess.Popen[bytes] | None = None
        self._known: set[int] = set()

    def start(self) -> None:
        """Start it; returns at once."""
        self._process = leashed(self._command, self.log, {**os.environ, "PYTHONUNBUFFERED": "1"})
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def below(self) -> list[int]:
        """Processes that it started, with those that these started."""
        found = processes(self.pid)[1:] if self.returncode is None else []
        self._known |= set(found)
        return found

    def kill(self, pid: int | None = None) -> None:
        """SIGKILL to the command itself, or to one of the processes below it."""
        self.below()
        if pid is not None:
            if pid not in self._known:
                raise ValueError(f"process {pid} was not started by this stream")
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, signal.SIGKILL)
        elif self._process is not None:
            self._process.kill()
            self._process.wait()

    def left(self, within_s: float = 15.0) -> list[int]:
        """Processes of a stream that ended which still live after this time; none is right."""
        until = time.monotonic() + within_s
        while (found := [pid for pid in self._known if _alive(pid) and pid != self.pid]) and time.monotonic() < until:
            time.sleep(0.2)
        return found

    def stop(self) -> int:
        """SIGTERM, as a service manager does; how it ended."""
        assert self._process is not None
        self.below()
        end(self._process, 60)
        return self._process.returncode

    def close(self) -> None:
        """End it and whatever it left."""
        if self._process is not None and self._process.poll() is None:
            self.below()
            end(self._process, 30)
        for pid in self.left(2.0):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def health(self) -> dict[str, Any]:
        """What the probe says; `ok` false, and why, where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5) as answer:
                told = answer.read()
        except urllib.error.HTTPError as error:
            told = error.read()
        except OSError as error:
            return {"ok": False, "reasons": [str(error)]}
        found: dict[str, Any] = json.loads(told)
        return found

    def metrics(self) -> dict[str, float]:
        """Samples by name and labels, `name{label="value"}`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {n: float(v) for n, _, v in (line.rpartition(" ") for line in lines if not line.startswith("#"))}

    def await_health(self, within_s: float = 90.0) -> None:
        """Wait until the probe says that all is well. Raises AssertionError with the log's end where it does not."""
        for _ in self._until(within_s, "did not become healthy"):
            if self.health()["ok"]:
                return

    def _until(self, within_s: float, what: str) -> Iterator[None]:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            if self.returncode is not None:
                raise AssertionError(f"the stream ended with {self.returncode}: {tail(self.log, 30)}")
            yield
            time.sleep(0.3)
        raise AssertionError(f"the stream {what} within {within_s:.0f} s: {self.health()}: {tail(self.log, 30)}")
