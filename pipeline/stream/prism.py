"""Beam's Prism as a process of ours: started for one submission, ended with it.

Prism listens on all interfaces of the machine, without credentials: keep its port closed to others.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from pipeline.stream.errors import StreamError

log = logging.getLogger(__name__)

_START_S = 20.0
_USUAL = ("empty transform", "pipeline canceled")
_BUILD = "go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"
_PR_SET_PDEATHSIG = 1
_libc: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def prism_path(location: str) -> str:
    """The binary at this path, or `prism` on the PATH. Raises StreamError where there is none."""
    found = shutil.which(location or "prism")
    if found is None:
        raise StreamError(
            f"no Prism at {location or 'the PATH'}: build it ({_BUILD}) and say --prism-location, or another --runner"
        )
    return found


def leashed() -> None:
    """Runs in a child before it starts: on Linux it is ended with its parent."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Prism:
    """A running Prism. endpoint: where jobs are submitted."""

    def __init__(self, path: str) -> None:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        self.endpoint = f"127.0.0.1:{port}"
        command = [path, f"-job_port={port}", "-serve_http=false", "-log_level=warn", "-log_kind=text"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            preexec_fn=leashed,
        )
        self._words = threading.Thread(target=self._log, name="stream-prism", daemon=True)
        self._words.start()
        self._await(port)

    def _log(self) -> None:
        """Passes Prism's warnings on, without those that every start and every end brings."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.strip() and not any(word in line for word in _USUAL):
                log.warning("Prism: %s", line.strip()[:2000])

    def _await(self, port: int) -> None:
        until = time.monotonic() + _START_S
        while True:
            if self._process.poll() is not None:
                raise StreamError(f"Prism ended at once with {self._process.returncode}; its words are above")
            with socket.socket() as probe:
                probe.settimeout(0.5)
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if time.monotonic() > until:
                self.close()
                raise StreamError(f"Prism does not listen on port {port} after {_START_S:.0f} s")
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends it. Safe to call again."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                os.kill(self._process.pid, signal.SIGKILL)
                self._process.wait()
