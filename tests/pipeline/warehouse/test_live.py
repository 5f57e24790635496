"""Deciding while facts come in gives, in the end, what deciding everything at once gives."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from classifiers.knowledge import load_ruleset
from pipeline.scanning.scan import scan_paths
from pipeline.simulate.run import simulate
from pipeline.simulate.settings import SimSettings
from pipeline.warehouse.live import Decider
from pipeline.warehouse.redecide import redecide
from schemas.facts import Facts
from schemas.settings import Settings
from sql.same import dump_same
from sql.store import Store, open_store
from tests.pipeline.tiny_sites import SITES, Site, write
from tests.pipeline.warehouse.pieces import pieces

SEEDS = range(int(os.environ.get("FAULTBEAM_SEEDS", "3")))
FAR = 1 << 60
RULES = load_ruleset()


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


@pytest.fixture(scope="module")
def facts_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    return {name: scanned(name, tmp_path_factory.mktemp(name)) for name in (*sorted(SITES), "slurm", "k8s")}


def at_once(facts: Facts, folder: Path) -> dict[str, list[dict[str, object]]]:
    with open_store(f"sqlite:///{folder / 'once.db'}", create=True) as store:
        store.load_facts(facts)
        redecide(store, Settings(), RULES)
        return dump_same(store)


def streamed(store: Store, facts: Facts, rng: random.Random, parts: int) -> None:
    """Load random pieces; decide now and then, by one decider that lives on, or one that begins anew."""
    decider = Decider(store, Settings(), RULES, settle_s=0.0)
    for piece in pieces(facts, parts, rng, late=0.1):
        touched = sorted(store.load_facts(piece, mark=True).source_ids)
        if rng.random() < 0.2:
            decider = Decider(store, Settings(), RULES, settle_s=rng.choice([0.0, 3600.0]))
        if rng.random() < 0.8:
            decider.decide(rng.sample(touched, rng.randint(0, len(touched))), rng.choice([0, FAR]))
    decider.decide_pending(FAR)
    assert decider.decide_pending(FAR).decided == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [*sorted(SITES), "slurm", "k8s"])
def test_in_pieces_is_at_once(name: str, seed: int, facts_of: dict[str, Facts], tmp_path: Path) -> None:
    rng = random.Random(f"{name}{seed}")
    with open_store(f"sqlite:///{tmp_path / 'live.db'}", create=True) as store:
        streamed(store, facts_of[name], rng, parts=rng.randint(2, 12))
        got = dump_same(store)
    want = at_once(facts_of[name], tmp_path)
    for table, rows in want.items():
        assert got[table] == rows, table
