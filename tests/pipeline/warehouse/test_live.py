"""Deciding while facts come in gives, in the end, what deciding everything at once gives.

`FAULTBEAM_SEEDS` sets how many random cuts each site is loaded in.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from classifiers.knowledge import load_ruleset
from pipeline.scanning.scan import scan_paths
from pipeline.simulate.run import simulate
from pipeline.simulate.settings import SimSettings
from pipeline.warehouse.live import Decider
from pipeline.warehouse.redecide import redecide
from schemas.facts import Facts
from schemas.settings import Settings
from sql import models
from sql.migrations import upgrade
from sql.published import Outgoing, relay
from sql.same import dump_same
from sql.store import Store, open_store
from sql.touched import undecided
from tests.pipeline.tiny_sites import SITES, Site, write
from tests.pipeline.warehouse.killed_decider import FAR
from tests.pipeline.warehouse.pieces import pieces
from tests.sql.conftest import postgres_server, postgres_url, url  # noqa: F401 - fixtures

SEEDS = range(int(os.environ.get("FAULTBEAM_SEEDS", "2")))
RULES = load_ruleset()
NAMES = (*sorted(SITES), "slurm", "k8s")
SECOND = 1_000_000
GRACE = int(Settings().grace_s * SECOND)

Rows = dict[str, list[dict[str, object]]]


def scanned(name: str, folder: Path) -> Facts:
    """The facts of a tiny site, or of a simulated one (`slurm`, `k8s`)."""
    if name in SITES:
        return scan_paths([write(SITES[name](Site()), folder / "logs")], Settings(), RULES)
    plan = SimSettings(
        seed=7, site=name, hosts=6, spare_hosts=4, days=1.5, interruptions=9, noise_hosts=1.0, log_every=100,
        side_jobs={"completed": 2, "cancelled": 1, "timed_out": 1, "preempted": 1},
    )  # fmt: skip
    simulate(folder / "sim", plan)
    return scan_paths([folder / "sim" / "logs"], Settings(), RULES)


def at_once(facts: Facts, folder: Path) -> Rows:
    with open_store(f"sqlite:///{folder / 'once.db'}", create=True) as store:
        store.load_facts(facts)
        redecide(store, Settings(), RULES)
        return dump_same(store)


@pytest.fixture(scope="module")
def facts_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    return {name: scanned(name, tmp_path_factory.mktemp(name)) for name in NAMES}


@pytest.fixture(scope="module")
def rows_of(facts_of: dict[str, Facts], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    return {name: at_once(facts_of[name], tmp_path_factory.mktemp(name)) for name in NAMES}


@pytest.fixture
def store(url: str) -> Iterator[Store]:  # noqa: F811 - the fixture
    upgrade(url)
    with open_store(url) as opened:
        yield opened


def decider(store: Store, **more: float) -> Decider:
    return Decider(store, Settings(), RULES, settle_s=more.get("settle_s", 0.0))


def streamed(store: Store, facts: Facts, rng: random.Random, parts: int) -> None:
    """Load random pieces; decide now and then, by one decider that lives on, or one that begins anew."""
    mine = decider(store)
    for piece in pieces(facts, parts, rng, late=0.1):
        touched = sorted(store.load_facts(piece, mark=True).source_ids)
        if rng.random() < 0.2:
            mine = decider(store, settle_s=rng.choice([0.0, 3600.0]))
        if rng.random() < 0.8:
            mine.decide(rng.sample(touched, rng.randint(0, len(touched))), rng.choice([0, FAR]))
    mine.decide_pending(FAR)
    assert mine.decide_pending(FAR).decided == 0


def check(store: Store, want: Rows) -> None:
    got = dump_same(store)
    for table, rows in want.items():
        assert got[table] == rows, table
    with store.reading() as connection:
        assert undecided(connection, "default") == frozenset()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NAMES)
def test_in_pieces_is_at_once(
    name: str, seed: int, facts_of: dict[str, Facts], rows_of: dict[str, Rows], tmp_path: Path
) -> None:
    rng = random.Random(f"{name}{seed}")
    with open_store(f"sqlite:///{tmp_path / 'live.db'}", create=True) as store:
        streamed(store, facts_of[name], rng, parts=rng.randint(2, 12))
        check(store, rows_of[name])


def test_in_pieces_on_each_database(store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]) -> None:
    streamed(store, facts_of["slurm"], random.Random(5), parts=6)
    check(store, rows_of["slurm"])


def test_several_deciders_at_once(store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]) -> None:
    """Two that decide while a third one loads: none undoes what another one knew."""
    rng = random.Random(3)
    parts = list(pieces(facts_of["slurm"], 8, rng, late=0.1))
    done = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        mine = decider(store)
        try:
            while not done.is_set():
                mine.decide_pending(FAR)
        except BaseException as error:  # noqa: BLE001 - the thread's end is told to the test
            failed.append(error)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for piece in parts:
        store.load_facts(piece, mark=True)
        done.wait(0.2)
    done.set()
    for worker in workers:
        worker.join()
    assert failed == []
    decider(store).decide_pending(FAR)
    check(store, rows_of["slurm"])


@pytest.mark.parametrize("at", [1, 4, 9, 14])
def test_a_decider_that_is_killed(
    at: int,
    url: str,  # noqa: F811 - the fixture
    facts_of: dict[str, Facts],
    rows_of: dict[str, Rows],
) -> None:
    upgrade(url)
    first, second = pieces(facts_of["hbm"], 2, random.Random(at), late=0.3)
    with open_store(url) as store:
        store.load_facts(first, mark=True)
        decider(store).decide_pending(FAR)
        store.load_facts(second, mark=True)
        before = dump_same(store)
        command = [sys.executable, "-m", "tests.pipeline.warehouse.killed_decider", url, str(at)]
        child = subprocess.run(command, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        assert child.returncode == -9, child.stdout + child.stderr
        assert dump_same(store) == before  # all or nothing
        with store.reading() as connection:
            assert undecided(connection, "default")
        decider(store).decide_pending(FAR)
        check(store, rows_of["hbm"])


# --- provisional and final --------------------------------------------------------------------------------------


def end_of(rows: Rows) -> int:
    (found,) = {row["interrupted_at"] for row in rows["incidents"] if row["job_id"] == "5101"}
    assert isinstance(found, int)
    return found


def answers(store: Store) -> list[tuple[str, bool]]:
    """(component, provisional) of the stopped job's decision."""
    d = models.decisions.c
    with store.reading() as connection:
        query = select(d.component, d.provisional).where(d.job_id == "5101")
        return [(component, bool(provisional)) for component, provisional in connection.execute(query)]


