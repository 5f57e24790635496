"""How long each view and saved query takes on a SQLite warehouse of a given size, and whether its plan uses indexes.

    python -m benchmarks.review_views [--signals 1000000] [--incidents 10000] [--keep FILE]

Rows are made up: 200 hosts, two years of incidents, one attempt each, a hundredth of the signals about checkpoints.
Prints one line a view: seconds (best of two), rows, and tables that the plan scans without an index.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from schemas.facts import Facts, SignalFact, Stamp
from schemas.subject import Decision, JobRun, Restart
from sql.migrations import upgrade
from sql.review.document import build
from sql.saved import list_queries, run_query
from sql.store import Store, open_store
from sql.views import views

T0, HOUR = 1_700_000_000_000_000, 3_600_000_000
CLASSES = ("gpu.hbm", "gpu.device", "net.fabric", "software.bug", "unknown", "host.memory", "maintenance.planned")


def signals(n: int) -> Iterator[SignalFact]:
    """n folded signals with stamps a minute apart."""
    for i in range(n):
        stamp = Stamp("utc", T0 + i * 60_000_000)
        mark = i % 100 == 0
        rule = "mark_ckpt_saved" if mark else f"rule{i % 300}"
        fields = (("seconds", "5.5"),) if mark else ()
        yield SignalFact(
            f"{i:020x}", f"s{i % 5000}", rule, "", f"node{i % 200}", "a folded line # of some length in a kernel log",
            f"utc:{i}", stamp, i, i, stamp, i, "a folded line 17 of some length in a kernel log", fields, (), ((0, 1),),
        )  # fmt: skip


def fill(store: Store, n_signals: int, n_incidents: int) -> None:
    """Load the made-up rows, in parts that fit in memory."""
    part: list[SignalFact] = []
    for signal in signals(n_signals):
        part.append(signal)
        if len(part) == 50_000:
            load(store, part)
            part = []
    load(store, part)
    runs, decisions = [], []
    for i in range(n_incidents):
        start = T0 + i * 2 * HOUR
        one = JobRun(
            run_key=f"r{i:06}",
            scheduler="slurm",
            cluster="",
            job_id=str(i),
            attempt=0,
            start_us=start,
            end_us=start + HOUR,
            end_known=True,
            state="FAILED",
            exit_code=1,
            exit_signal=None,
            nodes=(f"node{i % 200}",),
            n_nodes=128,
            n_gpus=1024,
            user="ada",
            account="lab",
            name="pretrain",
            reason="",
            source_ids=(),
        )
        runs.append(one)
        component = CLASSES[i % len(CLASSES)]
        decisions.append(
            Decision(
                subject_key=one.run_key,
                kind="job_interruption",
                incident=True,
                incident_id=f"i{i:06}",
                fault_id=f"f{i // 2:06}",
                component=component,
                cause="xid.94",
                confidence=0.9,
                decided_by="rule",
                summary="made up",
                first_host=f"node{i % 200}",
                first_gpu=i % 8,
                first_rank=None,
                onset_us=start + HOUR - 10_000_000,
                evidence=(),
                run=one,
                restart=Restart("restart", (), None, None, None, 0.3, ""),
                gpu_serial=f"{i % 1600}",
            )
        )
    store.replace_runs("bench", runs)
    store.replace_decisions("bench", decisions)


def load(store: Store, part: list[SignalFact]) -> None:
    """Load and place signals."""
    if part:
        store.load_facts(Facts(signals=tuple(part)), store.begin_ingest("bench", {}), "bench")
        placed = [(s.signal_id, s.host, s.first.us, s.last.us, s.rule, "informational", None) for s in part]
        store.update_placements(placed, "bench")


def scans(connection: sqlite3.Connection, sql: str) -> list[str]:
    """Large tables that the plan reads from end to end without an index."""
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
    return sorted({p.split()[1] for p in plan if p.startswith("SCAN") and "INDEX" not in p})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signals", type=int, default=1_000_000)
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="use this file, and fill it where it does not exist")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.keep or Path(folder) / "bench.db"
        new = not path.exists()
        upgrade(f"sqlite:///{path}")
        with open_store(f"sqlite:///{path}") as store:
            if new:
                at = time.perf_counter()
                fill(store, args.signals, args.incidents)
                print(f"filled in {time.perf_counter() - at:.0f} s, {path.stat().st_size / 1e6:,.0f} MB")
            measure(store, path)


def measure(store: Store, path: Path) -> None:
    """Time all views, saved queries and the review."""
    raw = sqlite3.connect(path)
    for name in views():
        seconds = []
        for _ in range(2):
            at = time.perf_counter()
            rows = len(raw.execute(f"SELECT * FROM {name}").fetchall())
            seconds.append(time.perf_counter() - at)
        whole = ", ".join(scans(raw, f"SELECT * FROM {name}")) or "-"
        print(f"{min(seconds):7.3f} s  {rows:8,} rows  {name}  scans: {whole}")
    for query in list_queries():
        given = {p.name: "i000001" if p.name == "incident" else "1" for p in query.parameters if p.required}
        at = time.perf_counter()
        _, answer = run_query(store, query.name, given)
        print(f"{time.perf_counter() - at:7.3f} s  {len(answer):8,} rows  query {query.name}")
    at = time.perf_counter()
    build(store)
    print(f"{time.perf_counter() - at:7.3f} s  the review of everything")


if __name__ == "__main__":
    main()
