"""What batch loading promises, on tiny sites: order, repetition, split, overlap, cut, workers and database never show.

`FAULTBEAM_EXAMPLES` sets how many cases each property gets.
"""

from __future__ import annotations

import tarfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.diagnose import diagnose
from pipeline.warehouse.ingest import ingest, reattribute
from schemas.settings import Settings
from sql.migrations import upgrade
from tests.pipeline.loading import EXAMPLES, decisions, ids, load, rows, same, site, url
from tests.pipeline.tiny_sites import SITES, Files, write
from tests.sql.conftest import postgres_server, postgres_url  # noqa: F401 - fixtures

NAMES = sorted(SITES)
few = hypothesis_settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What one plain ingest of each site gives."""
    out = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        load(url(folder), folder, site(name))
        out[name] = same(url(folder))
        assert b"job_interruption" in out[name]
    return out


@pytest.mark.parametrize("name", NAMES)
def test_twice_is_once(name: str, plain: dict[str, bytes], tmp_path: Path) -> None:
    for _ in range(2):
        result = load(url(tmp_path), tmp_path, site(name))
    assert same(url(tmp_path)) == plain[name]
    assert (result.decided, result.changed) == (0, [])


@st.composite
def _splits(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """A site and its files in two or three loads, in any order; any file may be in several."""
    name = draw(st.sampled_from(NAMES))
    n = draw(st.integers(2, 3))
    loads: list[list[str]] = [[] for _ in range(n)]
    for path in sorted(site(name)):
        for i in draw(st.sets(st.integers(0, n - 1), min_size=1)):
            loads[i].append(path)
    return name, loads


@few
@given(split=_splits())
def test_any_split_and_overlap(
    split: tuple[str, list[list[str]]], plain: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, loads = split
    folder = tmp_path_factory.mktemp("split")
    files = site(name)
    for paths in loads:
        load(url(folder), folder, {p: files[p] for p in paths})
    assert same(url(folder)) == plain[name]


@few
@given(
    days=st.tuples(*[st.integers(0, 70)] * 3),
    order=st.permutations(range(6)),
    roots=st.booleans(),
)
def test_what_a_load_does_not_touch_need_not_be_decided(
    days: tuple[int, int, int], order: list[int], roots: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Three sites, months apart, in six loads: each decides only what it may have changed; the rows are as of one."""
    parts: list[Files] = []
    for name, day in zip(NAMES, days, strict=True):
        files = {p.replace("sacct", f"sacct-{name}"): text for p, text in site(name, shift=timedelta(days=day)).items()}
        hosts = {p: text for p, text in files.items() if p.startswith("hosts/")}
        parts += [hosts, {p: text for p, text in files.items() if p not in hosts}]
    folder = tmp_path_factory.mktemp("months")
    root = [NAMES[i // 2] if roots else "logs" for i in range(6)]
    for number in order:
        ingest([write(parts[number], folder / f"part-{number}" / root[number])], url(folder), Settings())
    for number in range(6):
        write(parts[number], folder / "whole" / root[number])
    ingest(sorted((folder / "whole").iterdir()), url(folder, "whole"), Settings())
    assert same(url(folder)) == same(url(folder, "whole"))


@few
@given(name=st.sampled_from(NAMES), share=st.floats(0.05, 0.95))
def test_late_data(name: str, share: float, plain: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every log arrives cut, then whole: what was decided on the first part is decided again."""
    folder = tmp_path_factory.mktemp("late")
    files = site(name)
    early = {p: text if p.startswith("slurm/") else _beginning(text, share) for p, text in files.items()}
    load(url(folder), folder, early)
    load(url(folder), folder, files)
    assert same(url(folder)) == plain[name]


def _beginning(text: str, share: float) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[: max(1, int(len(lines) * share))])


def _big(name: str) -> Files:
    """Kernel logs of several 64 KiB cells."""
    return site(name, noise_lines=3000)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("big")
    result = load(url(folder), folder, _big("hbm"))
    assert result.ranges == result.sources
    return same(url(folder))


@few
@given(cells=st.integers(1, 4))
def test_the_cut_does_not_show(cells: int, big: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cut")
    result = load(url(folder), folder, _big("hbm"), Settings(range_bytes=cells * 65536))
    assert result.ranges > result.sources
    assert same(url(folder)) == big


@pytest.mark.parametrize("mode", ["multi_threading", "multi_processing"])
def test_two_workers_do_not_show(mode: str, big: bytes, tmp_path: Path) -> None:
    args = ("--direct_num_workers=2", f"--direct_running_mode={mode}")
    load(url(tmp_path), tmp_path, _big("hbm"), Settings(range_bytes=65536), args)
    assert same(url(tmp_path)) == big


@pytest.mark.parametrize("name", NAMES)
def test_postgresql_is_sqlite(
    name: str,
    plain: dict[str, bytes],
    tmp_path: Path,
    postgres_url: str,  # noqa: F811
) -> None:
    upgrade(postgres_url)
    load(postgres_url, tmp_path, site(name))
    assert same(postgres_url) == plain[name]


@pytest.mark.parametrize("name", NAMES)
def test_ingest_is_diagnose(name: str, tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, site(name))
    root = write(site(name), tmp_path / "logs")
    answer = diagnose([root], Settings())
    assert ids(decisions(url(tmp_path))) == ids(answer.analysis.decisions)


@pytest.mark.parametrize("name", NAMES)
def test_deciding_everything_again_changes_nothing(name: str, plain: dict[str, bytes], tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, site(name))
    result = reattribute(url(tmp_path), Settings())
    assert result.decided == len(decisions(url(tmp_path))) > 0
    assert len(result) == 0
    assert same(url(tmp_path)) == plain[name]


def test_a_host_fault_goes_when_its_job_is_known(plain: dict[str, bytes], tmp_path: Path) -> None:
    files = site("hbm")
    kernel = {p: text for p, text in files.items() if p.startswith("hosts/")}
    load(url(tmp_path), tmp_path, kernel)
    before = [d for d in decisions(url(tmp_path)) if d.incident]
    assert {d.kind for d in before} == {"host_fault"}
    assert "gpu.hbm" in {d.component for d in before}
    result = load(url(tmp_path), tmp_path, {p: text for p, text in files.items() if p not in kernel})
    after = [d for d in decisions(url(tmp_path)) if d.incident]
    assert [(d.kind, d.component) for d in after] == [("job_interruption", "gpu.hbm")]
    assert {c.what for c in result.changed} == {"new", "retracted"}
    assert same(url(tmp_path)) == plain["hbm"]


def test_a_run_known_from_its_log_is_adopted_by_its_record(plain: dict[str, bytes], tmp_path: Path) -> None:
    files = site("bug")
    logs = {p: text for p, text in files.items() if p.startswith("jobs/")}
    load(url(tmp_path), tmp_path, logs)
    before = {row["run_key"] for row in rows(url(tmp_path))["job_runs"]}
    assert before
    load(url(tmp_path), tmp_path, {p: text for p, text in files.items() if p not in logs})
    after = {row["run_key"] for row in rows(url(tmp_path))["job_runs"]}
    assert not before & after
    assert same(url(tmp_path)) == plain["bug"]


@pytest.mark.parametrize("packing", ["w:gz", "w:xz", "w"])
def test_an_archive_is_its_files(packing: str, plain: dict[str, bytes], tmp_path: Path) -> None:
    """All members of a packed archive go to one worker, and every one leaves its receipt."""
    unpacked = write(site("idle"), tmp_path / "unpacked")
    (tmp_path / "logs").mkdir()
    archive = tmp_path / "logs" / f"site.tar{packing[1:].replace(':', '.')}"
    with tarfile.open(archive, packing) as tar:  # type: ignore[call-overload]
        for path in sorted(p for p in unpacked.rglob("*") if p.is_file()):
            tar.add(path, path.relative_to(unpacked).as_posix())
    result = ingest([archive], url(tmp_path), Settings())
    assert result.ranges == result.sources == len(site("idle"))
    assert result.bytes == sum(len(text) for text in site("idle").values())
    assert same(url(tmp_path)) == plain["idle"]


def test_what_cannot_be_read_is_told_and_the_rest_is_done(plain: dict[str, bytes], tmp_path: Path) -> None:
    root = write(site("bug"), tmp_path / "logs")
    (root / "broken.tar.gz").write_bytes(b"\x1f\x8b\x08\x00garbage" * 40)
    (root / "core.bin").write_bytes(bytes(range(256)) * 64)
    result = ingest([root], url(tmp_path), Settings())
    assert {q.path for q in result.quarantine} == {"broken.tar.gz", "core.bin"}
    kept = [line for line in same(url(tmp_path)).splitlines() if not line.startswith(b"sources")]
    assert kept == plain["bug"].splitlines()


def test_sites_of_two_clusters_in_one_warehouse_do_not_meet(plain: dict[str, bytes], tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, site("idle"), Settings(cluster="other"))
    load(url(tmp_path), tmp_path, site("hbm"))
    found = {(row["cluster"], row["component"]) for row in rows(url(tmp_path))["incidents"] if row["incident"]}
    assert ("default", "gpu.hbm") in found
    assert ("other", "gpu.nvlink") in found
    assert len([c for c, _ in found if c == "default"]) == 1
