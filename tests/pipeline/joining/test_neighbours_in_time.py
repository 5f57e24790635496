"""Jobs that follow each other on the same hosts: whose event is it?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from schemas.diagnosis import IncidentDoc
from schemas.settings import Settings

T = datetime(2026, 5, 4, 9, 0, 0, tzinfo=UTC)
XID79 = "NVRM: Xid (PCI:0000:4d:00): 79, pid=4101, name=python, GPU has fallen off the bus."


def _at(seconds: float) -> str:
    return f"{T + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


def _log(root: Path, job: int, steps: list[float], end: list[str]) -> None:
    lines = [
        f" [{T + timedelta(seconds=s):%Y-%m-%d %H:%M:%S.%f}] iteration {i + 1:8d}/ 500000 | "
        f"consumed samples: {i * 512:12d} | elapsed time per iteration (ms): 5000.0 | lm loss: 2.{i:06d}E+00 |"
        for i, s in enumerate(steps)
    ]
    path = root / "jobs" / str(job) / f"slurm-{job}.out"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([*lines, *end]) + "\n", encoding="utf-8")


def _site(root: Path, fault: float, second: tuple[float, float], *, second_steps: bool = True) -> None:
    """Job 501 ends of its own error at 0 s, job 502 on the same hosts lasts from second[0] to [1]; Xid at `fault`."""
    rows = [
        "JobID|User|State|ExitCode|Start|End|NNodes|AllocTRES|NodeList",
        f"501|noor|FAILED|1:0|{_at(-3600)}|{_at(0)}|2|gres/gpu=16|c[1-2]",
        f"502|noor|FAILED|1:0|{_at(second[0])}|{_at(second[1])}|2|gres/gpu=16|c[1-2]",
    ]
    (root / "slurm").mkdir(parents=True)
    (root / "slurm" / "sacct.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ["Traceback (most recent call last):", '  File "a.py", line 3, in main', "KeyError: 'loss_mask'"]
    _log(root, 501, [5.0 * k - 300 for k in range(59)], words)
    steps = [second[0] + 30 + 5.0 * k for k in range(4)] if second_steps else []
    _log(root, 502, steps, ["Traceback (most recent call last):", '  File "a.py", line 9, in main', "ValueError: x"])
    for host in ("c1", "c2"):
        kern = root / "hosts" / host / "kern.log"
        kern.parent.mkdir(parents=True)
        said = [f"{_at(-3000)}.000000+00:00 {host} kernel: eth0: renamed from veth1a"]
        said += [f"{_at(fault)}.000000+00:00 {host} kernel: {XID79}"] if host == "c1" else []
        kern.write_text("\n".join(said) + "\n", encoding="utf-8")


def _answers(root: Path) -> dict[str, IncidentDoc]:
    return {i.job_id or "": i for i in diagnose([root], Settings()).document.incidents}


def test_a_fault_under_the_next_job_is_none_of_the_job_before(tmp_path: Path) -> None:
    _site(tmp_path, fault=200, second=(20, 230))
    found = _answers(tmp_path)
    assert (found["501"].component, found["502"].component) == ("software.bug", "gpu.device")


def test_a_fault_under_the_job_before_is_none_of_the_next_one_that_trained(tmp_path: Path) -> None:
    _site(tmp_path, fault=-2, second=(20, 120))
    found = _answers(tmp_path)
    assert (found["501"].component, found["502"].component) == ("gpu.device", "software.bug")


def test_it_stays_a_candidate_of_a_next_job_that_made_no_step(tmp_path: Path) -> None:
    _site(tmp_path, fault=-2, second=(20, 120), second_steps=False)
    assert "xid.79" in {e.signal for e in _answers(tmp_path)["502"].evidence}


@pytest.mark.parametrize("late", [1.0, 40.0])
def test_news_shortly_after_the_end_still_counts_where_the_next_job_began_at_once(tmp_path: Path, late: float) -> None:
    _site(tmp_path, fault=late, second=(0, 230))
    assert "xid.79" in {e.signal for e in _answers(tmp_path)["501"].evidence}
