"""How fast facts are merged into a warehouse. Prints seconds and rows a second; no gate is timed in a test.

Usage: python -m benchmarks.sql_load [--signals 50000] [--url postgresql://...]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from schemas.facts import Facts, SignalFact, SourceFact, Stamp
from schemas.identity import digest
from sql.migrations import upgrade
from sql.store import open_store


def made_up_facts(n: int, per_source: int = 500) -> Facts:
    """`n` signals of kernel logs, about as long and as varied as real ones."""
    signals, sources = [], []
    for number in range(n):
        source = digest("bench", number // per_source)
        us = 1_767_225_600_000_000 + number * 7_000_000
        stamp = Stamp("utc", us)
        signals.append(
            SignalFact(
                signal_id=digest("bench-signal", number),
                source_id=source,
                rule="xid.generic",
                key=f"code=94;pci=0000:{number % 256:02x}:00",
                host=f"node{number // per_source:04d}",
                template="NVRM: Xid (PCI:<addr>): <n>, Contained: CE User Channel (<n>). RST: No, D-RST: No",
                bucket=f"utc:{us // 60_000_000}",
                first=stamp,
                first_offset=number * 142,
                first_line=number,
                last=stamp,
                last_offset=number * 142,
                text=f"NVRM: Xid (PCI:0000:{number % 256:02x}:00): 94, Contained: CE User Channel (0x9). RST: No",
                fields=(("code", "94"), ("pci", f"0000:{number % 256:02x}:00")),
                ranks=((us, number * 142, number % 8),),
                counts=((number * 142 // 65536, 1 + number % 3),),
            )
        )
    for number in range(0, n, per_source):
        name = f"node{number // per_source:04d}"
        source = digest("bench", number // per_source)
        sources.append(
            SourceFact(source, (f"{name}/kern.log",), "logs", "kern", "kernel", per_source * 142, None, name)
        )
    return Facts(sources=tuple(sources), signals=tuple(signals))


def _timed(what: str, rows: int, work: Callable[[], object]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    work()
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{what:<34} {took:7.2f} s wall {cpu:7.2f} s of this process's CPU {rows / took:10,.0f} rows/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=50_000)
    parser.add_argument("--url", default="")
    args = parser.parse_args()
    facts = made_up_facts(args.signals)
    with tempfile.TemporaryDirectory() as folder:
        url = args.url or f"sqlite:///{Path(folder) / 'bench.db'}"
        if args.url:
            upgrade(url)
        with open_store(url, create=True) as store:
            placements = [
                (s.signal_id, s.host, s.first.us, s.last.us, "xid.94", "gpu.hbm", dict(s.fields)["pci"])
                for s in facts.signals
            ]
            n = args.signals
            print(f"{store.dialect}, {n:,} signals")
            _timed("load_facts, new", n, lambda: store.load_facts(facts, 1, "bench"))
            _timed("load_facts, again (nothing new)", n, lambda: store.load_facts(facts, 2, "bench"))
            _timed("update_placements", n, lambda: store.update_placements(placements, "bench"))
            _timed("read_signals, all", n, lambda: store.read_signals("bench"))


if __name__ == "__main__":
    main()
