"""Sets of flight recorder dumps: who is accused, and that nobody else is."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from pipeline.analyse import Analysis, analyse
from pipeline.formats.flight_recorder import folded
from pipeline.joining.recorder import DumpSet, Finding, dump_sets, read_dump, unfold
from pipeline.scanning.scan import scan_paths
from schemas.facts import merge_facts
from schemas.settings import Settings
from tests.pipeline import dumps
from tests.pipeline.dumps import World, as_json, healthy, write

SETTINGS = Settings()


def findings(folder: Path) -> list[Finding]:
    out: list[Finding] = []
    for own in dump_sets(scan_paths([folder], SETTINGS).sources).values():
        out += DumpSet(d for s in own if (d := read_dump(s)) is not None).findings()
    return out


def accused(folder: Path) -> list[tuple[str, int]]:
    return [(f.kind, f.rank) for f in findings(folder)]


def decided(folder: Path) -> Analysis:
    return analyse(scan_paths([folder], SETTINGS), load_ruleset(), SETTINGS)


def stalled(gone: int = 5, *, size: int = 8) -> World:
    """A world in which one rank never comes to the last collective of its group; the rest of the world waits on."""
    world = healthy(size)
    group = "1" if gone < size // 2 else "2"
    members = world.groups[group][1]
    world.run(group, [r for r in members if r != gone], op="all_to_all", done=False)
    others = [r for r in range(size) if r not in members]
    world.run("0", others, done=False)
    return world


NAMES = ("nccl_trace_rank_{}", "gpu-17.cluster_rank_{}", "_dump_{}", "_dump_{}.json", "trace_rank{}.pkl")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("encode", [dumps.as_pickle, as_json])
@pytest.mark.parametrize("active", [False, True])
def test_the_rank_that_never_came_is_accused_and_nobody_else(name: str, encode, active: bool, tmp_path: Path):
    world = stalled(5)
    write(tmp_path / "d", {r: world.dump(r, active=active and r != 5) for r in range(8)}, name=name, encode=encode)
    assert accused(tmp_path / "d") == [("never_entered", 5)]


@pytest.mark.parametrize("gone", range(8))
def test_any_rank(gone: int, tmp_path: Path):
    world = stalled(gone)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == [("never_entered", gone)]


def test_a_hung_ranks_dump_without_entries_empty_missing_or_torn(tmp_path: Path):
    world = stalled(5)
    whole = {r: world.dump(r, active=True) for r in range(8)}
    write(tmp_path / "none", {**whole, 5: {**whole[5], "entries": []}})
    write(tmp_path / "empty", {**whole, 5: {}})
    write(tmp_path / "missing", {r: d for r, d in whole.items() if r != 5})
    write(tmp_path / "torn", whole)
    torn = tmp_path / "torn" / "nccl_trace_rank_5"
    torn.write_bytes(torn.read_bytes()[:200])
    for case in ("none", "empty", "missing", "torn"):
        assert accused(tmp_path / case) == [("never_entered", 5)], case


def test_half_a_set_accuses_nobody_for_the_dumps_that_were_not_fetched(tmp_path: Path):
    world = stalled(5)
    write(tmp_path / "d", {r: world.dump(r) for r in (0, 1, 4)})
    assert accused(tmp_path / "d") == []


def test_a_clean_set_accuses_nobody_and_makes_no_incident(tmp_path: Path):
    world = healthy()
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == []
    assert not [d for d in decided(tmp_path / "d").decisions if d.incident]


def test_ranks_absent_from_a_group_are_not_blamed_for_it(tmp_path: Path):
    """Half the world has no entry left in the default group, and waits itself for the one that hangs."""
    world = stalled(6)
    write(tmp_path / "d", {r: world.dump(r, active=True) for r in range(8) if r != 6} | {6: world.dump(6, active=True)})
    assert accused(tmp_path / "d") == [("never_entered", 6)]


def test_sends_and_receives_that_differ_are_healthy(tmp_path: Path):
    world = healthy()
    world.run("0", [0, 3], op="send 0->3", p2p=True, done=False)
    world.run("0", [3], op="recv 3<-0", p2p=True, done=False)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == []


@pytest.mark.parametrize(
    ("what", "odd"), [("op", {"op": "broadcast"}), ("size", {"size": (1024, 9)}), ("dtype", {"dtype": "Float"})]
)
def test_another_collective_another_size_another_type(what: str, odd: dict, tmp_path: Path):
    world = healthy()
    world.run("2", [4, 5, 7], done=False)
    world.run("2", [6], done=False, **odd)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == [("mismatch", 6)]
    assert f"another {what}" in findings(tmp_path / "d")[0].text
    (incident,) = [d for d in decided(tmp_path / "d").decisions if d.incident]
    assert (incident.component, incident.first_rank) == ("software.bug", 6)


def test_mismatched_order_accuses_the_rank_that_swapped(tmp_path: Path):
    world = healthy()
    for op in ("all_reduce", "_all_gather_base"):
        world.run("2", [4, 5, 7], op=op, done=False)
    for op in ("_all_gather_base", "all_reduce"):
        world.run("2", [6], op=op, done=False)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == [("mismatch", 6)]


def test_uneven_all_to_all_is_healthy(tmp_path: Path):
    world = healthy()
    for r in (4, 5, 6, 7):
        world.run("2", [r], op="all_to_all", size=(100 + r, 8), done=False)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == []


def test_a_straggler_waits_least(tmp_path: Path):
    world = healthy()
    for _ in range(8):
        world.run("1", ms={0: 50.0, 1: 51.0, 2: 4.0, 3: 50.5})
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    assert accused(tmp_path / "d") == [("slow", 2)]
    result = decided(tmp_path / "d")
    assert not [d for d in result.decisions if d.incident]
    assert [(i.event.signal, i.event.rank) for d in result.decisions for i in d.health] == [("recorder.slow_rank", 2)]


def test_the_decision_is_an_unexplained_time_out_with_the_culprits_rank(tmp_path: Path):
    world = stalled(5)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    (incident,) = [d for d in decided(tmp_path / "d").decisions if d.incident]
    assert (incident.component, incident.first_rank) == ("unknown.nccl_timeout", 5)
    assert [i.event.signal for i in incident.evidence] == ["recorder.never_entered"]


def test_the_host_of_the_culprit_comes_from_the_dumps_name_and_hardware_there_explains_it(tmp_path: Path):
    world = stalled(5)
    folder = tmp_path / "d"
    for r in range(8):
        write(folder, {r: world.dump(r)}, name=f"gpu-{r // 4}_rank_{{}}")
    kern = folder / "hosts" / "gpu-1"
    kern.mkdir(parents=True)
    (kern / "kern.log").write_text(
        "2026-03-03T04:31:10.000000+00:00 gpu-1 kernel: NVRM: Xid (PCI:0000:3c:00): 79, pid=77, name=python, "
        "GPU has fallen off the bus.\n"
    )
    (incident,) = [d for d in decided(folder).decisions if d.incident and d.kind == "job_interruption"]
    assert (incident.first_host, incident.first_rank) == ("gpu-1", 5)
    assert incident.component.startswith("gpu.")


def test_loads_in_parts_and_any_order_show_the_same(tmp_path: Path):
    world = stalled(5)
    write(tmp_path / "d", {r: world.dump(r) for r in range(8)})
    whole = scan_paths([tmp_path / "d"], SETTINGS)
    parts = [type(whole)(sources=(s,)) for s in whole.sources] * 2
    random.Random(3).shuffle(parts)
    ruleset = load_ruleset()
    again = analyse(merge_facts(parts), ruleset, SETTINGS)
    assert again.decisions == analyse(whole, ruleset, SETTINGS).decisions


@given(st.lists(st.integers(0, 3000), max_size=40))
def test_ranks_fold_and_unfold(ranks: list[int]):
    assert list(unfold(folded(ranks))) == sorted(set(ranks))


@given(st.integers(3, 10), st.data())
@settings(max_examples=25, deadline=None)
def test_whoever_stays_away_from_the_world_is_found(size: int, data):
    """In one group over the whole world, with less than half of it gone."""
    gone = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=(size - 1) // 2))
    world = World(size, {})
    for _ in range(3):
        world.run("0")
    world.run("0", [r for r in range(size) if r not in gone], done=False)
    from pipeline.formats.base import SourceInfo
    from pipeline.formats.flight_recorder import FORMATS
    from tests.pipeline.formats.framing import match_xid

    rows = []
    for r in range(size):
        raw = dumps.as_pickle(world.dump(r))
        info = SourceInfo(f"s{r}", f"x_rank_{r}", "r", len(raw), None)
        rows.extend(FORMATS[0].parse(raw, info, match_xid).sources)
    found = DumpSet(d for s in rows if (d := read_dump(s)) is not None).findings()
    assert {(f.kind, f.rank) for f in found} == {("never_entered", r) for r in gone}


@pytest.mark.parametrize(
    ("case", "answer"),
    [
        ("clean", []),
        ("missing", [("never_entered", 2)]),
        ("order", [("mismatch", 1)]),
        ("size", [("mismatch", 3)]),
    ],
)
def test_dumps_that_pytorch_wrote(case: str, answer: list[tuple[str, int]]):
    """Four ranks on gloo, torch 2.15: one stays away, one calls another collective, one gives another size."""
    assert accused(Path(__file__).parent / "recorder_dumps" / case) == answer


def test_real_sets_with_their_answers(shared_data: Path):
    base = shared_data / "flight_recorder_nvrx"
    with (base / "labels_dev.tsv").open() as rows:
        labels = list(csv.DictReader(rows, delimiter="\t"))
    assert len(labels) == 2
    for row in labels:
        want = [("never_entered", int(r)) for r in row["upstream_expected_missing"].split(",")]
        for kind in ("fr_traces", "json"):
            folder = base / kind / row["scenario"]
            assert accused(folder) == want
            (incident,) = [d for d in decided(folder).decisions if d.incident]
            assert incident.component == row["component_class"]
            assert sorted(r for i in incident.evidence for r in i.event.ranks) == [r for _, r in want]
            assert incident.first_rank == want[0][1]
