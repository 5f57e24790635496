"""A writer at speed, rotations of all kinds, and a watcher that is killed again and again: every line counts once.

Short in `make test`, 30 minutes in `make soak`; FAULTBEAM_SOAK_SECONDS says how long, FAULTBEAM_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipeline.watch.rotating import Writer
from tests.pipeline.watch.site import Folder, counted

SECONDS = float(os.environ.get("FAULTBEAM_SOAK_SECONDS", "12"))
LONG = float(os.environ.get("FAULTBEAM_SOAK_SECONDS", "1800"))


def _watch(folder: Folder, log: Path) -> subprocess.Popen[bytes]:
    args = ["watch", str(folder.logs), "--warehouse", folder.warehouse, "--interval", "0.1", "--format", "json"]
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline.cli.main", *args], stdout=subprocess.DEVNULL, stderr=out
        )


def _run(folder: Folder, repository: Path, seconds: float, seed: int) -> tuple[Writer, int]:
    """Writes for that long while watchers live and die; returns the writer and the number of kills."""
    chance = random.Random(seed + 1)
    writer = Writer(folder.logs, seed)
    log = folder.top / "watch.err"
    kills, begun = 0, time.monotonic()
    process = _watch(folder, log)
    next_kill = begun + chance.uniform(2.0, 6.0)
    try:
        while (now := time.monotonic()) < begun + seconds:
            writer.step()
            time.sleep(0.01 if seconds < 60 else 0.05)
            assert process.poll() is None, log.read_text()
            if now >= next_kill:
                process.kill()
                process.wait()
                kills += 1
                process = _watch(folder, log)
                next_kill = time.monotonic() + chance.uniform(1.5, 6.0 + seconds / 60)
        writer.end()
    finally:
        process.terminate()
        code = process.wait(timeout=60)
    assert code in (0, -signal.SIGTERM), log.read_text()  # the latter: it had only just begun
    return writer, kills


def _hold(tmp_path: Path, repository: Path, seconds: float) -> None:
    seed = int(os.environ.get("FAULTBEAM_SEED", str(random.SystemRandom().randrange(1 << 30))))
    print(f"seed {seed}")
    folder = Folder(tmp_path)
    writer, kills = _run(folder, repository, seconds, seed)
    folder.finish()
    watched, ingested = folder.rows(), folder.ingested()
    print(f"{writer.lines} lines with a signal, {kills} kills, {writer.done}")
    assert kills >= 2
    assert counted(ingested) == writer.lines
    assert counted(watched) == writer.lines
    assert watched["signals"] == ingested["signals"]
    assert watched == ingested


def test_every_line_counts_once(tmp_path: Path, repository: Path) -> None:
    _hold(tmp_path, repository, SECONDS)


@pytest.mark.soak
def test_every_line_counts_once_for_long(tmp_path: Path, repository: Path) -> None:
    _hold(tmp_path, repository, LONG)
