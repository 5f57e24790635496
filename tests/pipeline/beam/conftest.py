"""A job server and a worker pool, each in a process of its own, as a cluster would have them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.beam.worker_pool import __file__ as pool_file

_ROOT = Path(pool_file).resolve().parents[2]


def _start(module: str, *args: str, port_file: Path, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    env = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", module, *args], cwd=_ROOT, env=env, stdout=out, stderr=out)
    until = time.monotonic() + 60
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise RuntimeError(f"{module} did not come up: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
    return process, int(port_file.read_text())


@pytest.fixture(scope="session")
def portable_args(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Pipeline arguments of PortableRunner for a job server and a pool on loopback."""
    folder = tmp_path_factory.mktemp("portable")
    started: list[subprocess.Popen[bytes]] = []
    try:
        pool, pool_port = _start(
            "pipeline.beam.worker_pool",
            "--port-file",
            str(folder / "pool.port"),
            port_file=folder / "pool.port",
            log=folder / "pool.log",
        )
        started.append(pool)
        jobs, job_port = _start(
            "apache_beam.runners.portability.local_job_service_main",
            "--port_file",
            str(folder / "jobs.port"),
            "--staging_dir",
            str(folder / "staging"),
            port_file=folder / "jobs.port",
            log=folder / "jobs.log",
        )
        started.append(jobs)
        yield (
            f"--job_endpoint=localhost:{job_port}",
            "--environment_type=EXTERNAL",
            f"--environment_config=127.0.0.1:{pool_port}",
        )
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
