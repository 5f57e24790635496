"""Batches of messages to facts: whatever the batches, their order and repetition."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.scanning import progress_cells
from pipeline.scanning.scan import scan_paths
from pipeline.stream.messages import Message
from pipeline.stream.reading import Reader, stream_engine
from pipeline.warehouse.redecide import redecide
from schemas.facts import CELL, Facts, merge_facts
from schemas.settings import Settings
from sql.same import dump_same, same_bytes
from sql.store import open_store
from tests.pipeline.stream.archive import Sent, archive_messages, as_messages, write_files
from tests.stream_faults.harness import differences, told

SETTINGS = Settings()


@cache
def engine() -> object:
    return stream_engine(load_ruleset(), SETTINGS)


def reader() -> Reader:
    return Reader(load_ruleset(), engine())  # type: ignore[arg-type]


@cache
def site() -> tuple[Sent, ...]:
    return tuple(archive_messages())


def gather(messages: Sequence[Message], sizes: Sequence[int] = (500,)) -> Facts:
    """The facts of all messages, read in batches of these sizes in turn."""
    one, parts, at, n = reader(), [], 0, 0
    while at < len(messages):
        size = sizes[n % len(sizes)]
        parts.append(one.scan(messages[at : at + size], float(n)).facts)
        at, n = at + size, n + 1
    return merge_facts([*parts, one.rest().facts])


def decided(facts: Facts, folder: Path, name: str) -> bytes:
    """The rows that these facts give."""
    with open_store(f"sqlite:///{folder / name}.db", create=True) as store:
        store.load_facts(facts)
        redecide(store, SETTINGS, load_ruleset(), None)
        return same_bytes(store)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return decided(gather(as_messages(site())), tmp_path_factory.mktemp("order"), "order")


@pytest.mark.parametrize("seed", range(3))
def test_order_repetition_and_partitions_do_not_show(seed: int, in_order: bytes, tmp_path: Path) -> None:
    rng = random.Random(seed)
    sent = [*site(), *rng.sample(site(), 800)]
    rng.shuffle(sent)
    sizes = [rng.randint(1, 900) for _ in range(9)]
    assert decided(gather(as_messages(sent, partitions=5), sizes), tmp_path, "mixed") == in_order


def test_the_rows_are_those_of_a_batch(in_order: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same messages as a shipper's file, scanned with every cell read for progress, as the stream does."""
    monkeypatch.setattr(progress_cells, "SAMPLING", ((1 << 62, 1),))
    monkeypatch.setattr(progress_cells, "_SAMPLE", CELL)
    monkeypatch.setattr(progress_cells, "STORM", 1 << 30)
    write_files(site(), tmp_path / "stream")
    rows = []
    for name, facts in (
        ("batch", scan_paths([tmp_path / "stream"], SETTINGS)),
        ("stream", gather(as_messages(site()))),
    ):
        with open_store(f"sqlite:///{tmp_path / name}.db", create=True) as store:
            store.load_facts(facts)
            redecide(store, SETTINGS, load_ruleset(), None)
            rows.append((dump_same(store), told(store)))
    (batch, told_batch), (stream, told_stream) = rows
    assert differences(told_stream, told_batch) == []
    apart = {"source_ids", "step_s", "more"}  # ids of files; seconds a step are a median over other cells
    for one, other in zip(batch["job_runs"], stream["job_runs"], strict=True):
        assert {k: v for k, v in one.items() if k not in apart} == {k: v for k, v in other.items() if k not in apart}
        assert other["step_s"] == pytest.approx(one["step_s"], rel=0.02)
    same = ("job_id", "component", "cause", "planned", "started_at", "interrupted_at", "onset_at", "last_progress_at",
            "lost_gpu_seconds", "outcome", "n_hosts", "n_gpus", "first_gpu", "fault_id")  # fmt: skip

    def answers(found: dict[str, list[dict[str, object]]]) -> list[str]:
        return sorted(str([row[name] for name in same if name in row]) for row in found["incidents"])

    assert answers(stream) == answers(batch)


def test_every_message_is_accounted_for() -> None:
    messages = as_messages(site())
    odd = [
        b"",
        b'{"torn',
        b"\x00\x01\x02\x03\x04",
        b'{"a": 1}',
        b'{"streams": [{"stream": {}, "values": [["1", "x"]]}]}',
    ]
    messages += [Message("odd", 0, n, None, value) for n, value in enumerate(odd)]
    one = reader()
    total = 0
    for at in range(0, len(messages), 700):
        found = one.scan(messages[at : at + 700], float(at))
        assert found.account.messages == len(messages[at : at + 700])
        total += found.account.messages
        if at + 700 >= len(messages):
            assert found.accounts["odd"].dead == 3
            assert (found.accounts["odd"].empty, found.accounts["odd"].noise) == (1, 1)
            assert len(found.facts.quarantine) == 3
            assert {(q.path, q.offset) for q in found.facts.quarantine} == {("odd/0", 1), ("odd/0", 2), ("odd/0", 3)}
    assert total == len(messages)


