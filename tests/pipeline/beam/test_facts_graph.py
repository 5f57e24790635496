"""The facts graph as a whole: right rows on every cut, an error where anything is missing, elements by signals only."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pipeline.beam.errors import ReceiptError, RunnerError
from pipeline.beam.facts_graph import GraphReport, read_facts, run_facts_graph
from pipeline.beam.transforms import Factory
from schemas.facts import Facts, merge_facts
from tests.pipeline.beam import made_up

TEXT = "".join(f"noise {i}\n" + (f"!h{i % 3} fault {i % 5}\n" if i % 7 == 0 else "") for i in range(300))


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.log", tmp_path / "b.log"]
    paths[0].write_text(TEXT)
    paths[1].write_text(TEXT.replace("fault", "other"))
    return paths


def graph(
    paths: list[Path],
    folder: Path,
    size: int,
    scan: Factory = made_up.make_scan,
    args: tuple[str, ...] = (),
    runner: str = "FnApiRunner",
) -> tuple[GraphReport, Facts]:
    folder.mkdir()
    inputs = made_up.inputs(paths)
    report = run_facts_graph(
        inputs,
        list_ranges=partial(made_up.make_split, size),
        scan=scan,
        expected=[r for i in inputs for r, _ in made_up.split(*i, size=size)],
        folder=str(folder),
        runner=runner,
        pipeline_args=args,
        shards=2,
    )
    return report, merge_facts(read_facts(str(folder), batch=7))


@pytest.mark.parametrize("size", [100_000, 997, 130])
def test_the_cut_does_not_show(logs: list[Path], tmp_path: Path, size: int) -> None:
    _, facts = graph(logs, tmp_path / "shards", size)
    assert facts == merge_facts(made_up.facts_of(p, 0, p.stat().st_size) for p in logs)


@pytest.mark.parametrize(
    "args",
    [
        ("--direct_num_workers=2", "--direct_running_mode=multi_threading"),
        ("--direct_num_workers=2", "--direct_running_mode=multi_processing"),
        ("--direct_runner_bundle_repeat=2",),
    ],
)
def test_workers_and_repeated_bundles_do_not_show(logs: list[Path], tmp_path: Path, args: tuple[str, ...]) -> None:
    report, facts = graph(logs, tmp_path / "shards", 997, args=args)
    assert facts == merge_facts(made_up.facts_of(p, 0, p.stat().st_size) for p in logs)
    assert report.scanned_bytes == sum(p.stat().st_size for p in logs)


def test_elements_are_counted_by_signals_never_by_lines(tmp_path: Path) -> None:
    counted = {}
    for times in (1, 10):
        path = tmp_path / str(times) / "a.log"
        path.parent.mkdir()
        path.write_text("".join("noise\n" * times + f"!h1 fault {i}\n" for i in range(20)))
        report, _ = graph([path], tmp_path / f"shards{times}", 1 << 20)
        counted[times] = {k: v for k, v in report.counters.items() if not k.startswith("apache")}
    assert counted[1] == counted[10]
    assert counted[1]["ScanRanges.rows"] == 20 + 1 + 1  # signals, source, receipt
    assert counted[1]["ScanRanges.out"] <= 3  # blocks: two shards and the receipts


def test_a_sink_that_lost_rows_is_an_error(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ReceiptError, match="a sink did not run or wrote in part"):
        graph(logs, tmp_path / "shards", 997, scan=made_up.make_lie)


def test_a_range_without_a_receipt_is_an_error(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ReceiptError, match=r"missing \['a.log@0', 'b.log@0'\]"):
        graph(logs, tmp_path / "shards", 997, scan=made_up.make_silent)


def test_no_input_is_no_error(tmp_path: Path) -> None:
    report, facts = graph([], tmp_path / "shards", 997)
    assert (report.receipts, facts) == ((), Facts())


@pytest.mark.parametrize(
    ("runner", "args", "reason"),
    [
        ("DirectRunner", (), "differs by machine"),
        ("PrismRunner", (), "--prism_location"),
        ("PortableRunner", (), "--job_endpoint"),
        ("FnApiRunner", ("--runner=DirectRunner",), "--runner is among"),
        ("FnApiRunner", ("--save_main_session",), "importable"),
        ("NoSuchRunner", (), "no runner named NoSuchRunner"),
    ],
)
def test_runners_that_may_not_be_used(
    logs: list[Path], tmp_path: Path, runner: str, args: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(RunnerError, match=reason):
        graph(logs, tmp_path / "shards", 997, runner=runner, args=args)