def told(store: Store) -> list[tuple[str, bool]]:
    out: list[tuple[str, bool]] = []

    def send(messages: Sequence[Outgoing]) -> list[int]:
        out.extend((m.what, m.provisional) for m in messages)
        return [m.seq for m in messages]

    relay(store, send)
    return out


def test_an_answer_is_provisional_until_the_grace_is_over(
    store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]
) -> None:
    end = end_of(rows_of["hbm"])
    store.load_facts(facts_of["hbm"], mark=True)
    mine = decider(store)
    first = mine.decide_pending(end + GRACE - 1)
    assert first.provisional >= 1
    assert [c.what for c in first.changes] == ["new"]
    assert answers(store) == [("gpu.hbm", True)]
    assert told(store) == [("new", True)]
    query = select(models.decisions.c.detected_at).where(models.decisions.c.incident)
    with store.reading() as connection:
        detected = connection.execute(query).scalar()
    assert detected is not None
    assert mine.decide((), end + GRACE - 1).decided == 0
    final = mine.decide((), end + GRACE)
    assert final.decided >= 1
    assert final.changes == ()
    assert answers(store) == [("gpu.hbm", False)]
    assert told(store) == [("changed", False)]
    with store.reading() as connection:
        assert connection.execute(query).scalar() == detected


def test_another_process_finds_what_became_final(
    store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]
) -> None:
    store.load_facts(facts_of["hbm"], mark=True)
    decider(store).decide_pending(end_of(rows_of["hbm"]))
    decider(store).decide_pending(FAR)
    check(store, rows_of["hbm"])
    assert answers(store) == [("gpu.hbm", False)]


def without(facts: Facts, word: str) -> tuple[Facts, Facts]:
    """The facts without the signals that hold a word, and these signals with their sources."""
    late = tuple(s for s in facts.signals if word in s.text)
    ids = {s.source_id for s in late}
    assert late
    return (
        replace(facts, signals=tuple(s for s in facts.signals if word not in s.text)),
        Facts(sources=tuple(s for s in facts.sources if s.source_id in ids), signals=late),
    )


def test_a_late_fact_changes_a_final_answer_for_good(
    store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]
) -> None:
    early, late = without(facts_of["hbm"], "uncorrectable")
    store.load_facts(early, mark=True)
    mine = decider(store)
    mine.decide_pending(FAR)
    (before,) = answers(store)
    assert before[0] != "gpu.hbm"
    touched = store.load_facts(late, mark=True).source_ids
    done = mine.decide(touched, end_of(rows_of["hbm"]) + 1)  # replayed: event time is before the end of the grace
    assert [c.what for c in done.changes] == ["changed"]
    assert answers(store) == [("gpu.hbm", False)]
    check(store, rows_of["hbm"])


