"""A simulated cluster held against its plan: who is counted how, withheld logs, and the size of the window."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.cli.main import cli
from pipeline.measuring.evaluate import EvaluationError
from pipeline.measuring.simulated import TrueAttempt, is_simulation, judge_all, load_truth, read, withheld
from pipeline.simulate import load_settings, simulate
from schemas.diagnosis import FirstFailing, IncidentDoc
from schemas.settings import Settings


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evaluated") / "sim"
    simulate(out, load_settings("small", seed=11))
    return out


def _true(job: str, component: str, *, host: str = "", hidden: bool = False, also: tuple[str, ...] = ()) -> TrueAttempt:
    return TrueAttempt(job, 0, component, frozenset({component, *also}), host, hidden)


def _incident(job: str | None, component: str, confidence: float, host: str | None = None) -> IncidentDoc:
    values: dict[str, Any] = {
        "kind": "job_interruption" if job else "host_fault",
        "job_id": job,
        "attempt": 0,
        "component": component,
        "confidence": confidence,
        "cause": "",
        "first_failing": FirstFailing(host=host, gpu=None, rank=None),
    }
    return IncidentDoc.model_construct(**values)


def test_each_attempt_is_judged_once() -> None:
    truth = [
        _true("1", "gpu.hbm", host="a1", also=("gpu.device",)),
        _true("2", "gpu.sram", host="a2", hidden=True),
        _true("3", "none"),
        _true("4", "software.bug", host="a3"),
        _true("5", "unknown.nccl_timeout", also=("unknown",)),
    ]
    found = judge_all(
        truth,
        [
            _incident("1", "gpu.device", 0.9, "a1.cluster.example"),
            _incident("2", "unknown", 0.7),
            _incident("3", "net.nic", 0.85, "a9"),
            _incident("4", "software.bug", 0.9),
            _incident("5", "unknown.nccl_timeout", 0.6),
            _incident("77", "gpu.hbm", 0.9),
            _incident(None, "gpu.hbm", 0.9, "a1"),
        ],
    )
    assert (found.accuracy.k, found.strict.k, found.attempts) == (3, 2, 5)
    assert (found.named.k, found.named.n) == (2, 3)
    assert (found.abstained.k, found.abstained.n) == (1, 3)  # of 1, 2 and 4; 5 has no name to find
    assert (found.host_top1.k, found.host_top1.n) == (1, 2)  # a program's error has no host of its own
    assert (found.host_top1_named.k, found.host_top1_named.n) == (1, 1)
    assert (found.wrong_sure, found.stray, found.host_faults) == (1, 1, 1)
    assert found.hidden == {"attempts": 1, "abstained": 1, "right": 0, "wrong": 0}


def test_the_same_hosts_are_withheld_whatever_else_changes() -> None:
    hosts = [f"ridge{n:04d}" for n in range(4000)]
    fifth = {h for h in hosts if withheld(h, 0.2, 1)}
    assert 0.18 < len(fifth) / len(hosts) < 0.22
    assert fifth <= {h for h in hosts if withheld(h, 0.4, 1)}
    assert fifth != {h for h in hosts if withheld(h, 0.2, 2)}
    assert not any(withheld(h, 0.0, 1) for h in hosts)
    assert all(withheld(h, 1.0, 1) for h in hosts)


def test_withheld_hosts_abstain_where_others_are_there(small: Path) -> None:
    whole, without = (read(small, Settings(), withhold=share)[0] for share in (0.0, 0.5))
    assert whole.score.accuracy.value is not None
    assert whole.score.accuracy.value >= 0.9
    assert (whole.withheld_hosts, whole.score.hidden["attempts"]) == (0, 0)
    assert 5 <= without.withheld_hosts <= 17
    hidden = without.score.hidden
    assert hidden["attempts"] == sum(bool(t.host) and withheld(t.host, 0.5, 1) for t in load_truth(small))
    assert hidden["abstained"] >= 2
    assert hidden["wrong"] <= 1
    assert without.score.abstained.k > whole.score.abstained.k


def test_each_window_is_read_as_if_it_were_set(small: Path) -> None:
    usual, wide = read(small, Settings(), [(600.0, 300.0), (90_000.0, 90_000.0)])
    assert (usual.window_before_s, wide.window_after_s) == (600.0, 90_000.0)
    assert usual == read(small, Settings())[0]
    assert wide.score == read(small, Settings(window_before_s=90_000, window_after_s=90_000))[0].score


def test_the_command_prints_tables_and_json(small: Path) -> None:
    run = CliRunner()
    table = run.invoke(cli, ["evaluate", str(small), "--withhold-host-logs", "0.5", "--seed", "3"])
    assert table.exit_code == 0, table.output
    for words in ("precision when answering", "host's log missing", "gpu.hbm"):
        assert words in table.output
    swept = run.invoke(cli, ["evaluate", str(small), "--window", "600,300", "--window", "60,0", "--format", "json"])
    doc = json.loads(swept.output)
    assert doc["schema"] == "faultbeam.evaluation-simulated/1"
    assert [(r["window_before_s"], r["window_after_s"]) for r in doc["readings"]] == [(600, 300), (60, 0)]
    first = doc["readings"][0]
    assert first["accuracy"]["low"] < first["accuracy"]["value"] <= first["accuracy"]["high"]
    assert "verdicts" not in first["report"]
    assert (
        run.invoke(cli, ["evaluate", str(small), "--fail-under", "1.0", "--withhold-host-logs", "1.0"]).exit_code == 1
    )


def test_cases_are_scored_against_window_size_and_a_narrow_one_sees_less(tmp_path: Path) -> None:
    case = tmp_path / "one"
    case.mkdir()
    rows = ("JobID|User|State|ExitCode|Start|End|NNodes|AllocTRES|NodeList",
            "88|noor|FAILED|1:0|2026-05-04T08:00:00|2026-05-04T10:00:00|1|gres/gpu=8|e1")  # fmt: skip
    (case / "sacct.txt").write_text("\n".join(rows) + "\n")
    xid = "NVRM: Xid (PCI:0000:4d:00): 79, pid=4101, name=python, GPU has fallen off the bus."
    (case / "kern.log").write_text(f"2026-05-04T10:02:30.000000+00:00 e1 kernel: {xid}\n")
    (case / "case.json").write_text('{"expected": "gpu.device"}')
    args = ["evaluate", str(tmp_path), "--window", "60,60", "--window", "600,300", "--format", "json"]
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == 0, done.output
    assert [r["strict"]["k"] for r in json.loads(done.output)["readings"]] == [0, 1]
    assert "1/1" in CliRunner().invoke(cli, args[:-2]).output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--withhold-host-logs", "0.2"], "no simulated cluster"),
        (["--window", "60"], "600,300"),
        (["--window", "-1,5"], "600,300"),
        (["--window", "60,60", "--ablate"], "without --window"),
    ],
)
def test_wrong_use_is_told(tmp_path: Path, args: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["evaluate", str(tmp_path), *args])
    assert done.exit_code == 2
    assert words in done.output


def test_a_torn_truth_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "truth").mkdir()
    table = tmp_path / "truth" / "attempts.tsv"
    assert not is_simulation(tmp_path)
    table.write_text("job_id\tattempt\tkind\n7\tx\tcompleted\n")
    assert is_simulation(tmp_path)
    with pytest.raises(EvaluationError, match=r"attempts\.tsv:2"):
        load_truth(tmp_path)
    table.write_text("job_id\tattempt\tkind\n")
    with pytest.raises(EvaluationError, match="no attempts"):
        load_truth(tmp_path)
