"""Full ingest against the library's scan, and scan inside Beam against scan outside; time by stage and memory.

    python -m benchmarks.ingest [--gib 1] [--hosts 16] [--workers 2] [--keep FOLDER]

Gates: scan inside Beam with one worker / library scan >= 0.75; two workers / one >= 1.4 (>= 4 GB); full ingest /
library scan >= 0.4 after start-up (>= 10 GB, 0.1 % signal lines). Each measurement runs in a process of its own,
whose page cache is warm; memory is its largest resident set. A budget per folded signal is printed by stage.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.texts import write_job_log, write_syslog
from pipeline.scanning.scan import scan_engine, scan_source
from pipeline.sources import Source, discover
from schemas.settings import Settings

_BLOCK = 64 << 20
_JOBS_PER_HOST = 8


def write_site(root: Path, size: int, hosts: int, share: float) -> None:
    """A site of `hosts` syslogs of together about `size` bytes, its jobs, and one job log."""
    (root / "hosts").mkdir(parents=True)
    block = root / "block"
    write_syslog(block, min(_BLOCK, size // hosts), share)
    data = block.read_bytes()
    block.unlink()
    months = [m.encode() for m in ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")]
    for number in range(hosts):
        with (root / "hosts" / f"gx-{number:04d}.log").open("wb") as out:
            mine = data.replace(b"gx-0117", b"gx-%04d" % number)
            for part in range(max(1, round(size / hosts / len(data)))):
                # each repetition is another month, so that signals do not fold into those of the part before it
                out.write(mine.replace(b"Mar ", months[part % 12] + b" "))
    rows = ["JobID|JobName|State|ExitCode|Start|End|NNodes|NodeList"]
    for number in range(hosts * _JOBS_PER_HOST):
        host, hour = number % hosts, number // hosts
        rows.append(
            f"{90000 + number}|train|{'FAILED' if number % 2 else 'COMPLETED'}|{number % 2}:0|"
            f"2026-03-03T{hour:02d}:00:00|2026-03-03T{hour:02d}:55:00|1|gx-{host:04d}"
        )
    (root / "sacct.txt").write_text("\n".join(rows) + "\n")
    write_job_log(root / "slurm-90001.out", 4 << 20, 0.0)


def _sources(root: Path, settings: Settings) -> list[Source]:
    return [s for s in discover([root], settings) if isinstance(s, Source)]


def _library(root: Path, settings: Settings) -> dict[str, float]:
    from classifiers.knowledge import load_ruleset

    ruleset = load_ruleset()
    engine = scan_engine(ruleset, settings)
    sources = _sources(root, settings)
    began = time.perf_counter()
    signals = sum(len(scan_source(s, ruleset, engine, settings).signals) for s in sources)
    return {"scan": time.perf_counter() - began, "signals": signals}


def _args(workers: int) -> list[str]:
    return [f"--direct_num_workers={workers}", "--direct_running_mode=multi_threading"] if workers > 1 else []


def _beam(root: Path, settings: Settings, workers: int) -> dict[str, float]:
    from pipeline.warehouse.ingest import scan_sources

    sources = _sources(root, settings)
    with tempfile.TemporaryDirectory() as warm, tempfile.TemporaryDirectory() as folder:
        scan_sources(sources[-1:], settings, warm)  # start-up: rules, engine, Beam
        began = time.perf_counter()
        scan_sources(sources, settings, folder, pipeline_args=_args(workers))
        return {"scan": time.perf_counter() - began}


def _ingest(root: Path, settings: Settings, workers: int) -> dict[str, float]:
    from pipeline.warehouse.ingest import ingest, scan_sources

    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"
        warm.mkdir()
        scan_sources(_sources(root, settings)[-1:], settings, str(warm))
        began = time.perf_counter()
        result = ingest([root], f"sqlite:///{folder}/w.db", settings, pipeline_args=_args(workers))
        total = time.perf_counter() - began
    return {"ingest": total, "signals": result.signals, "decided": result.decided, **result.seconds}


def measure(what: str, root: Path, workers: int) -> dict[str, float]:
    """One measurement in this process."""
    settings = Settings()
    if what == "library":
        found = _library(root, settings)
    elif what == "beam":
        found = _beam(root, settings, workers)
    else:
        found = _ingest(root, settings, workers)
    found["rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _apart(what: str, root: Path, workers: int = 1) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.ingest", "--measure", what, "--keep", str(root)]
    done = subprocess.run([*command, "--workers", str(workers)], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.001, help="share of lines that carry a signal")
    parser.add_argument("--keep", type=Path, help="folder of the site; made if it is not there")
    parser.add_argument("--measure", choices=["library", "beam", "ingest"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.keep, args.workers)))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = args.keep or Path(folder) / "site"
        if not root.exists():
            write_site(root, int(args.gib * (1 << 30)), args.hosts, args.share)
        size = sum(p.stat().st_size for p in root.rglob("*") if p.is_file())
        _apart("library", root)
        library, one, full = _apart("library", root), _apart("beam", root), _apart("ingest", root)
        more = _apart("beam", root, args.workers)
    signals = max(1, int(full["signals"]))
    print(f"{size / 1e9:.2f} GB, {signals:,} folded signals, {int(full['decided']):,} subjects decided")
    print(f"library scan                 {size / 1e6 / library['scan']:8,.0f} MB/s")
    print(f"scan inside Beam / library   {library['scan'] / one['scan']:8.2f}   gate 0.75")
    print(f"{args.workers} workers / one              {one['scan'] / more['scan']:8.2f}   gate 1.4")
    print(f"full ingest / library        {library['scan'] / full['ingest']:8.2f}   gate 0.4")
    above = (full["rss_mib"] - 250) * 1024 / signals
    print(
        f"memory of ingest             {full['rss_mib']:8.0f} MiB; above 250: {above:.2f} KiB a folded signal, gate 0.6"
    )
    for name, value in full.items():
        if name not in ("ingest", "signals", "decided", "rss_mib"):
            print(f"  {name:<14} {value:8.2f} s  {value / signals * 1e6:8.1f} us a folded signal")


if __name__ == "__main__":
    main()
