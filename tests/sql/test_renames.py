"""Source ids that change, torn lines that go, and times of episodes, on both databases."""

from __future__ import annotations

from schemas.facts import Facts, SignalFact, SourceFact, Stamp
from schemas.identity import signal_id, stream_id
from sql.migrations import upgrade
from sql.store import open_store

STAMP = Stamp("utc", 1_772_600_000_000_000)


def _source(sid: str, path: str, **more: object) -> SourceFact:
    return SourceFact(sid, (path,), "logs", "joblog", "job", 100, None, "", **more)  # type: ignore[arg-type]


def _signal(sid: str, torn: int = -1) -> SignalFact:
    name = signal_id(sid, "r", "", "h", "t", "b", torn)
    return SignalFact(name, sid, "r", "", "h", "t", "b", STAMP, 0, 1, STAMP, 0, "x JobId=7", (), (), ((0, 1),), torn)


def test_all_that_hangs_on_an_id_moves_with_it(url: str) -> None:
    upgrade(url)
    inner = stream_id("old", "pod/x")
    with open_store(url) as store:
        store.load_facts(
            Facts(
                sources=(
                    _source("old", "a/b_%.log", base="base", trail="t1"),
                    _source(inner, "a/b_%.log!pod/x"),
                    _source("far", "a/b__.log!pod/x"),
                ),
                signals=(_signal("old"), _signal(inner), _signal("far")),
            )
        )
        assert store.source_trails("default", {"base", "", "none"}) == {"base": {"old": "t1"}}
        moves = store.rename_sources("default", {"old": "new"}, 3)
        assert moves == {"old": "new", inner: stream_id("new", "pod/x")}
        expected = {"new", stream_id("new", "pod/x"), "far"}
        assert {s.source_id for s in store.read_sources("default")} == expected
        assert {s.signal_id for s in store.read_signals("default")} == {_signal(sid).signal_id for sid in expected}
        assert {s.source_id for s in store.read_signals_with("default", "JobId=")} == expected
        assert store.source_trails("default", {"base"}) == {"base": {"new": "t1"}}
        assert store.rename_sources("default", {}) == {}


def test_a_torn_line_goes_when_its_source_is_known_further(url: str) -> None:
    upgrade(url)
    with open_store(url) as store:
        store.load_facts(
            Facts(sources=(_source("s", "a"),), signals=(_signal("s", 100), _signal("s", 90), _signal("s")))
        )
        assert sorted(s.torn for s in store.read_signals("default")) == [-1, 100]
        touched = store.load_facts(Facts(sources=(_source("s", "a", reach=101),)))
        assert touched.source_ids == {"s"}
        assert [s.torn for s in store.read_signals("default")] == [-1]
        assert not store.load_facts(Facts(signals=(_signal("s", 100),)))


def test_times_of_episodes(url: str) -> None:
    upgrade(url)
    with open_store(url) as store:
        store.write_episodes("default", {"a": (1, 2), "b": None})
        store.write_episodes("default", {"a": (1, 5)}, ["b", "a"])
        assert store.read_episodes("default") == ({}, frozenset())  # none of them has a decision
