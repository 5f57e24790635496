"""Power swings of a job, from a training log and nvidia-smi samples on disk, through ingest, to the review's words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pipeline.review import render, review
from pipeline.warehouse.ingest import ingest
from schemas.settings import Settings
from sql.store import open_store

BEGIN = datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
STEP_S, SAVE_S, EVERY = 5.0, 12, 60
#: (seconds since BEGIN) first step, saves begin, the last step, the job's end.
FIRST, LAST, END = 300, 3300, 3900
SAVES = (900, 1800, 2700)


def _at(second: float) -> datetime:
    return BEGIN + timedelta(seconds=second)


def _log() -> Iterator[str]:
    """Output of a Megatron job that saves three times, and hangs until a watchdog ends it."""
    second, step = float(FIRST), 0
    saves = list(SAVES)
    while second < LAST:
        step, second = step + 1, second + STEP_S
        if step % EVERY == 0 or second == FIRST + STEP_S:
            yield (
                f" [{_at(second):%Y-%m-%d %H:%M:%S}] iteration {step:8d}/  500000 | "
                f"consumed samples: {step * 2048:12d} | elapsed time per iteration (ms): {STEP_S * 1000:.1f} | "
                "learning rate: 8.0E-05 | global batch size:  2048 | lm loss: 2.1E+00 | loss scale: 1.0 | "
                "grad norm: 0.3 | number of skipped iterations:   0 | "
            )
        if saves and second >= saves[0]:
            saves.pop(0)
            stamp = f"[{_at(second):%Y-%m-%d %H:%M:%S}]"
            yield f"{stamp} saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format"
            second += SAVE_S
            stamp = f"[{_at(second):%Y-%m-%d %H:%M:%S}]"
            yield f"{stamp}   successfully saved checkpoint from iteration {step:7d} to /ckpt"
    yield (
        f"[rank3]:[E303 {_at(END):%H:%M:%S}.000000000 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600012 milliseconds before timing out."
    )


def _power(second: int, gpu: int) -> float:
    noise = random.Random(f"{second}/{gpu}").gauss(0, 5)
    if any(s <= second < s + SAVE_S + 1 for s in SAVES):
        return 240 + noise
    return (655 if FIRST <= second < LAST else 420 if LAST <= second < END else 95) + noise


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    (root / "jobs").mkdir()
    (root / "hosts" / "gn07").mkdir(parents=True)
    (root / "slurm").mkdir()
    (root / "slurm" / "sacct.txt").write_text(
        "JobID|JobName|User|Account|State|ExitCode|Submit|Start|End|NNodes|AllocTRES|NodeList\n"
        f"5501|pretrain|ada|lab|FAILED|1:0|{_at(0):%Y-%m-%dT%H:%M:%S}|{_at(0):%Y-%m-%dT%H:%M:%S}|"
        f"{_at(END + 20):%Y-%m-%dT%H:%M:%S}|128|cpu=8192,gres/gpu=1024,node=128|gn[01-128]\n"
    )
    (root / "jobs" / "slurm-5501.out").write_text("\n".join(_log()) + "\n")
    rows = ["timestamp, index, uuid, power.draw [W]"]
    for second in range(0, END + 120, 2):
        for gpu in range(8):
            stamp = f"{_at(second):%Y/%m/%d %H:%M:%S}.{gpu:03d}"
            rows.append(f"{stamp}, {gpu}, GPU-0000000{gpu}-aaaa, {_power(second, gpu):.2f} W")
    (root / "hosts" / "gn07" / "power.csv").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture(scope="module")
def document(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path_factory.mktemp('w') / 'w.db'}"
    ingest([site], url, Settings())
    with open_store(url) as store:
        return review(store, None, None, None)


def test_swings_are_tied_to_what_training_did(document: dict[str, Any]) -> None:
    power = document["power"]
    assert {cause: v["count"] for cause, v in power["by_cause"].items()} == {
        "checkpoint": 6, "start": 1, "stall": 1, "stop": 1,
    }  # fmt: skip
    checkpoint = power["by_cause"]["checkpoint"]
    assert checkpoint["watts_per_gpu"] == pytest.approx(415, abs=15)
    assert checkpoint["job_mw"] == pytest.approx(0.415 * 1.024, rel=0.05)
    assert checkpoint["job_mw_per_s"] == pytest.approx(0.415 * 1.024 / 2, rel=0.05)
    assert power["by_cause"]["stall"]["watts_per_gpu"] == pytest.approx(235, abs=15)
    assert power["sampled_every_s"] == pytest.approx(2.0, abs=0.1)
    largest = power["swings"][0]
    assert (largest["tied_to"], largest["gpus_seen"], largest["hosts"]) == ("start", 8, 1)
    assert largest["at"].startswith("2026-03-03T07:05:00")


def test_the_page_and_the_text_say_so(document: dict[str, Any]) -> None:
    words = document["power"]["verdict"]
    assert words.startswith("9 swings in 16 GPU-hours of fine samples from 1 host: 6 at a checkpoint (")
    assert "MW if all 1,024 GPUs of the job do the same" in words
    for output in ("md", "html"):
        text = render(document, output)
        assert "Largest swings of power" in text
        assert "6 at a checkpoint" in text
