"""Facts go in and come back equal; order, repetition and split of loads never show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from schemas.facts import Facts, ProgressFact, RunFragment, SignalFact, SourceFact, Stamp, merge_facts
from sql import models
from sql.factrows import FRAGMENTS, PROGRESS, QUARANTINE, SIGNALS, SOURCES, Kind
from sql.read import read
from sql.same import same_bytes
from sql.store import Store
from tests.sql.builders import T0, fact_sets, fragments, hits, progress_facts, source_facts

COMMON = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _empty(store: Store) -> None:
    with store.writing() as connection:
        for table in ("sources", "signals", "training_progress", "run_fragments", "quarantine"):
            connection.execute(delete(models.metadata.tables[table]))


def _all(store: Store, cluster: str = "default") -> Facts:
    with store.reading() as connection:
        quarantine = read(connection, QUARANTINE, cluster)
    return merge_facts(
        [
            Facts(
                sources=store.read_sources(cluster),
                signals=store.read_signals(cluster),
                progress=store.read_progress(cluster),
                fragments=store.read_fragments(cluster),
                quarantine=quarantine,
            )
        ]
    )


@COMMON
@given(facts=fact_sets)
def test_facts_come_back_equal(store: Store, facts: Facts) -> None:
    _empty(store)
    store.load_facts(facts)
    assert _all(store) == merge_facts([facts])


@COMMON
@given(parts=st.lists(fact_sets, max_size=3))
def test_loads_merge_as_in_memory(store: Store, parts: list[Facts]) -> None:
    _empty(store)
    for part in parts:
        store.load_facts(part)
    assert _all(store) == merge_facts(parts)


@COMMON
@given(found=st.lists(hits(), min_size=1, max_size=25), data=st.data())
def test_split_order_and_repetition_do_not_show(store: Store, found: list[SignalFact], data: st.DataObject) -> None:
    _empty(store)
    store.load_facts(Facts(signals=tuple(found)))
    whole = same_bytes(store)
    assert whole
    _empty(store)
    shuffled = data.draw(st.permutations(found))
    cut = data.draw(st.integers(0, len(found)))
    for part in (shuffled[:cut], shuffled[cut:], shuffled[: cut // 2]):
        store.load_facts(Facts(signals=tuple(part)))
    assert same_bytes(store) == whole


@pytest.mark.parametrize("kind", [SOURCES, SIGNALS, PROGRESS, FRAGMENTS], ids=lambda k: k.table.name)
def test_every_field_of_a_fact_is_kept(store: Store, kind: Kind) -> None:
    """A field that somebody adds to a fact, and forgets in its table, shows here."""
    fact_class = {
        "sources": SourceFact,
        "signals": SignalFact,
        "training_progress": ProgressFact,
        "run_fragments": RunFragment,
    }[kind.table.name]
    values: dict[str, object] = {}
    for n, f in enumerate(fields(fact_class)):
        word = str(f.type)
        if word.startswith("tuple[tuple"):
            values[f.name] = ((n, 1),) if f.name == "counts" else ((n, 1, 2),)
        elif f.name == "seen":
            values[f.name] = ()  # kept beside the signals: see test_lines
        elif word.startswith("tuple"):
            values[f.name] = (f"w{n}",)
        elif word == "Stamp":
            values[f.name] = Stamp("mono", n, borrowed=True)
        else:
            values[f.name] = n + 0.5 if word.startswith("float") else n if word.startswith("int") else f"w{n}"
    fact = fact_class(**values)
    with store.writing() as connection:
        connection.execute(kind.table.insert(), {"cluster": "c", **kind.row(fact)})
    with store.reading() as connection:
        assert read(connection, kind, "c") == (fact,)


def test_touched_names_what_changed_and_only_that(store: Store) -> None:
    first = Facts(
        sources=(SourceFact("s1", ("a/kern.log",), "logs", "kern", "kernel", 100, None, "node7"),),
        signals=tuple(_hit("s1", n) for n in range(3)),
    )
    touched = store.load_facts(first, 1)
    assert touched.source_ids == {"s1"}
    assert touched.hosts == {"node1", "node7"}
    assert touched.spans == (("utc", T0, T0 + 120_000_000),)
    assert dict(touched.rows) == {"sources": 1, "signals": 3}

    again = store.load_facts(first, 2)
    assert not again
    assert again.source_ids == frozenset()

    more = store.load_facts(Facts(signals=(*first.signals, _hit("s2", 5))), 3)
    assert more.source_ids == {"s2"}
    assert dict(more.rows) == {"signals": 1}


def _hit(source: str, minute: int, host: str = "node1") -> SignalFact:
    stamp = Stamp("utc", T0 + minute * 60_000_000)
    key = f"{source}-{minute}"
    return SignalFact(
        key, source, "r", "", host, "t", f"utc:{minute}", stamp, minute, 1, stamp, minute, "text", (), (), ((0, 1),)
    )


def test_two_clusters_never_meet(store: Store) -> None:
    facts = Facts(signals=(_hit("s1", 1),))
    store.load_facts(facts, cluster="alpha")
    store.load_facts(Facts(signals=(_hit("s1", 1), _hit("s1", 2))), cluster="beta")
    assert len(store.read_signals("alpha")) == 1
    assert len(store.read_signals("beta")) == 2
    assert store.read_signals("gamma") == ()


def test_more_rows_than_a_batch(store: Store) -> None:
    signals = tuple(_hit(f"s{n % 7000}", n) for n in range(12_345))
    assert dict(store.load_facts(Facts(signals=signals)).rows) == {"signals": 12_345}
    assert not store.load_facts(Facts(signals=signals[::-1]))
    back = store.read_signals("default", source_ids=[f"s{n}" for n in range(7000)])
    assert len(back) == 12_345
    assert [s.signal_id for s in back] == sorted(s.signal_id for s in back)


def test_hostile_text_is_stored_on_both_databases_alike(store: Store) -> None:
    signal = SignalFact(
        "x1", "s1", "r", "k\0", "h", "t\ud800", "cell:0", Stamp("none", 0), 0, None, Stamp("none", 0), 0,
        "a\0b\udcffc'; DROP TABLE signals; -- :x %s", (("f\0", "\udfff"),),
    )  # fmt: skip
    source = SourceFact("s1", ("a\0b.log",), "logs", "kern", "kernel", 1, None, "", facts=("v=\ud9ab",))
    store.load_facts(Facts(sources=(source,), signals=(signal,)))
    (back,) = store.read_signals("default")
    assert back.text == "a␀b\ufffdc'; DROP TABLE signals; -- :x %s"
    assert back.key == "k␀"
    assert back.fields == (("f␀", "\ufffd"),)
    assert store.read_sources("default")[0].inner_paths == ("a␀b.log",)
    assert not store.load_facts(Facts(sources=(source,), signals=(signal,)))


def test_placements_stay_when_facts_grow_and_serve_windows(store: Store) -> None:
    store.load_facts(Facts(signals=(_hit("s1", 1), _hit("s1", 2), _hit("s2", 3))))
    placed = [
        ("s1-1", "node1", T0, T0 + 5, "xid.94", "gpu.hbm", "gpu:1"),
        ("s1-2", "node1", T0 + 100, T0 + 200, "xid.94", "gpu.hbm", None),
    ]
    assert store.update_placements(placed) == 2

    def ids(**window: int | bool) -> list[str]:
        return [s.signal_id for s in store.read_signals("default", **window)]  # type: ignore[arg-type]

    assert ids(since_us=T0 + 6) == ["s1-2", "s2-3"]
    assert ids(until_us=T0 + 99, include_untimed=False) == ["s1-1"]
    assert ids(since_us=T0 + 150, until_us=T0 + 160, include_untimed=False) == ["s1-2"]
    assert ids(include_untimed=False) == ["s1-1", "s1-2"]
    assert [s.signal_id for s in store.read_signals("default", ["s2"], T0 + 9 * 10**9, None)] == ["s2-3"]

    grown = _hit("s1", 1)
    store.load_facts(
        Facts(signals=(SignalFact(**{**{f: getattr(grown, f) for f in grown.__slots__}, "counts": ((0, 1), (1, 5))}),))
    )
    assert ids(until_us=T0 + 99, include_untimed=False) == ["s1-1"]
    assert store.read_signals("default", ["s1"])[0].count == 6


def test_pending_shows_what_a_dead_ingest_changed(store: Store) -> None:
    done = store.begin_ingest("default", {"paths": ["a"]})
    store.load_facts(Facts(signals=(_hit("s1", 1),)), done)
    store.finish_ingest(done, {"signals": 1})
    assert not store.pending("default")
    dead = store.begin_ingest("default", {"paths": ["b"]})
    store.load_facts(Facts(signals=(_hit("s2", 1),)), dead)
    assert store.pending("default").source_ids == {"s2"}
    latest = store.latest_ingest("default")
    assert latest is not None
    assert (latest["ingest_id"], latest["finished_at"], latest["args"]) == (dead, None, {"paths": ["b"]})
    assert store.latest_ingest("other") is None


def test_stream_positions_become_durable_with_their_facts(store: Store) -> None:
    store.load_facts(Facts(signals=(_hit("s1", 1),)), positions=[("logs", 0, 17, T0), ("logs", 1, 3, None)])
    store.load_facts(Facts(), positions=[("logs", 0, 20, T0 + 1)])
    assert store.read_stream_progress("default") == {("logs", 0): (20, T0 + 1), ("logs", 1): (3, None)}
    store.load_facts(Facts(), positions=[("logs", 0, 21, None), ("logs", 1, 4, T0)])
    assert store.read_stream_progress("default") == {("logs", 0): (21, T0 + 1), ("logs", 1): (4, T0)}


def test_chosen_sources_only(store: Store) -> None:
    facts = merge_facts(
        [
            Facts(
                progress=tuple(_example(progress_facts, source_id=s, cell=1) for s in ("s0", "s1")),
                fragments=tuple(_example(fragments, source_id=s, offset=1) for s in ("s0", "s1")),
                sources=(_example(source_facts, source_id="s0"),),
            )
        ]
    )
    store.load_facts(facts)
    assert store.read_progress("default", ["s1"]) == facts.progress[1:]
    assert store.read_fragments("default", ["s0"]) == facts.fragments[:1]
    assert store.read_progress("default", []) == ()


def _example(strategy: st.SearchStrategy, **values: object) -> object:
    return replace(find(strategy, lambda _: True), **values)


@pytest.fixture(autouse=True)
def _closed(store: Store) -> Iterator[None]:
    yield
    store.close()
