"""Which subjects a load may have changed: never too few."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.placing.clock import Clock
from pipeline.warehouse.affected import Scope, affected_episodes, affected_runs, join_spans, scope_of, source_span
from schemas.facts import SourceFact
from schemas.settings import Settings
from schemas.subject import Event, JobRun, Subject

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
SETTINGS = Settings()


def run(key: str, start: int, end: int, **more: object) -> JobRun:
    made = JobRun(
        run_key=key, scheduler="slurm", cluster="", job_id=key, attempt=0, start_us=start, end_us=end, end_known=True,
        state="FAILED", exit_code=1, exit_signal=None, nodes=("n1",), n_nodes=1, n_gpus=None, user="", account="",
        name="", reason="", source_ids=(),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def source(sid: str, low: int, high: int, root: str = "logs", kind: str = "utc") -> SourceFact:
    return SourceFact(sid, (sid,), root, "kern", "kernel", 1, None, "", ((kind, low, high),))


def episode(key: str, low: int | None, high: int | None) -> Subject:
    made = Event(
        id=key, signal="s", rule="r", component="c", role="cause", severity="error", fatal="y",
        t=None if low is None else low / 1e6, t_last=None if high is None else high / 1e6, unc=1.0, host="h", device="",
        rank=None, ranks=(), n_ranks=0, source="", source_id="", family="kernel", offset=0, last_offset=0, line=None,
        count=1, text="",
    )  # fmt: skip
    return Subject(key=key, kind="host_fault", run=None, events=(made,), host="h")


NOW = 400 * DAY
CLOCKS = {"old": Clock(host="n1"), "new": Clock(host="n1")}


def scope(low: int, high: int) -> Scope:
    sources = [source("old", NOW - DAY, NOW), source("new", low, high)]
    return scope_of({"new"}, sources, CLOCKS, [], [], SETTINGS)


@pytest.mark.parametrize(
    ("start", "end", "hit"),
    [
        (NOW - 20 * MINUTE, NOW - 4 * MINUTE, True),  # its window reaches 5 min behind its end
        (NOW + 1, NOW + DAY, True),
        (NOW + 27 * DAY, NOW + 29 * DAY, True),  # as history
        (NOW + 40 * DAY, NOW + 41 * DAY, False),
        (NOW - 3 * DAY, NOW - 2 * DAY, False),
    ],
)
def test_runs_by_time(start: int, end: int, hit: bool) -> None:
    found = affected_runs(scope(NOW, NOW + MINUTE), [run("a", start, end)], SETTINGS)
    assert (found == {"a"}) is hit


def test_a_run_without_times_is_always_in() -> None:
    loose = run("a", NOW, NOW, start_us=None, end_us=None)
    assert affected_runs(scope(NOW, NOW), [loose], SETTINGS) == {"a"}


def test_a_changed_run_takes_its_relatives_along() -> None:
    far = NOW - 300 * DAY
    old, new = run("a", far, far + MINUTE), run("a", far, far + 2 * MINUTE)
    sibling = run("b", far - 90 * DAY, far - 89 * DAY, job_id="a")
    other = run("c", far - 90 * DAY, far - 89 * DAY)
    found = scope_of(set(), [source("old", NOW, NOW)], CLOCKS, [old, sibling, other], [new, sibling, other], SETTINGS)
    assert affected_runs(found, [new, sibling, other], SETTINGS) == {"a", "b"}


def test_nothing_touched_nothing_decided() -> None:
    runs = [run("a", NOW, NOW + 1)]
    found = scope_of(set(), [source("old", NOW, NOW)], CLOCKS, runs, runs, SETTINGS)
    assert found.empty
    assert affected_runs(found, runs, SETTINGS) == frozenset()


def test_a_new_host_in_a_known_root_is_told_to_all() -> None:
    sources = [source("old", NOW, NOW), source("new", NOW, NOW)]
    clocks = {"old": Clock(host="n1"), "new": Clock(host="n2")}
    assert scope_of({"new"}, sources, clocks, [], [], SETTINGS).everything


def test_a_source_without_a_clock_reaches_its_root() -> None:
    sources = [source("old", NOW, NOW), source("new", 5, 9, kind="mono")]
    found = scope_of({"new"}, sources, CLOCKS, [], [], SETTINGS)
    assert found.span is None
    mine, other = run("a", NOW, NOW + 1, roots=("logs",)), run("b", NOW, NOW + 1, roots=("elsewhere",))
    assert affected_runs(found, [mine, other], SETTINGS) == {"a"}


def test_episodes_grow_the_scope_until_none_sticks_out() -> None:
    chain = [episode(f"e{i}", NOW + 20 * i * MINUTE, NOW + (20 * i + 10) * MINUTE) for i in range(5)]
    far, timeless = episode("far", NOW + DAY, NOW + DAY), episode("timeless", None, None)
    hit, grown = affected_episodes(Scope(span=(NOW, NOW + 1)), [*chain, far, timeless], SETTINGS)
    assert {s.key for s in hit} == {"e0", "e1", "e2", "e3", "e4", "timeless"}
    assert grown.span == (NOW, NOW + 90 * MINUTE)


def test_spans() -> None:
    assert join_spans([None, (3, 4), (1, 2)]) == (1, 4)
    assert join_spans([None]) is None
    assert source_span(source("s", 5, 9), Clock()) == (5, 9)
    assert source_span(source("s", 5, 9, kind="mono"), Clock()) is None
