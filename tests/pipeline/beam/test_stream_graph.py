"""The steps of the stream: what a restriction is, when timers fire, what is durable with what."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import typecoders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that
from apache_beam.transforms.userstate import get_dofn_specs
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from pipeline.beam import stream_elements
from pipeline.beam.stream_elements import Polled, decode_positions, encode_positions, read_wake, wakes
from pipeline.beam.stream_graph import Stream, StreamOptions, shards
from pipeline.beam.stream_reader import Positions, ReaderOptions
from pipeline.beam.stream_steps import BUCKET_S, FIRST_S, MOST_BUCKETS, Due, Gather, LoadFacts, decide
from pipeline.stream.deciding import DecidingProcess
from pipeline.stream.messages import Message
from pipeline.stream.shard import shard_of
from schemas.facts import Facts, Quarantine
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.stream.test_reading import reader, site

AT = {("logs", 0): 5, ("logs", 1): 900}


# -- the restriction


def test_a_restriction_has_no_end_until_a_checkpoint_gives_it_one() -> None:
    tracker = Positions(encode_positions(AT))
    assert not tracker.is_bounded()
    later = {**AT, ("logs", 0): 70}
    assert tracker.try_claim(later)
    with pytest.raises(ValueError, match="without deferring"):
        tracker.check_done()
    split = tracker.try_split(0)
    assert split is not None
    primary, residual = split
    assert decode_positions(primary) == (later, True)
    assert decode_positions(residual) == (later, False)
    assert tracker.check_done()
    assert tracker.current_restriction() == primary
    assert not tracker.try_claim({**AT, ("logs", 0): 71})


@pytest.mark.parametrize("fraction", [0.5, 1.0])
def test_nobody_splits_the_future(fraction: float) -> None:
    assert Positions(encode_positions(AT)).try_split(fraction) is None


def test_a_call_that_claimed_nothing_goes_on_where_it_began() -> None:
    split = Positions(encode_positions(AT)).try_split(0)
    assert split is not None
    assert decode_positions(split[1]) == (AT, False)


def test_every_partition_has_one_shard() -> None:
    positions = {("logs", n): n for n in range(64)}
    found = [decode_positions(first)[0] for _, first in shards(positions, 5)]
    assert {p: at for part in found for p, at in part.items()} == positions
    assert sum(map(len, found)) == 64
    assert all(shard_of(p, 5) == n for n, part in enumerate(found) for p in part)


# -- the graph


def _stream(url: str = "sqlite://") -> Stream:
    return Stream(StreamOptions(ReaderOptions("localhost:1", ("logs",), 2), url, Settings(), AT))


class _Steps(beam.pipeline.PipelineVisitor):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.dofns: list[beam.DoFn] = []

    def visit_transform(self, node: Any) -> None:
        self.names.append(node.full_label)
        if isinstance(node.transform, beam.ParDo):
            self.dofns.append(node.transform.fn)


def test_timer_and_state_ids_are_unique_in_the_whole_graph() -> None:
    """Two steps with one timer id mixed their timers on a runner, without an error."""
    pipeline, steps = beam.Pipeline(), _Steps()
    pipeline | "Stream" >> _stream()
    pipeline.visit(steps)
    ids = [spec.name for fn in steps.dofns for specs in get_dofn_specs(fn) for spec in specs]
    assert len(ids) >= 3
    assert len(ids) == len(set(ids))


def test_names_of_steps_are_part_of_a_savepoint() -> None:
    pipeline, steps = beam.Pipeline(), _Steps()
    pipeline | "Stream" >> _stream()
    pipeline.visit(steps)
    named = {name.split("/")[1] for name in steps.names if name.startswith("Stream/")}
    assert named == {"Shards", "ReadKafka", "LoadFacts", "Gather", "Decide"}


def test_steps_can_be_sent_to_workers() -> None:
    """No engine, client or store in a step before it is set up."""
    pipeline, steps = beam.Pipeline(), _Steps()
    pipeline | "Stream" >> _stream()
    pipeline.visit(steps)
    mine = [fn for fn in steps.dofns if type(fn).__module__.startswith("pipeline.")]
    assert len(mine) == 4
    assert all(len(pickle.dumps(fn)) < 20_000 for fn in mine)


# -- payloads


def _polled(n: int = 700) -> Polled:
    messages = [Message("logs", 0, i, s.time_us, s.value, dict(s.headers)) for i, s in enumerate(site()[:n])]
    found = reader().scan(messages, 0.0)
    positions = (("logs", 0, n, messages[-1].time_us),)
    return Polled(found.facts, positions, tuple(sorted(found.keys.items())), messages[-1].time_us or 0)


def test_a_payload_survives_its_coder() -> None:
    """For runners that put something between reader and loader."""
    polled = _polled()
    assert any(s.seen for s in polled.facts.signals)
    coder = typecoders.registry.get_coder(Polled)
    assert isinstance(coder, stream_elements.PolledCoder)
    assert coder.decode(coder.encode(polled)) == polled


def test_wakes_are_gathered_by_job_and_host() -> None:
    polled = _polled()
    found = wakes(polled, [s.source_id for s in polled.facts.sources])
    keys = [key for key, _ in found]
    assert len(keys) == len(set(keys))
    assert any(key.startswith("job:") for key in keys)
    assert any(key.startswith("host:") for key in keys)
    told = [sid for _, data in found for sid in read_wake(data)[1]]
    assert sorted(told) == sorted(s.source_id for s in polled.facts.sources)
    assert wakes(polled, []) == []


# -- loading


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'w.db'}"
    open_store(found, create=True).close()
    return found


def _load(url: str, polled: Polled) -> list[tuple[str, bytes]]:
    step = LoadFacts(url, Settings(), "one")
    step.setup()
    return list(step.process(polled))


def test_facts_and_positions_are_durable_together_and_a_repetition_wakes_nobody(url: str) -> None:
    polled = _polled()
    assert _load(url, polled)
    with open_store(url) as store:
        assert store.read_stream_progress("default") == {("logs", 0): (700, polled.event_us)}
        first = store.read_signals("default")
        assert sum(s.count for s in first) == sum(s.count for s in polled.facts.signals)
        assert _load(url, polled) == []
        assert store.read_signals("default") == first


def test_a_quarantined_message_names_topic_partition_and_offset(url: str) -> None:
    torn = Quarantine("logs/3", "", 17, 5, "torn JSON: no closing brace")
    _load(url, Polled(Facts(quarantine=(torn,)), (("logs", 3, 18, None),)))
    with open_store(url) as store, store.reading() as connection:
        rows = connection.exec_driver_sql('SELECT path, "offset", reason FROM quarantine').fetchall()
    assert [tuple(row) for row in rows] == [("logs/3", 17, "torn JSON: no closing brace")]


def test_deciding_ends_in_rows_of_the_warehouse(url: str) -> None:
    _load(url, _polled(len(site())))
    decider = DecidingProcess(url, Settings())
    try:
        with open_store(url) as store:
            assert decide(decider, None, store.now_us())
            assert sum(1 for d in store.list_decisions() if d.incident) > 10
    finally:
        decider.close()


# -- timers


def _wake(second: float, *source_ids: str, key: str = "job:1") -> tuple[str, bytes]:
    return key, json.dumps([int(second * 1e6), list(source_ids)]).encode()


def _fired(stream: TestStream, grace_s: float, expected: list[Due]) -> None:
    options = PipelineOptions(streaming=True)
    with TestPipeline(runner=BundleBasedDirectRunner(), options=options) as pipeline:
        found = (
            pipeline | stream | beam.Map(lambda x: x).with_output_types(tuple[str, bytes]) | beam.ParDo(Gather(grace_s))
        )

        def check(got: list[Due]) -> None:
            assert sorted(got) == sorted(expected)

        assert_that(found, check)


def test_a_first_and_a_final_answer_of_each_bucket() -> None:
    first = BUCKET_S + FIRST_S
    stream = (
        TestStream()
        .advance_watermark_to(Timestamp(0))
        .add_elements([TimestampedValue(_wake(1, "b"), 1), TimestampedValue(_wake(2, "a"), 2)])
        .advance_watermark_to(Timestamp(first + 1))
        .add_elements([TimestampedValue(_wake(4, "late"), 4)])
        .advance_watermark_to(Timestamp(10_000))
        .advance_watermark_to_infinity()
    )
    end = (BUCKET_S + 30) * 1_000_000
    _fired(stream, 30, [(first * 1_000_000, ["a", "b"]), (end, ["a", "b", "late"])])


def test_scopes_and_buckets_do_not_mix() -> None:
    stream = (
        TestStream()
        .advance_watermark_to(Timestamp(0))
        .add_elements(
            [
                TimestampedValue(_wake(1, "a"), 1),
                TimestampedValue(_wake(1, "x", key="host:gn1"), 1),
                TimestampedValue(_wake(BUCKET_S + 1, "b"), BUCKET_S + 1),
            ]
        )
        .advance_watermark_to(Timestamp(10_000))
        .advance_watermark_to_infinity()
    )
    buckets = [(["a"], 1), (["x"], 1), (["b"], 2)]
    firsts = [((n * BUCKET_S + FIRST_S) * 1_000_000, ids) for ids, n in buckets]
    finals = [((n * BUCKET_S + 30) * 1_000_000, ids) for ids, n in buckets]
    _fired(stream, 30, [*firsts, *finals])


def test_an_event_that_comes_all_the_time_starves_no_timer() -> None:
    """One timer that each event sets again would never fire."""
    stream = TestStream().advance_watermark_to(Timestamp(0))
    for second in range(0, 60):
        stream = stream.add_elements([TimestampedValue(_wake(second, "a"), second)])
        stream = stream.advance_watermark_to(Timestamp(second + 0.5))
    stream = stream.advance_watermark_to(Timestamp(10_000)).advance_watermark_to_infinity()
    n = 60 // BUCKET_S
    firsts: list[Due] = [(((k + 1) * BUCKET_S + FIRST_S) * 1_000_000, ["a"]) for k in range(n)]
    finals: list[Due] = [(((k + 1) * BUCKET_S + 30) * 1_000_000, ["a"]) for k in range(n)]
    _fired(stream, 30, [*firsts, *finals])


def test_state_is_bounded_and_forgotten() -> None:
    """A watermark that stands still, and a key with ever new buckets and sources."""

    class _State:
        def __init__(self) -> None:
            self.data: bytes | None = None

        def read(self) -> bytes | None:
            return self.data

        def write(self, data: bytes) -> None:
            self.data = data

        def clear(self) -> None:
            self.data = None

    class _Timer:
        def set(self, at: Timestamp, dynamic_timer_tag: str) -> None:
            del at
            tags.append(dynamic_timer_tag)

    tags: list[str] = []
    step, state = Gather(120), _State()
    for n in range(10 * MOST_BUCKETS):
        step.process(_wake(n * BUCKET_S, *(f"s{n}-{k}" for k in range(3))), state, _Timer(), _Timer())
    assert state.data is not None
    assert len(json.loads(state.data)) == MOST_BUCKETS
    assert len(tags) == 2 * MOST_BUCKETS
    for tag in sorted(set(tags)):
        assert list(step.final(tag, Timestamp(0), state))
    assert state.data is None
