"""The whole stream under load: Kafka to PostgreSQL on Prism, everything on this machine, and how long things take.

    python -m benchmarks.stream_load [--minutes 5] [--signals 5000] [--noise 50000] [--cores 2] [--grace 120]

Starts a broker, PostgreSQL (those of `tests.services`) and `faultbeam stream`, lets `benchmarks.stream_traffic` send in
step with the clock, and prints one table. Gates: p95 from Kafka to row <= 15 s, provisional answer p95 <= 15 s
after the end of a job, every failed job answered, lag bounded, memory flat. Latency from Kafka to row is that of all
messages: offsets of the broker and durable positions of the warehouse are read twice a second. The sender, the broker
and the database share the cores with the stream; the table says who took how much of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.stream.offsets import BrokerEnds
from sql.errors import SqlError
from sql.migrations import upgrade
from sql.store import Store, open_store
from tests.services.cache import prism
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer
from tests.services.process import end, leashed, tail
from tests.services.stream import StreamProcess, name_of, processes

CLUSTER = "load"
GATE_S = 15.0
_MARGIN_S = 15.0
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Samples:
    """What was seen, twice a second. at: wall clock, seconds; sent and durable: offsets summed over partitions."""

    at: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    durable: list[int] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)


def usage(pids: Sequence[int]) -> tuple[float, int]:
    """(processor seconds, resident bytes) of processes, with their children that have ended."""
    seconds, resident = 0.0, 0
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            resident += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
        seconds += sum(map(int, words[11:15])) / _TICK
    return seconds, resident


def kinds(stream: int, broker: int, database: int, sender: int) -> dict[str, list[int]]:
    """Whose processes are whose. Prism runs below the stream's supervisor and is shown apart."""
    mine = processes(stream)
    runner = [pid for pid in mine if name_of(pid).startswith("prism")]
    return {
        "stream": [pid for pid in mine if pid not in runner],
        "prism": runner,
        "broker": [broker],
        "database": processes(database),
        "sender": [sender],
    }


def latencies(samples: Samples) -> list[float]:
    """Seconds from Kafka to row for each moment seen: when was all that was sent by then durable?"""
    found = []
    for at, sent in zip(samples.at, samples.sent, strict=True):
        index = bisect_left(samples.durable, sent)
        if index < len(samples.durable):
            found.append(max(0.0, samples.at[index] - at))
    return found


def quantile(values: Sequence[float], q: float) -> float:
    """The q-th part of the values lies at or below it; not a number without any."""
    if not values:
        return float("nan")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclass(slots=True)
class Answers:
    """Failed jobs by what became of them. Seconds after their end."""

    failed: int
    provisional: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    right: int = 0


def answers(store: Store, plan: Sequence[Mapping[str, object]]) -> Answers:
    """First provisional and first final answer of each failed job, from the outbox of incidents."""
    from sqlalchemy import select

    from sql.models import decisions, incident_outbox, job_runs

    failed = {str(p["job"]): p for p in plan if p["failed"]}
    found = Answers(len(failed))
    box, runs, told = incident_outbox.c, job_runs.c, decisions.c
    with store.reading() as connection:
        rows = connection.execute(
            select(runs.job_id, box.provisional, box.created_us)
            .select_from(
                incident_outbox.join(job_runs, (runs.run_key == box.subject_key) & (runs.cluster == box.cluster))
            )
            .where(box.cluster == CLUSTER, box.what != "retracted")
            .order_by(box.seq)
        )
        seen: set[tuple[str, bool]] = set()
        for job_id, provisional, created_us in rows:
            key = (str(job_id), bool(provisional))
            if key[0] in failed and key not in seen:
                seen.add(key)
                waited = created_us / 1e6 - float(str(failed[key[0]]["end"]))
                (found.provisional if provisional else found.final).append(waited)
        causes = connection.execute(
            select(told.job_id, told.first_host, told.component).where(told.cluster == CLUSTER, told.incident)
        )
        found.right = sum(
            1
            for job_id, host, component in causes
            if str(job_id) in failed and host == failed[str(job_id)]["host"] and component.startswith("gpu")
        )
    return found


