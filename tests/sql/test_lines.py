"""Lines of a stream in the warehouse: exact counts in any order, and what forgetting them leaves."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from schemas.facts import CELL, Facts, SignalFact, SourceFact, Stamp, merge_facts, merge_signals, with_seen
from sql import models
from sql.housekeeping import sweep
from sql.lines import pack_lines, unpack_lines
from sql.migrations import upgrade
from sql.store import Store, open_store
from sql.touched import settle_marks, undecided

SOURCE = SourceFact("s1", ("n1/kern.log",), "stream", "kern", "kernel", 10**9, None, "n1")


def portion(lines: list[int], signal: str = "sig", source: str = "s1") -> SignalFact:
    at = sorted(lines)
    first, last = Stamp("utc", 60_000_000 + at[0] // 1000), Stamp("utc", 60_000_000 + at[-1] // 1000)
    base = SignalFact(
        signal, source, "rule", "k", "n1", "T", "utc:1", first, at[0], None, last, at[-1], "text", ()
    )  # fmt: skip
    return with_seen(merge_signals(base, base), lines)


def load(store: Store, *facts: SignalFact) -> bool:
    sources = {f.source_id: SourceFact(f.source_id, ("x",), "stream", "kern", "kernel", 1, None, "n1") for f in facts}
    return bool(store.load_facts(Facts(tuple(sources.values()), facts), cluster="c", mark=True))


@given(st.sets(st.integers(0, CELL - 1), max_size=200), st.integers(0, 2**40))
def test_packed_lines_come_back(places: set[int], cell: int) -> None:
    lines = {cell * CELL + place for place in places}
    packed = pack_lines(lines)
    assert len(packed) == 2 * len(lines)
    assert unpack_lines(packed, cell) == lines


def test_portions_in_any_order_with_repetitions(store: Store) -> None:
    rng = random.Random(7)
    lines = [n * 977 for n in range(600)]
    others = [n * 50_000 for n in range(40)]
    cuts = [portion(rng.sample(lines, rng.randint(1, 80))) for _ in range(40)]
    cuts += [portion(lines[i : i + 60]) for i in range(0, 600, 60)]
    cuts += [portion(rng.sample(others, 9), "other", "s2") for _ in range(9)] + [portion(others, "other", "s2")]
    rng.shuffle(cuts)
    for i in range(0, len(cuts), 3):
        load(store, *cuts[i : i + 3])
    assert load(store, *cuts) is False
    got = {s.signal_id: s for s in store.read_signals("c")}
    want = {s.signal_id: s for s in merge_facts([Facts(signals=tuple(cuts))]).signals}
    assert got["sig"].count == 600
    assert got["other"].count == 40
    assert {key: (s.counts, s.first, s.last, s.seen) for key, s in got.items()} == {
        key: (s.counts, s.first, s.last, ()) for key, s in want.items()
    }


def test_a_load_touches_the_cells_of_its_lines_only(store: Store) -> None:
    query = select(models.signal_lines.c.cell, models.signal_lines.c.lines)
    load(store, portion([n * 100 for n in range(20_000)]))
    with store.reading() as connection:
        before = dict(connection.execute(query).all())
    load(store, portion([5 * CELL + 1]))
    with store.reading() as connection:
        after = dict(connection.execute(query).all())
    assert len(before) == 31
    assert [cell for cell in after if after[cell] != before.get(cell)] == [5]


def test_what_is_forgotten_keeps_its_count(url: str) -> None:

    upgrade(url)
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with open_store(url, clock=lambda: now[0]) as store:
        load(store, portion([1, 2, 3]))
        now[0] += timedelta(days=3)
        load(store, portion([CELL + 5]))
        with store.writing("c") as connection:
            settle_marks(connection, "c", {"s1": 2})
        assert sweep(store, "c", 86400.0).lines == 1
        assert load(store, portion([1, 2])) is False  # late repetition: still three lines
        assert store.read_signals("c")[0].counts == ((0, 3), (1, 1))
        now[0] += timedelta(days=3)
        swept = sweep(store, "c", 86400.0)
        assert (swept.lines, swept.marks) == (2, 1)
        with store.reading() as connection:
            assert connection.execute(select(func.count()).select_from(models.signal_lines)).scalar_one() == 0
            assert undecided(connection, "c") == frozenset()
        assert load(store, portion([CELL + 6, CELL + 5])) is True
        assert store.read_signals("c")[0].counts == ((0, 3), (1, 2))
        with store.reading() as connection:
            assert undecided(connection, "c") == {"s1"}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.integers(0, 30).map(lambda n: n * 9_000), min_size=1), min_size=1, max_size=5))
def test_a_warehouse_counts_as_memory_does(tmp_path_factory: pytest.TempPathFactory, parts: list[list[int]]) -> None:

    folder = tmp_path_factory.mktemp("lines")
    with open_store(f"sqlite:///{folder / 'w.db'}", create=True) as store:
        for lines in parts:
            load(store, portion(lines))
        assert store.read_signals("c")[0].count == len({a for lines in parts for a in lines})
