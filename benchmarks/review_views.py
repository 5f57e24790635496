"""How long each view and saved query takes on a SQLite warehouse of a given size, and whether its plan uses indexes.

    python -m benchmarks.review_views [--signals 1000000] [--incidents 10000] [--keep FILE]

Rows are made up: 200 hosts, two years of incidents, one attempt each with twelve pieces of evidence, some health events
and its training progress, a hundredth of the signals about checkpoints, telemetry of 20 hosts for four weeks, power of
ten. Prints a table: seconds (best of two), rows, and large tables that the plan reads from end to end.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schemas.facts import Facts, ProgressFact, SignalFact, Stamp
from schemas.subject import Decision, Event, EvidenceItem, JobRun, Restart
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
                evidence=tuple(EvidenceItem(event(i, n), "root" if n == 0 else "cascade") for n in range(12)),
                health=(EvidenceItem(event(i, 99), "context"),),
                run=one,
                restart=Restart("restart", (), None, None, None, 0.3, ""),
                gpu_serial=f"{i % 1600}",
            )
        )
    store.replace_runs("bench", runs)
    store.replace_decisions("bench", decisions)


def event(i: int, n: int) -> Event:
    """A piece of evidence of an incident."""
    at = (T0 + i * 2 * HOUR + HOUR) / 1e6 - 10 + n
    return Event(
        id=f"e{i}-{n}", signal="xid.94", rule="xid.94", component="gpu.hbm", role="cause", severity="critical",
        fatal="y", t=at, t_last=at, unc=0.5, host=f"node{(i + n) % 200}", device=f"gpu:{n % 8}", rank=n, ranks=(n,),
        n_ranks=1, source="hosts/node/kern.log", source_id=f"s{i % 5000}", family="kernel", offset=n * 100,
        last_offset=n * 100, line=n, count=1, text="a line of a kernel log that says what happened to a GPU",
    )  # fmt: skip


def fill_beside(store: Store, n_incidents: int) -> None:
    """Rows of what else the review reads, in proportion."""
    for begin in range(0, n_incidents, 500):
        store.load_facts(Facts(progress=tuple(progress(begin, min(begin + 500, n_incidents)))), 1, "bench")
    for begin in range(0, n_incidents, 500):
        placed = [
            (p.source_id, p.cell, p.first.us, p.last.us, f"r{p.source_id[1:]}")
            for p in progress(begin, min(begin + 500, n_incidents))
        ]
        store.update_progress_placements("bench", placed)
    for host in range(20):
        store.load_telemetry("bench", telemetry(f"node{host}", 28 * 24))
    for host in range(10):
        store.load_power("bench", power(f"node{host}", 28 * 24))
    store.upsert_hosts("bench", [{"host": f"node{h}", "rack": f"rack{h // 8}", "n_gpus": 8} for h in range(200)])
    for host in range(200):
        what = (("kernel log", 20), ("bmc log", 5))
        logs = [
            (f"s{host}-{k}-{i}", f"node{host}", w, T0, T0 + HOUR) for k, (w, n) in enumerate(what) for i in range(n)
        ]
        store.replace_coverage("bench", [row[0] for row in logs], logs)


def progress(begin: int, end: int) -> Iterator[ProgressFact]:
    """Three cells of 64 lines of each attempt."""
    for i in range(begin, end):
        start = T0 + i * 2 * HOUR
        for cell in range(3):
            first = cell * 64
            points = tuple((n * 100, n * 20, start + n * 18_000_000) for n in range(first, first + 64))
            low, high = points[0], points[-1]
            yield ProgressFact(
                f"s{i:06}", cell, low[1], Stamp("utc", low[2]), low[0], high[1], Stamp("utc", high[2]), high[0], 64,
                0.9, "step/megatron", points,
            )  # fmt: skip


def telemetry(host: str, hours: int) -> Iterator[dict[str, Any]]:
    """Three metrics of eight GPUs, hour by hour."""
    for metric in ("gpu_temperature_c", "gpu_power_w", "gpu_sm_clock_mhz"):
        for gpu in range(8):
            for hour in range(hours):
                yield {
                    "host": host, "device": f"gpu{gpu}", "metric": metric, "hour_at": T0 + hour * HOUR,
                    "source_id": host, "n": 60, "total": 3600.0, "low": 55.0, "high": 65.0,
                }  # fmt: skip


def power(host: str, hours: int) -> Iterator[dict[str, Any]]:
    """Eight swings an hour."""
    for hour in range(hours):
        at = T0 + hour * HOUR
        yield {
            "host": host, "hour_at": at, "source_id": host, "n": 28_800, "devices": 8, "typical_w": 4.0, "n_swings": 8,
            "largest_w": 3700.0, "swings": [[at + n * 450_000_000, 1.0, 3700.0 * (-1) ** n, 8] for n in range(8)],
        }  # fmt: skip


def load(store: Store, part: list[SignalFact]) -> None:
    """Load and place signals."""
    if part:
        store.load_facts(Facts(signals=tuple(part)), store.begin_ingest("bench", {}), "bench")
        placed = [(s.signal_id, s.host, s.first.us, s.last.us, s.rule, "informational", None) for s in part]
        store.update_placements(placed, "bench")


#: Tables that grow with the logs; the others grow with what went wrong.
LARGE = ("signals", "evidence", "training_progress", "telemetry_hourly", "coverage", "health_events", "sources")


def whole_tables(connection: sqlite3.Connection, sql: str, given: dict[str, Any] | None = None) -> list[str]:
    """Large tables that the plan of a statement reads from end to end without an index."""
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", given or {})]
    held = {alias: table for table in LARGE for alias in _aliases(sql, connection, table)}
    scanned = {held.get(p.split()[1]) for p in plan if p.startswith("SCAN ") and " INDEX " not in p}
    return sorted(table for table in scanned if table is not None)


def _aliases(sql: str, connection: sqlite3.Connection, table: str) -> set[str]:
    """Names under which a statement and the views below it read a table."""
    known = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"))
    texts, todo = [], [sql]
    while todo:
        text = todo.pop()
        texts.append(text)
        todo += [known.pop(name) for name in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", text) if name in known]
    return {
        m or table for text in texts for m in re.findall(rf"\b(?:FROM|JOIN)\s+{table}\b(?:\s+(?!WHERE)(\w+))?", text)
    }


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
                fill_beside(store, args.incidents)
                print(f"filled in {time.perf_counter() - at:.0f} s, {path.stat().st_size / 1e6:,.0f} MB")
            measure(store, path)


def measure(store: Store, path: Path) -> None:
    """Time all views, saved queries and the review."""
    raw = sqlite3.connect(path)
    for table in (*LARGE, "decisions", "job_runs", "power_hourly"):
        print(f"{raw.execute(f'SELECT count(*) FROM {table}').fetchone()[0]:12,} rows of {table}")
    print(" seconds        rows  view                              reads whole")
    slowest = 0.0
    for name in views():
        seconds = []
        for _ in range(2):
            at = time.perf_counter()
            rows = len(raw.execute(f"SELECT * FROM {name}").fetchall())
            seconds.append(time.perf_counter() - at)
        slowest = max(slowest, min(seconds))
        whole = ", ".join(whole_tables(raw, f"SELECT * FROM {name}")) or "-"
        print(f"{min(seconds):8.3f}  {rows:10,}  {name:32s}  {whole}")
    for query in list_queries():
        given = {p.name: "i000001" if p.name == "incident" else "1" for p in query.parameters if p.required}
        at = time.perf_counter()
        _, answer = run_query(store, query.name, given)
        print(f"{time.perf_counter() - at:8.3f}  {len(answer):10,}  query {query.name}")
    at = time.perf_counter()
    build(store)
    print(f"{time.perf_counter() - at:8.3f}              the review of everything")
    at = time.perf_counter()
    build(store, "bench", T0 + 100 * 24 * HOUR, T0 + 107 * 24 * HOUR)
    print(f"{time.perf_counter() - at:8.3f}              the review of one week")
    print(f"slowest view: {slowest:.3f} s")


if __name__ == "__main__":
    main()
