"""Scan of plain logs against ripgrep with the same rules, and against decompression: ratios of interleaved runs.

    python -m benchmarks.scan_vs_ripgrep [--mib 256] [--rounds 5] [--only syslog]

Gates (medians): syslog with 0.1 % signal lines, Hyperscan / ripgrep >= 3 and re2 / ripgrep >= 0.7; gzip: scan with
inflate / isal alone >= 0.55; storm (every second line) >= 100 MB/s after folding. CPU seconds of one thread.

ripgrep gets the rules' anchors, the cheapest search that finds the same lines: with the whole patterns, whose bounded
repeats make a very large automaton, it needs minutes (`--full`).
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.texts import write_job_log, write_syslog
from classifiers.knowledge import load_ruleset
from classifiers.knowledge.ruleset import RulesetImpl
from pipeline.scanning.scan import scan_engine, scan_source
from pipeline.sources import Source, discover
from schemas.settings import Settings


def _ripgrep() -> str:
    found = shutil.which("rg", path=str(Path(sys.executable).parent)) or shutil.which("rg")
    if found is None:
        raise SystemExit("ripgrep is not installed: pip install ripgrep")
    return found


def _grep(rg: str, patterns: Path, path: Path) -> int:
    """Lines that ripgrep counts. Raises where it refuses the patterns."""
    limits = ["--regex-size-limit", "1G", "--dfa-size-limit", "1G"]
    done = subprocess.run(
        [rg, "-j1", "--no-unicode", *limits, "-c", "-f", str(patterns), str(path)], check=False, capture_output=True
    )
    if done.returncode > 1:
        raise SystemExit(f"ripgrep: {done.stderr.decode()[-500:]}")
    return int(done.stdout or 0)


def _patterns(ruleset: RulesetImpl, *, full: bool) -> list[str]:
    """What ripgrep looks for: anchors, or whole patterns without names (it joins them; a name may stand only once)."""
    if full:
        return [re.sub(r"\(\?P<\w+>", "(?:", rule.pattern) for rule in ruleset.rules.values()]
    return [anchor.regex for anchor, _ in ruleset.anchors]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of this process and of its children for one call."""
    own, children = time.process_time(), _children()
    work()
    return time.process_time() - own + _children() - children


def interleaved(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each contestant by round; all run in each round, after one round that does not count."""
    out: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            seconds = cpu_of(work)
            if number:
                out[name].append(seconds)
    return out


def source_of(path: Path, settings: Settings) -> Source:
    """The source of one file."""
    return next(s for s in discover([path], settings) if isinstance(s, Source))


def main() -> None:
    """Runs the comparison and prints it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--full", action="store_true", help="ripgrep gets whole patterns (minutes a round)")
    args = parser.parse_args()
    settings, ruleset, rg = Settings(), load_ruleset(), _ripgrep()
    fast, slow = (scan_engine(ruleset, Settings(engine=name)) for name in ("hyperscan", "re2"))
    print(f"{len(ruleset.rules)} rules, {len(ruleset.anchors)} anchors, {args.mib} MiB, median of {args.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="faultbeam-bench-") as folder:
        patterns = Path(folder) / "rules"
        patterns.write_text("".join(f"{regex}\n" for regex in _patterns(ruleset, full=args.full)))
        writers: dict[str, Callable[[Path, int], None]] = {
            "syslog": write_syslog,
            "storm": partial(write_syslog, storm=0.5),
            "job": write_job_log,
        }
        for kind, write in writers.items():
            if args.only and args.only != kind:
                continue
            path = Path(folder) / f"{kind}.log"
            write(path, args.mib << 20)
            size = path.stat().st_size
            source = source_of(path, settings)
            runs: dict[str, Callable[[], object]] = {
                "ripgrep": partial(_grep, rg, patterns, path),
                "hyperscan": partial(scan_source, source, ruleset, fast, settings),
                "re2": partial(scan_source, source, ruleset, slow, settings),
            }
            if kind == "syslog":
                runs |= _packed(path, ruleset, fast, settings)
            report(f"{kind} ({source.format})", interleaved(runs, args.rounds), size)
            path.unlink()


def _packed(path: Path, ruleset: object, engine: object, settings: Settings) -> dict[str, Callable[[], object]]:
    from isal import igzip

    packed = path.with_name(path.name + ".gz")
    with path.open("rb") as plain, igzip.open(packed, "wb", compresslevel=1) as out:
        shutil.copyfileobj(plain, out, 1 << 20)
    source = source_of(packed, settings)

    def inflate() -> None:
        buffer = bytearray(1 << 20)
        with igzip.open(packed, "rb") as stream:
            while stream.readinto(buffer):
                pass

    return {
        "isal alone": inflate,
        "gzip scan": lambda: scan_source(source, ruleset, engine, settings),  # type: ignore[arg-type]
    }


def report(title: str, seconds: dict[str, list[float]], size: int) -> None:
    """Prints MB/s of each contestant and the ratios that have gates."""
    print(f"\n{title}, {size / 1e6:.0f} MB")
    for name, values in seconds.items():
        print(f"  {name:12s} {size / 1e6 / statistics.median(values):8.0f} MB per CPU second")
    for name, base, gate in (
        ("hyperscan", "ripgrep", ">= 3"), ("re2", "ripgrep", ">= 0.7"), ("gzip scan", "isal alone", ">= 0.55"),
    ):  # fmt: skip
        if name in seconds and base in seconds:
            ratios = [b / a for a, b in zip(seconds[name], seconds[base], strict=True)]
            print(f"  {name} / {base}: {statistics.median(ratios):.2f} (gate {gate} on syslog)")


if __name__ == "__main__":
    main()
