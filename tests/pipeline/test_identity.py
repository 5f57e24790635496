"""Two different files never share a source, in one load or in many, in any order; a file that grows stays one."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.diagnose import diagnose
from pipeline.warehouse.ingest import ingest
from schemas.settings import Settings
from schemas.trail import STEP, assign, trail
from sql.store import open_store
from tests.pipeline.loading import EXAMPLES, decisions, rows, same, url
from tests.pipeline.tiny_sites import write

few = hypothesis_settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

BANNER = "".join(f"loading module {n} of the training image\n" for n in range(9))


def _log(steps: int, error: str, minute: int) -> str:
    lines = [f"[2026-03-04 10:{minute + n:02d}:00] iteration {n + 1:8d}/ 1000 | loss: 2.1" for n in range(steps)]
    lines.append(f"[2026-03-04 10:{minute + steps:02d}:00] {error}")
    return BANNER + "\n".join(lines) + "\n"


LOGS = {
    "a": _log(12, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", 1),
    "b": _log(9, "RuntimeError: CUDA error: an illegal memory access was encountered", 30),
    "c": _log(20, "ValueError: could not convert string to float: 'x'", 7),
}


def _load(warehouse: str, folder: Path, number: int, logs: dict[str, str]) -> None:
    """Each log as `run/job.log` below a root of its own, in one load."""
    roots = [write({"run/job.log": text}, folder / f"{number}-{name}" / "logs") for name, text in sorted(logs.items())]
    ingest(roots, warehouse, Settings())


def _beginning(text: str, share: float) -> str:
    return text[: max(len(BANNER) // 2, int(len(text) * share))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """All three at once."""
    folder = tmp_path_factory.mktemp("whole")
    _load(url(folder), folder, 0, LOGS)
    found = {row["source_id"] for row in rows(url(folder))["signals"]}
    assert len(found) == 3
    return same(url(folder))


@pytest.mark.parametrize("order", list(permutations(sorted(LOGS))), ids="".join)
def test_one_by_one_in_any_order(order: tuple[str, ...], whole: bytes, tmp_path: Path) -> None:
    for number, name in enumerate(order):
        _load(url(tmp_path), tmp_path, number, {name: LOGS[name]})
    assert same(url(tmp_path)) == whole


@few
@given(
    views=st.permutations([(n, s) for n in sorted(LOGS) for s in (True, False)]),
    shares=st.tuples(*[st.floats(0.0, 1.0)] * 3),
)
def test_with_growth_in_between(
    views: list[tuple[str, bool]],
    shares: tuple[float, float, float],
    whole: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Beginnings, also such as are those of all logs, before or after or between the whole logs."""
    folder = tmp_path_factory.mktemp("growth")
    share = dict(zip(sorted(LOGS), shares, strict=True))
    for number, (name, cut) in enumerate(views):
        _load(url(folder), folder, number, {name: _beginning(LOGS[name], share[name]) if cut else LOGS[name]})
    assert same(url(folder)) == whole


def test_diagnose_with_a_warehouse_tells_them_apart(tmp_path: Path) -> None:
    _load(url(tmp_path), tmp_path, 0, {"a": LOGS["a"]})
    alone = write({"run/job.log": LOGS["b"]}, tmp_path / "alone" / "logs")
    with open_store(url(tmp_path)) as store:
        (mine,) = diagnose([alone], Settings(), store=store).document.incidents
    (plain,) = diagnose([alone], Settings()).document.incidents
    assert (mine.component, mine.cause, mine.started_at) == (plain.component, plain.cause, plain.started_at)
    assert [e.text for e in mine.evidence] == [e.text for e in plain.evidence]
    _load(url(tmp_path), tmp_path, 1, {"b": LOGS["b"]})
    stored = {d.incident_id for d in decisions(url(tmp_path)) if d.incident}
    assert mine.incident_id in stored
    assert len(stored) == 2


def test_labels_follow_an_id_that_was_split(tmp_path: Path) -> None:
    _load(url(tmp_path), tmp_path, 0, {"a": LOGS["a"]})
    (old,) = [d for d in decisions(url(tmp_path)) if d.incident]
    with open_store(url(tmp_path)) as store:
        store.add_label(old.incident_id, "software.bug")
    _load(url(tmp_path), tmp_path, 1, {"b": LOGS["b"]})
    with open_store(url(tmp_path)) as store:
        (label,) = store.current_labels()
        now = store.read_decision(old.incident_id)
    assert now.incident_id == label != old.incident_id
    assert now.evidence[0].event.text == old.evidence[0].event.text


TEXTS = st.lists(st.sampled_from(["x\n", "yy\n", "z" * 3000 + "\n"]), max_size=8).map("".join).map(str.encode)


@given(text=TEXTS, cut=st.integers(0, 30_000))
def test_the_trail_of_a_beginning_is_the_beginning_of_the_trail(text: bytes, cut: int) -> None:
    assert trail(text).startswith(trail(text[:cut]))
    assert len(trail(text)) % STEP == 0


@given(texts=st.lists(TEXTS, min_size=1, max_size=6), data=st.data())
def test_ids_depend_on_the_set_and_tell_all_apart(texts: list[bytes], data: st.DataObject) -> None:
    trails = [trail(t) for t in texts]
    ids = assign("base", trails)
    assert ids == assign("base", data.draw(st.permutations([*trails, *trails])))
    ends = [t for t in set(trails) if not any(o != t and o.startswith(t) for o in trails)]
    assert len({ids[t] for t in ends}) == len(ends)
    for t in trails:
        assert any(ids[e] == ids[t] for e in ends if e.startswith(t))
    # what is no more than the beginning of one of them changes no id
    fewer = assign("base", ends)
    assert all(fewer[e] == ids[e] for e in ends)