def _filebeat(host: str, offset: int, text: str, second: int = 0, path: str = "/var/log/kern.log") -> bytes:
    when = f"2026-03-03T01:{second // 60:02d}:{second % 60:02d}Z"
    log = {"file": {"path": path}, "offset": offset}
    return json.dumps({"@timestamp": when, "agent": {}, "host": {"name": host}, "log": log, "message": text}).encode()


def test_what_one_host_has_stays_with_that_host() -> None:
    """512 hosts, all shuffled into one partition: signals and names of streams never mix."""
    values = [
        _filebeat(
            f"gn{h:03d}",
            n * 100,
            "kernel: [9.100000] " + ("NVRM: Xid (PCI:0000:4d:00): 79, pid=1, x" if h == 77 else "ok"),
            n,
        )
        for h in range(512)
        for n in range(3)
    ]
    random.Random(5).shuffle(values)
    facts = gather([Message("t", 0, n, None, v) for n, v in enumerate(values)])
    assert {s.host for s in facts.signals} == {"gn077"}
    assert sum(s.count for s in facts.signals) == 3
    assert {s.host for s in facts.sources} == {f"gn{h:03d}" for h in range(512)}


def test_secrets_are_masked_before_anything_is_kept() -> None:
    text = "RuntimeError: CUDA error: out of memory at https://me:hunter2secret@repo.example/x"
    facts = gather([Message("t", 0, 0, 1, _filebeat("gn1", 0, text, path="/jobs/slurm-1.out"))])
    assert facts.signals
    assert "hunter2secret" not in repr(facts)


def test_escaped_literals_are_found() -> None:
    """Go's encoder writes <, > and & otherwise; slashes may be escaped."""
    text = "blk_update_request: I/O error, dev nvme0n1, sector 5"
    plain = gather([Message("t", 0, 0, 1, _filebeat("gn1", 0, "kernel: [9.100000] " + text))])
    value = _filebeat("gn1", 0, "kernel: [9.100000] " + text).replace(b"I/O", b"I\\/O")
    escaped = gather([Message("t", 0, 0, 1, value)])
    assert plain.signals
    assert [s.signal_id for s in escaped.signals] == [s.signal_id for s in plain.signals]


@examples(max_examples=20)
@given(data=st.data())
def test_steps_of_a_log_merge_line_by_line(data: st.DataObject) -> None:
    """Whatever portions lines come in, and more of them than are kept."""
    lines = [
        _filebeat("gn1", n * 90, f"iteration {n * 10} / 9000 | loss: 2.{n}", n, "/jobs/slurm-9.out") for n in range(150)
    ]
    messages = [Message("t", 0, n, None, v) for n, v in enumerate(lines)]
    order = data.draw(st.permutations(messages))
    sizes = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    found = gather(order, sizes)
    assert found.progress == gather(messages, [1000]).progress
    assert found.progress[0].first_step == 0
    assert found.progress[0].last_step == 1490
    assert found.progress[0].step_s == pytest.approx(0.1)


def test_a_source_that_speaks_all_the_time_is_written_now_and_then() -> None:
    one = reader()

    def rows(second: float, signal: bool = False) -> tuple[int, int]:
        text = (
            "kernel: [9.100000] NVRM: Xid (PCI:0000:4d:00): 79, pid=1, x"
            if signal
            else "kernel: [9.100000] docker0: up"
        )
        value = _filebeat("gn1", int(second * 100), text, int(second))
        facts = one.scan([Message("t", 0, int(second * 100), None, value)], second).facts
        return len(facts.sources), len(facts.signals)

    assert rows(0) == (1, 0)  # the first word goes at once
    assert rows(1) == (0, 0)
    assert rows(9) == (0, 0)
    assert one.due(9.5).facts == Facts()
    assert rows(10) == (1, 0)  # with all that was held
    assert rows(11, signal=True) == (0, 1)  # signals always go at once
    assert rows(12, signal=True) == (1, 1)
    assert rows(13) == (0, 0)
    late = one.due(22.5)
    assert [s.spans for s in late.facts.sources] == [(("utc", 1_772_499_600_000_000, 1_772_499_613_000_000),)]
    assert one.due(60).facts == Facts()
    assert list(late.keys.values()) == ["host:gn1"]


def test_what_was_said_can_be_said_again() -> None:
    one = reader()
    messages = [Message("t", 0, 0, None, _filebeat("gn1", 0, "kernel: [9.100000] docker0: up"))]
    assert one.scan(messages, 0.0).facts.sources
    assert not one.scan(messages, 1.0).facts.sources
    one.forget()
    assert one.scan(messages, 2.0).facts.sources
