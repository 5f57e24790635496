"""A line of a job that fits two components, with and without the kernel log that could tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from schemas.diagnosis import IncidentDoc
from schemas.settings import Settings


def _site(root: Path, logs_of: tuple[str, ...], said: str) -> IncidentDoc:
    """A job of 16 ranks on d1 and d2, in which rank 11 dies; kernel logs of some hosts, with nothing in them."""
    (root / "slurm").mkdir(parents=True)
    rows = ("JobID|User|State|ExitCode|Start|End|NNodes|AllocTRES|NodeList",
            "640|noor|FAILED|1:0|2026-05-04T08:00:00|2026-05-04T10:00:00|2|gres/gpu=16|d[1-2]")  # fmt: skip
    (root / "slurm" / "sacct.txt").write_text("\n".join(rows) + "\n")
    steps = [
        f" [2026-05-04 09:{59 - k:02d}:30.000000] iteration {400 - k:8d}/ 500000 | "
        f"elapsed time per iteration (ms): 60000.0 |"
        for k in range(20, 0, -1)
    ]
    end = [
        "11: Traceback (most recent call last):",
        '11:   File "loop.py", line 3, in step',
        f"11: RuntimeError: {said}",
    ]
    path = root / "jobs" / "640" / "slurm-640.out"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join([*steps, *end]) + "\n")
    for host in logs_of:
        kern = root / "hosts" / host / "kern.log"
        kern.parent.mkdir(parents=True)
        lines = [
            f"2026-05-04T{at}.000000+00:00 {host} kernel: eth0: renamed from veth1a"
            for at in ("08:10:00", "09:59:40", "10:03:00")
        ]
        kern.write_text("\n".join(lines) + "\n")
    (found,) = diagnose([root], Settings()).document.incidents
    return found


AMBIGUOUS = "CUDA error: unspecified launch failure"


def test_it_abstains_where_only_the_log_of_that_host_is_missing(tmp_path: Path) -> None:
    found = _site(tmp_path, ("d1",), AMBIGUOUS)
    assert found.component == "unknown"
    assert "d2" in {n.host for n in found.not_seen}


@pytest.mark.parametrize("logs_of", [(), ("d2",), ("d1", "d2")])
def test_it_answers_where_no_log_or_the_log_of_that_host_is_there(tmp_path: Path, logs_of: tuple[str, ...]) -> None:
    found = _site(tmp_path, logs_of, AMBIGUOUS)
    assert found.component not in ("unknown", "")
    assert found.first_failing.host == "d2"


def test_a_line_that_fits_one_component_needs_no_host_log(tmp_path: Path) -> None:
    found = _site(tmp_path, ("d1",), "shape '[2, 3]' is invalid for input of size 7")
    assert found.component == "software.bug"
