"""The simulated cluster: deterministic, true to its settings, without its truth in the logs."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.main import cli
from pipeline.simulate import load_settings, simulate
from pipeline.simulate.other_wording import OTHER_STORIES
from pipeline.simulate.plan import make_plan
from pipeline.simulate.run import check
from pipeline.simulate.settings import HSDP_MIX, LLAMA3_MIX, PRESETS, SimulateError
from pipeline.simulate.truth import totals
from pipeline.simulate.wording import STORIES, story


def _bytes(root: Path) -> dict[str, str]:
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sim") / "out"
    simulate(out, load_settings("small"))
    return out


def test_equal_seeds_give_equal_bytes_and_other_seeds_other_ones(small: Path, tmp_path: Path) -> None:
    simulate(tmp_path / "again", load_settings("small"))
    simulate(tmp_path / "other", load_settings("small", seed=2))
    assert _bytes(small) == _bytes(tmp_path / "again")
    assert _bytes(small) != _bytes(tmp_path / "other")


@pytest.mark.parametrize(("site", "wording"), [("slurm", "usual"), ("k8s", "usual"), ("slurm", "other")])
def test_no_truth_in_the_logs_and_the_check_can_fail(site: str, wording: str, tmp_path: Path) -> None:
    out = tmp_path / "sim"
    simulate(out, load_settings("small", site=site, wording=wording))
    assert check(out) == []
    victim = next(p for p in sorted((out / "logs").rglob("*")) if p.is_file())
    with victim.open("a", encoding="utf-8") as more:
        more.write("the answer is gpu.hbm\n")
    assert [line.rsplit(": ", 1)[1] for line in check(out)] == ["gpu.hbm"]


def test_the_preset_of_table_5_has_its_counts() -> None:
    plan = make_plan(load_settings("llama3-54d"))
    sums = totals(plan)
    assert (sums["gpus"], sums["interruptions"], sums["unexpected"], sums["planned"]) == (16_384, 466, 419, 47)
    assert sums["by_component"] == LLAMA3_MIX
    assert sums["mttf_hours"] == pytest.approx(3.093, abs=0.001)
    assert sum(LLAMA3_MIX.values()) == 419
    assert 0.88 < sums["effective_training_time"] < 0.93


def test_the_later_mix_sums_to_its_events() -> None:
    assert sum(HSDP_MIX.values()) == 678
    assert totals(make_plan(load_settings("hsdp-mix")))["unexpected"] == 678


def test_totals_are_those_of_the_attempts() -> None:
    plan = make_plan(load_settings("small"))
    s = plan.settings
    kept = plan.attempts[-1].last_step * s.step_s
    assert plan.useful_s == pytest.approx(kept, rel=1e-6)
    lost = sum(a.last_step - max((n for _, _, n in a.saves), default=a.first_step - 1) for a in plan.attempts[:-1])
    assert sum(plan.lost_s) == pytest.approx(lost * s.step_s)
    for before, after in zip(plan.attempts, plan.attempts[1:], strict=False):
        assert before.end <= after.queued
        assert after.first_step <= before.last_step + 1


def test_start_up_checkpoints_and_gaps_are_drawn_as_set() -> None:
    plan = make_plan(load_settings("llama3-54d"))
    saves = sorted(sec for a in plan.attempts for _, sec, _ in a.saves)
    assert saves[len(saves) // 2] == pytest.approx(6.0, rel=0.02)
    gaps = sorted(
        b.onset - a.onset for a, b in zip(plan.attempts, plan.attempts[1:], strict=False) if a.onset and b.onset
    )
    # Times between failures are exponential but for the start-up that keeps them apart: median = mean x ln 2.
    mean = sum(gaps) / len(gaps)
    shifted = [g - min(gaps) for g in gaps]
    assert sorted(shifted)[len(gaps) // 2] / (mean - min(gaps)) == pytest.approx(0.693, abs=0.12)


@pytest.mark.parametrize("wording", ["usual", "other"])
def test_every_cause_can_be_told_and_in_more_than_one_wording(wording: str) -> None:
    s = load_settings("small", seed=3, wording=wording)
    plan = make_plan(s)
    sample = next(a for a in plan.attempts if a.kind == "unexpected")
    from dataclasses import replace

    for component in STORIES:
        texts = {
            tuple(
                x.text
                for x in story(replace(sample, component=component, variant=v, host=1, gpu=2), s, lambda h: f"n{h}")
            )
            for v in range(12)
        }
        assert component == "unknown" or len(texts) > 2, component
    assert set(LLAMA3_MIX) | set(HSDP_MIX) <= set(STORIES)
    assert set(STORIES) == set(OTHER_STORIES)


def test_the_other_wording_shares_few_lines_with_the_usual_one() -> None:
    from dataclasses import replace

    plan = make_plan(load_settings("small", seed=3))
    sample = next(a for a in plan.attempts if a.kind == "unexpected")

    def masked(wording: str) -> set[str]:
        s = load_settings("small", seed=3, wording=wording)
        told = (
            line.text
            for component in STORIES
            for v in range(40)
            for line in story(replace(sample, component=component, variant=v, host=1, gpu=2), s, lambda h: f"n{h}")
        )
        return {re.sub(r"(?:0x)?[0-9a-f]*\d[0-9a-f]*", "#", text) for text in told}

    usual, other = masked("usual"), masked("other")
    assert len(other) > 60
    # what is in both: heads of tracebacks, and messages that did not change over the versions
    assert len(usual & other) < 0.12 * len(other), sorted(usual & other)


def test_truth_has_a_row_an_attempt(small: Path) -> None:
    with (small / "truth" / "attempts.tsv").open(encoding="utf-8") as rows:
        attempts = list(csv.DictReader(rows, delimiter="\t"))
    told = json.loads((small / "truth" / "totals.json").read_text())
    kinds = Counter(a["kind"] for a in attempts)
    assert kinds["unexpected"] == told["unexpected"] == PRESETS["small"]["interruptions"]
    assert kinds["planned"] == told["planned"]
    jobs = {p.name for p in (small / "logs" / "jobs").iterdir()}
    assert {a["job_id"] for a in attempts} == jobs
    assert not (small / "truth").is_relative_to(small / "logs")


def test_withheld_hosts_have_no_kernel_log(tmp_path: Path) -> None:
    simulate(tmp_path / "sim", load_settings("small", withheld=0.5))
    with (tmp_path / "sim" / "truth" / "attempts.tsv").open(encoding="utf-8") as rows:
        attempts = list(csv.DictReader(rows, delimiter="\t"))
    hidden = {a["host"] for a in attempts if a["logs_withheld"] == "1"}
    assert hidden
    assert not hidden & {p.name for p in (tmp_path / "sim" / "logs" / "hosts").iterdir()}


@pytest.mark.parametrize(
    ("over", "word"),
    [
        ({"mix": {"gpu.magic": 1}}, "gpu.magic"),
        ({"mix": {"scheduler.cancelled": 1}}, "side_jobs"),
        ({"interruptions": 5000}, "do not fit"),
        ({"exact_mix": True, "mix": {"gpu.hbm": 3}}, "exact_mix"),
        ({"days": -1}, "days"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_settings_say_what_is_wrong(over: dict[str, object], word: str) -> None:
    with pytest.raises(SimulateError, match=word):
        load_settings("small", **over)


def test_bad_files_zones_and_folders_say_what_is_wrong(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("days: [", encoding="utf-8")
    with pytest.raises(SimulateError, match="no YAML"):
        load_settings(None, bad)
    bad.write_text("- 1\n", encoding="utf-8")
    with pytest.raises(SimulateError, match="list"):
        load_settings(None, bad)
    with pytest.raises(SimulateError, match="no preset"):
        load_settings("huge")
    with pytest.raises(SimulateError, match="local_zone"):
        simulate(tmp_path / "x", load_settings("small", local_zone="Mars/Olympus"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x", encoding="utf-8")
    with pytest.raises(SimulateError, match="not an empty folder"):
        simulate(tmp_path / "full", load_settings("small"))


def test_the_command_writes_checks_and_refuses(tmp_path: Path) -> None:
    run = CliRunner()
    out = str(tmp_path / "sim")
    done = run.invoke(cli, ["simulate", out, "--seed", "5"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["totals"]["interruptions"] == 26
    assert run.invoke(cli, ["simulate", out, "--check"]).output == "no truth in the logs\n"
    assert run.invoke(cli, ["simulate", out]).exit_code == 2


def test_a_weak_gpu_has_the_first_faults_and_reads_like_a_program(tmp_path: Path) -> None:
    few = {"gpu.device": 6.0, "software.bug": 2.0}
    simulate(tmp_path / "sim", load_settings("small", mix=few, exact_mix=True, interruptions=8, weak_gpu_faults=4))
    with (tmp_path / "sim" / "truth" / "attempts.tsv").open(encoding="utf-8") as rows:
        faults = [a for a in csv.DictReader(rows, delimiter="\t") if a["component"] == "gpu.device"]
    weak, others = faults[:4], faults[4:]
    assert len({(a["host"], a["gpu"]) for a in weak}) == 1
    assert ["software.bug" in a["acceptable"] for a in weak] == [True, True, False, False]
    assert not any("software.bug" in a["acceptable"] for a in others)
    kern = "".join(p.read_text() for p in (tmp_path / "sim" / "logs" / "hosts" / weak[0]["host"]).iterdir())
    assert len(re.findall(r"\): (?:13|31), ", kern)) >= 4
