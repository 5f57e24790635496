"""What streams changed: marks in the transaction of the facts, settled by whoever decided just that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.facts import Facts
from sql.changed import undecided_signals
from sql.load import load_facts
from sql.store import Store
from sql.touched import generation, marks_of, marks_since, next_generation, reopen_since, settle_marks, undecided
from tests.sql.test_lines import SOURCE, portion


def load(store: Store, lines: list[int], size: int) -> None:
    store.load_facts(Facts((replace(SOURCE, size=size),), (portion(lines, f"sig{size}"),)), cluster="c", mark=True)


def test_a_load_that_is_not_marked_leaves_no_mark(store: Store) -> None:
    store.load_facts(Facts((SOURCE,), (portion([1]),)), cluster="c")
    with store.reading() as connection:
        assert undecided(connection, "c") == frozenset()
        assert undecided_signals(connection, "c", ["s1"]) == []


def test_only_what_was_read_is_settled(store: Store) -> None:
    load(store, [1], 10)
    with store.reading() as connection:
        seen = marks_of(connection, "c", ["s1", "other"])
    load(store, [2], 20)
    with store.writing("c") as connection:
        settle_marks(connection, "c", {sid: m.mark for sid, m in seen.items()})
    with store.reading() as connection:
        assert undecided(connection, "c") == {"s1"}
        assert [s.signal_id for s in undecided_signals(connection, "c", ["s1"])] == ["sig20"]
        now = marks_of(connection, "c", ["s1"])["s1"]
    assert (now.mark, now.decided) == (2, 1)
    with store.writing("c") as connection:
        settle_marks(connection, "c", {"s1": now.mark})
        settle_marks(connection, "c", {"s1": 1})  # somebody slow: nothing is taken back
    with store.reading() as connection:
        assert undecided(connection, "c") == frozenset()


def test_a_load_that_changes_nothing_is_not_to_be_decided(store: Store) -> None:
    load(store, [1], 10)
    with store.writing("c") as connection:
        settle_marks(connection, "c", {"s1": 1})
    load(store, [1], 10)
    with store.reading() as connection:
        assert undecided(connection, "c") == frozenset()


def test_a_mark_goes_with_its_facts_or_not_at_all(store: Store) -> None:
    def fails_after_its_load() -> None:
        with store.writing() as connection:
            load_facts(connection, Facts((SOURCE,), (portion([1]),)), 0, "c", 1, mark=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_after_its_load()
    with store.reading() as connection:
        assert marks_since(connection, "c", None) == {}
        assert store.read_signals("c") == ()


def test_marks_since_a_time_hold_all_undecided_ones(store: Store) -> None:
    load(store, [1], 10)
    with store.reading() as connection:
        at = marks_since(connection, "c", None)["s1"].changed_us
        assert marks_since(connection, "c", at + 1).keys() == {"s1"}
    with store.writing("c") as connection:
        settle_marks(connection, "c", {"s1": 1})
    with store.reading() as connection:
        assert marks_since(connection, "c", at + 1) == {}
        assert marks_since(connection, "c", at).keys() == {"s1"}
        assert marks_since(connection, "elsewhere", None) == {}
    with store.writing("c") as connection:
        reopen_since(connection, "c", at)
    with store.reading() as connection:
        assert undecided(connection, "c") == {"s1"}


def test_who_decided_from_old_facts_sees_it(store: Store) -> None:
    with store.reading() as connection:
        seen = generation(connection, "c")
    with store.writing("c") as connection:
        assert next_generation(connection, "c", seen)
    with store.writing("c") as connection:
        assert not next_generation(connection, "c", seen)
        assert generation(connection, "c") == seen + 1
        assert generation(connection, "other") == 0