class Machine:
    """The servers and the stream. Use as a context manager; everything ends with it."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder, self.args = folder, args
        self.broker = KafkaBroker(folder)
        self.database: PostgresServer | None = None
        self.stream: StreamProcess | None = None
        self.topic, self.url = "", ""

    def __enter__(self) -> Machine:
        try:
            self.broker.start()
            self.topic = self.broker.topic("load", partitions=self.args.partitions)
            self.database = PostgresServer(self.folder)
            self.url = self.database.database()
            upgrade(self.url)
            self.stream = StreamProcess(self.folder, self._options(), self.args.option)
            self.stream.start()
            self.stream.await_health(120)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        if self.stream is not None:
            self.stream.close()
        self.broker.stop()
        if self.database is not None:
            self.database.close()

    def _options(self) -> dict[str, str]:
        return {
            "--bootstrap-servers": self.broker.bootstrap,
            "--topic": self.topic,
            "--warehouse": self.url,
            "--cluster": CLUSTER,
            "--runner": "prism",
            "--prism-location": str(prism()),
            "--set": f"grace_s={self.args.grace}",
        }


def watch(machine: Machine, sender: subprocess.Popen[bytes], store: Store, drain_s: float) -> Samples:
    """Sample until everything that was sent is durable, and at most for a while after the sender ended."""
    assert machine.stream is not None
    assert machine.database is not None
    assert machine.broker.pid is not None
    ends = BrokerEnds({"bootstrap.servers": machine.broker.bootstrap}, lambda name: name == machine.topic)
    samples, ended = Samples(), None
    first: dict[str, float] = {}
    while True:
        try:
            positions = store.read_stream_progress(CLUSTER)
        except SqlError:
            positions = {}
        high = {key: ends_[1] for key, ends_ in ends().items()}
        samples.at.append(time.time())
        samples.sent.append(sum(high.values()))
        samples.durable.append(sum(positions[key][0] for key in high if key in positions))
        groups = kinds(machine.stream.pid, machine.broker.pid, machine.database.pid, sender.pid)
        for name, pids in groups.items():
            seconds, resident = usage(pids)
            samples.memory.setdefault(name, []).append(resident)
            if sender.poll() is None:
                samples.cpu[name] = seconds - first.setdefault(name, seconds)
        if sender.poll() is not None:
            ended = ended or time.monotonic()
            if samples.durable[-1] >= samples.sent[-1] or time.monotonic() - ended > drain_s:
                return samples
        if machine.stream.returncode is not None:
            raise SystemExit(f"the stream ended with {machine.stream.returncode}: {tail(machine.stream.log)}")
        time.sleep(0.5)


def table(
    samples: Samples, sent: Mapping[str, float], found: Answers, args: argparse.Namespace
) -> list[tuple[str, ...]]:
    """Rows: what, measured, gate, verdict."""
    waits = latencies(samples)
    lag = [s - d for s, d in zip(samples.sent, samples.durable, strict=True)]
    while_sending = [n for at, n in zip(samples.at, lag, strict=True) if at <= samples.at[0] + sent["seconds"]]
    rate = sent["messages"] / sent["seconds"]
    wanted = args.signals + args.noise
    half = len(while_sending) // 2
    grew = quantile(while_sending[half:], 0.5) - quantile(while_sending[:half], 0.5)
    memory = samples.memory["stream"]
    sending = len(while_sending)
    calm = memory[sending // 5 : sending] or memory  # the first fifth is start-up
    early, late = quantile(calm[: len(calm) // 4 or 1], 0.5), quantile(calm[-(len(calm) // 4 or 1) :], 0.5)
    flat = late < 1.1 * early + 32e6
    minutes = sent["seconds"] / 60

    def row(what: str, value: str, gate: str = "", ok: bool | None = None) -> tuple[str, ...]:
        return what, value, gate, "" if ok is None else "yes" if ok else "NO"

    def seconds(values: Sequence[float]) -> str:
        return f"p50 {quantile(values, 0.5):.1f} s, p95 {quantile(values, 0.95):.1f} s, n {len(values)}"

    p95 = quantile(waits, 0.95)
    soon = quantile(found.provisional, 0.95)
    final, latest = quantile(found.final, 0.95), args.grace + GATE_S
    rows = [
        row("sent", f"{rate:,.0f} messages/s for {sent['seconds']:.0f} s", f"{wanted:,.0f}", rate >= 0.97 * wanted),
        row("Kafka to row", seconds(waits), f"p95 <= {GATE_S:.0f} s", p95 <= GATE_S),
        row("provisional after the end", seconds(found.provisional), f"p95 <= {GATE_S:.0f} s", soon <= GATE_S),
        row("final after the end", seconds(found.final), f"p95 <= {latest:.0f} s", final <= latest),
        row("failed jobs answered", f"{len(found.final)} of {found.failed}", "all", len(found.final) == found.failed),
        row("  with the right host", f"{found.right} of {found.failed}"),
        row("lag, most", f"{max(while_sending, default=0):,} messages", "bounded", grew < 2 * rate),
        row("  second half - first half", f"{grew:+,.0f} messages"),
        row("memory of the stream", f"{early / 1e6:.0f} MB, then {late / 1e6:.0f} MB", "flat", flat),
        row("  growth", f"{(late - early) / 1e6 / minutes:+.1f} MB a minute"),
        row("memory of prism", f"most {max(samples.memory['prism'], default=0) / 1e6:.0f} MB"),
    ]  # fmt: skip
    for name, used in samples.cpu.items():
        rows.append(row(f"processor: {name}", f"{used / sent['seconds']:.2f} cores"))
    rows.append(
        row("processor: together", f"{sum(samples.cpu.values()) / sent['seconds']:.2f} of {os.cpu_count()} cores")
    )
    rows.append(row("sender behind, most", f"{sent['behind_s']:.2f} s"))
    return rows


def inside(told: Mapping[str, float]) -> list[tuple[str, ...]]:
    """What the stream says of itself."""
    rows = []
    for name in ("load", "decide"):
        count, total = (told.get(f"faultbeam_stream_{name}_seconds_{part}", 0.0) for part in ("count", "sum"))
        mean = total / count if count else float("nan")
        rows.append((f"{name}: transactions", f"{count:,.0f}, together {total:,.1f} s, each {mean:.3f} s", "", ""))
    for key, n in sorted(told.items()):
        if key.startswith(("faultbeam_stream_messages_total", "faultbeam_stream_database_retries_total")):
            rows.append((key.removeprefix("faultbeam_stream_"), f"{n:,.0f}", "", ""))
    return rows


def run(args: argparse.Namespace) -> int:
    """One measurement; 1 where a gate is missed."""
    plan_file = args.folder / "plan.ndjson"
    with Machine(args.folder, args) as machine:
        assert machine.stream is not None
        command = [sys.executable, "-m", "benchmarks.stream_traffic", "--bootstrap", machine.broker.bootstrap]
        command += ["--topic", machine.topic, "--seconds", str(args.minutes * 60), "--signals", str(args.signals)]
        command += ["--noise", str(args.noise), "--hosts", str(args.hosts), "--plan", str(plan_file)]
        sender = leashed(command, args.folder / "sender.log")
        try:
            with open_store(machine.url) as store:
                samples = watch(machine, sender, store, args.drain)
                if sender.returncode:
                    raise SystemExit(f"the sender ended with {sender.returncode}: {tail(args.folder / 'sender.log')}")
                sent, *plan = [json.loads(line) for line in plan_file.read_text().splitlines()]
                _await_final(store, plan, args.grace)
                found = answers(store, plan)
                told = machine.stream.metrics()
        finally:
            end(sender)
    rows = table(samples, sent, found, args) + inside(told)
    widths = [max(len(row[n]) for row in rows) for n in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return int(any(row[3] == "NO" for row in rows))


def _await_final(store: Store, plan: Sequence[Mapping[str, object]], grace: float) -> None:
    """Wait until the answers of all jobs should be final."""
    last = max((float(str(p["end"])) for p in plan), default=0.0)
    while time.time() < last + grace + 4 * _MARGIN_S:
        found = answers(store, plan)
        if len(found.final) >= found.failed:
            return
        time.sleep(2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--signals", type=float, default=5000, help="messages a second that carry a signal")
    parser.add_argument("--noise", type=float, default=50000, help="noise lines a second, one a message")
    parser.add_argument("--hosts", type=int, default=512)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2, help="everything together runs on so many cores")
    parser.add_argument("--grace", type=float, default=120)
    parser.add_argument("--drain", type=float, default=120, help="wait so long for what is left, seconds")
    parser.add_argument("--option", action="append", default=[], help="one more word for faultbeam stream")
    parser.add_argument("--keep", type=Path, help="folder for logs and data, kept")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    if args.keep:
        args.folder = args.keep
        args.keep.mkdir(parents=True, exist_ok=True)
        return run(args)
    with tempfile.TemporaryDirectory(prefix="fbload", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        args.folder = Path(folder)
        return run(args)


if __name__ == "__main__":
    sys.exit(main())