def test_a_subject_that_went_on_is_provisional_again(store: Store, facts_of: dict[str, Facts]) -> None:
    """Only the job's log is known: each longer view of it moves the end."""
    log = next(s for s in facts_of["hbm"].sources if s.inner_paths[0].endswith("slurm-5101.out"))
    mine = [s for s in facts_of["hbm"].signals if s.source_id == log.source_id]
    steps = [p for p in facts_of["hbm"].progress if p.source_id == log.source_id]
    (kind, low, _) = log.spans[0]
    part = replace(log, spans=((kind, low, low + 60 * SECOND),), size=log.size // 10)
    store.load_facts(Facts(sources=(part,), progress=tuple(steps)), mark=True)
    one = decider(store)
    one.decide_pending(FAR)
    (run,) = store.read_runs("default")
    assert run.log_end_us is not None
    store.load_facts(Facts(sources=(log,), signals=tuple(mine), progress=tuple(steps)), mark=True)
    one.decide_pending(run.log_end_us + GRACE)
    (now,) = store.read_runs("default")
    d = models.decisions.c
    with store.reading() as connection:
        assert [bool(p) for p in connection.execute(select(d.provisional)).scalars()] == [
            (now.log_end_us or 0) > run.log_end_us
        ]
    one.decide_pending(FAR)
    with store.reading() as connection:
        assert not any(connection.execute(select(d.provisional)).scalars())


# --- what is found again ----------------------------------------------------------------------------------------


def test_what_nobody_decided_is_found_at_the_start(
    store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]
) -> None:
    store.load_facts(facts_of["bug"], mark=True)
    assert decider(store, settle_s=3600.0).decide((), FAR).waiting > 0
    decider(store, settle_s=3600.0).decide_pending(FAR)
    check(store, rows_of["bug"])


class Newer:
    """The installed knowledge under a later number."""

    number = RULES.number + 1

    def __getattr__(self, name: str) -> object:
        return getattr(RULES, name)


def test_a_new_ruleset_decides_everything_once(store: Store, facts_of: dict[str, Facts]) -> None:
    store.load_facts(facts_of["idle"], mark=True)
    every = decider(store).decide_pending(FAR).decided
    newer = Decider(store, Settings(), Newer(), settle_s=0.0)  # type: ignore[arg-type]
    assert newer.decide((), FAR).decided == 0
    assert newer.decide_pending(FAR).decided == every > 0
    assert newer.decide_pending(FAR).decided == 0
    assert Decider(store, Settings(), Newer()).decide_pending(FAR).decided == 0  # type: ignore[arg-type]
    with store.reading() as connection:
        assert set(connection.execute(select(models.decisions.c.rules_version)).scalars()) == {Newer.number}


def test_a_batch_load_beside_it_is_seen(store: Store, facts_of: dict[str, Facts], rows_of: dict[str, Rows]) -> None:
    """Facts that came by `ingest` are read by a decider that was there before."""
    early, late = without(facts_of["hbm"], "uncorrectable")
    mine = decider(store)
    store.load_facts(early, mark=True)
    mine.decide_pending(FAR)
    number = store.begin_ingest("default", {})
    touched = store.load_facts(late, number).source_ids
    redecide(store, Settings(), RULES, touched)
    store.finish_ingest(number, {})
    mine.decide_pending(FAR)
    check(store, rows_of["hbm"])


def test_a_call_costs_by_what_changed(tmp_path: Path, facts_of: dict[str, Facts]) -> None:
    """One host says something new: no other job is decided again, and no other source read."""
    facts = facts_of["slurm"]
    with open_store(f"sqlite:///{tmp_path / 'cost.db'}", create=True) as store:
        store.load_facts(facts, mark=True)
        mine = decider(store)
        everything = mine.decide_pending(FAR).decided
        late = max((s for s in facts.signals if s.first.kind == "utc"), key=lambda s: s.first.us)
        source = next(s for s in facts.sources if s.source_id == late.source_id)
        stamp = late.first._replace(us=late.first.us + 4000 * SECOND)
        news = replace(late, signal_id="news", first=stamp, last=stamp, bucket="utc:news")
        low = min(lo for _, lo, _ in source.spans)
        longer = replace(source, size=source.size + 100, spans=(("utc", low, stamp.us),))
        touched = store.load_facts(Facts(sources=(longer,), signals=(news,)), mark=True).source_ids
        done = mine.decide(touched, FAR)
        assert 0 < done.decided <= 3 < everything
        got = dump_same(store)
        redecide(store, Settings(), RULES)
        assert dump_same(store) == got
