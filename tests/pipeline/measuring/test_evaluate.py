"""Evaluation: what of a case the diagnosis gets to see, and how answers are read."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.measuring.evaluate import EvaluationError, evaluate, load_cases, run_case
from pipeline.measuring.scoring import Place
from schemas.diagnosis import Diagnosis

NOTHING = Diagnosis(incidents=[], health_events=[], inputs=[])


def _case(folder: Path, name: str, /, **data: object) -> Path:
    place = folder / name
    (place / "hosts").mkdir(parents=True)
    (place / "hosts" / "kern.log").write_text("a line\n")
    (place / "case.json").write_text(json.dumps(data))
    return place


def test_the_copy_has_a_neutral_name_the_file_names_and_no_answer(tmp_path: Path):
    _case(tmp_path, "gpu-hbm-hint", expected="gpu.hbm")
    seen: list[tuple[str, list[str], str]] = []

    def look(folder: Path) -> Diagnosis:
        names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        seen.append((folder.name, names, str(folder)))
        return NOTHING

    report = evaluate(tmp_path, look)
    assert [(name, files) for name, files, _ in seen] == [("input", ["hosts/kern.log"])]
    assert "hint" not in seen[0][2]
    assert not Path(seen[0][2]).exists()
    assert (report.missed, report.verdicts[0].case) == (1, "gpu-hbm-hint")


def test_a_case_is_read_with_its_place_and_its_acceptable_answers(tmp_path: Path):
    _case(
        tmp_path,
        "x",
        expected="net.nic",
        acceptable=["net.nic", "net.fabric"],
        decidable="inference",
        first_failing={"host": "n1", "rank": None},
    )
    (case,) = load_cases(tmp_path)
    assert case.expected.acceptable == {"net.nic", "net.fabric"}
    assert case.expected.first_failing == Place("n1", None, None)
    assert case.expected.decidable == "inference"


def test_first_failing_may_be_null_and_a_single_case_folder_will_do(tmp_path: Path):
    place = _case(tmp_path, "x", expected="none", first_failing=None)
    (case,) = load_cases(place)
    assert case.expected.first_failing == Place()
    assert evaluate(place, lambda _: NOTHING).strict.value == 1.0


def test_labelled_files_are_read_alone(tmp_path: Path):
    (tmp_path / "died").mkdir()
    for name in ("one.log", "two.log"):
        (tmp_path / "died" / name).write_text("text\n")
    (tmp_path / "labels_dev.tsv").write_text(
        "file\toutcome\tcomponent_class\talso_acceptable\tnote\n"
        'died/one.log\tdied\tdependency\tsoftware.bug; unknown\t"says ""gone"""\n'
        "died/two.log\tsuccess\tnone\t\t\n"
    )
    seen: list[list[str]] = []

    def look(folder: Path) -> Diagnosis:
        seen.append([p.name for p in folder.iterdir()])
        return NOTHING

    report = evaluate(tmp_path, look)
    assert seen == [["one.log"], ["two.log"]]
    assert load_cases(tmp_path)[0].expected.acceptable == {"dependency", "software.bug", "unknown"}
    assert (report.missed, report.strict.k) == (1, 1)


def test_healthy_runs_without_a_component_column_expect_no_incident(tmp_path: Path):
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "labels_dev.tsv").write_text("file\trun_stop_status\na.log\tsuccess\n")
    assert [c.expected.component for c in load_cases(tmp_path)] == ["none"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("file\tcomponent_class\nmissing.log\tnone\n", "missing.log"),
        ("id\tcomponent_class\nx\tnone\n", "column 'file'"),
        ("file\tcomponent_class\na.log\tgpu.hmb\n", "did you mean gpu.hbm"),
        ("file\trun_stop_status\na.log\tnone\n", "run_stop_status"),
    ],
)
def test_a_bad_label_table_is_named_with_its_line(tmp_path: Path, table: str, words: str):
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "labels_dev.tsv").write_text(table)
    with pytest.raises(EvaluationError, match=r"labels_dev\.tsv:2") as caught:
        load_cases(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"expected": "gpu.hmb"}', '{"expected": "none", "acceptable": 3}'])
def test_a_bad_case_file_is_named(tmp_path: Path, text: str):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "case.json").write_text(text)
    with pytest.raises(EvaluationError, match=r"x/case\.json"):
        load_cases(tmp_path)


def test_a_folder_without_cases_says_what_is_expected(tmp_path: Path):
    with pytest.raises(EvaluationError, match=r"case\.json"):
        load_cases(tmp_path)


def test_an_unreadable_case_is_a_wrong_answer_and_the_others_go_on(tmp_path: Path):
    _case(tmp_path, "a", expected="none")
    _case(tmp_path, "b", expected="none")
    count = 0

    def fail_once(folder: Path) -> Diagnosis:
        nonlocal count
        count += 1
        if count == 1:
            raise InputError("hosts/kern.log: torn")
        return NOTHING

    report = evaluate(tmp_path, fail_once)
    assert (report.errors, report.strict.k) == (1, 1)
    assert report.verdicts[0].error == "hosts/kern.log: torn"


def test_a_crash_names_its_case(tmp_path: Path):
    _case(tmp_path, "the-case", expected="none")
    (case,) = load_cases(tmp_path)

    def crash(folder: Path) -> Diagnosis:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        run_case(case, crash)
    assert caught.value.__notes__ == ["while evaluating the-case"]


def test_progress_is_told_after_each_case(tmp_path: Path):
    for name in "abc":
        _case(tmp_path, name, expected="none")
    told: list[tuple[int, int]] = []
    evaluate(tmp_path, lambda _: NOTHING, lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_the_time_of_a_case_is_measured(tmp_path: Path):
    _case(tmp_path, "a", expected="none")

    def slow(folder: Path) -> Diagnosis:
        time.sleep(0.02)
        return NOTHING

    assert 0.02 <= evaluate(tmp_path, slow).slowest_s < 5


def test_every_shared_case_loads(shared_cases: Path):
    cases = load_cases(shared_cases)
    assert len(cases) == 68
    assert sum(c.expected.component == "none" for c in cases) == 14
    assert all(c.files for c in cases)


def test_every_shared_label_table_of_runs_loads(shared_data: Path):
    runs = load_cases(shared_data / "mlperf_runs")
    assert len(runs) == 34
    assert sum(c.expected.decidable == "died" for c in runs) == 11
    bulk = load_cases(shared_data / "mlperf_bulk")
    assert len(bulk) == 336
    assert {c.expected.component for c in bulk} == {"none"}
