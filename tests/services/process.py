"""A server process of a test: started with its output in a file, ended by its own id whatever happens.

On Linux the kernel ends it too when the test process dies without a word.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def leashed(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process whose output is appended to `log`, and that dies with this one (Linux)."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=env,
            preexec_fn=_die_with_parent if _libc is not None else None,
        )


def end(process: subprocess.Popen[bytes], grace_s: float = 20.0) -> None:
    """Ask the process to end, and kill it after the grace. Safe to call again."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on at this moment."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a server's output, for an error message."""
    if not log.exists():
        return "no output"
    return " / ".join(log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-lines:])


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
