"""A small load into a small and into a ten times bigger warehouse: `python -m benchmarks.small_load [sites] [factor]`.

Each site is a job of two hosts with its logs, four days apart. Prints the seconds of the last, small load, by stage.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from pipeline.warehouse.ingest import ingest
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.tiny_sites import SITES, Site, write


def site(name: str, day: int) -> dict[str, str]:
    """A tiny site moved by days, under names of its own."""
    number = f"{6000 + day}"
    return {
        path.replace("sacct", f"sacct-{day}")
        .replace("kern.log", f"kern-{day}.log")
        .replace("510", number): text.replace("5101|", f"{number}1|").replace("5102|", f"{number}2|")
        for path, text in SITES[name](Site(shift=timedelta(days=day))).items()
    }


def measure(sites: int, folder: Path) -> float:
    url = f"sqlite:///{folder / f'{sites}.db'}"
    ingest([write(site("hbm", -4 * i), folder / f"{sites}-{i}" / f"root{i}") for i in range(sites)], url, Settings())
    fresh = write(site("bug", 3), folder / f"{sites}-new" / "fresh")
    started = time.perf_counter()
    result = ingest([fresh], url, Settings())
    seconds = time.perf_counter() - started
    with open_store(url) as store:
        rows = store.stats()
    stages = {name: round(value, 2) for name, value in result.seconds.items()}
    print(f"{sites} sites, {rows['signals']} signals, {rows['sources']} sources: {seconds:.2f} s {stages}")
    return seconds


def main() -> None:
    sites = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    factor = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as name:
        measure(1, Path(name))  # imports and caches
        small, big = measure(sites, Path(name)), measure(sites * factor, Path(name))
    print(f"{factor} times the warehouse: {big / small:.2f} times the time")


if __name__ == "__main__":
    main()
