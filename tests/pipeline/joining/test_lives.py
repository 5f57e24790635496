"""Faults outside of every evidence window: cleared by what a run on that host trained afterwards, else the host's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.diagnose import diagnose
from schemas.diagnosis import Diagnosis
from schemas.settings import Settings

T = datetime(2026, 5, 4, 9, 0, 0, tzinfo=UTC)
DBE = (
    "NVRM: Xid (PCI:0000:4d:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been "
    "detected on GPU in the framebuffer at physAddr 0x1f00aa000 partition 3, subpartition 0."
)


def _site(
    root: Path, host: str, *, record: bool = True, steps: int = 120, last: str = "training finished"
) -> Diagnosis:
    """A job of one step a minute from T on g1 and g2; 20 minutes after T host `host` reports an uncorrected error."""
    root.mkdir(exist_ok=True)
    if record:
        rows = ("JobID|User|State|ExitCode|Start|End|NNodes|AllocTRES|NodeList",
                "77|noor|COMPLETED|0:0|2026-05-04T08:50:00|2026-05-04T11:01:00|2|gres/gpu=16|g[1-2]")  # fmt: skip
        (root / "sacct.txt").write_text("\n".join(rows) + "\n")
    lines = [f"{T + timedelta(minutes=k):%Y-%m-%d %H:%M:%S} INFO step {k + 1} loss 2.0" for k in range(steps)]
    lines.append(f"{T + timedelta(minutes=steps):%Y-%m-%d %H:%M:%S} INFO {last}")
    job = root / "jobs" / "77" / "slurm-77.out"
    job.parent.mkdir(parents=True)
    job.write_text("\n".join(lines) + "\n")
    kern = root / "hosts" / host / "kern.log"
    kern.parent.mkdir(parents=True)
    kern.write_text(f"{T + timedelta(minutes=20):%Y-%m-%dT%H:%M:%S}.000000+00:00 {host} kernel: {DBE}\n")
    return diagnose([root], Settings()).document


def test_a_fault_under_a_job_that_trained_on_is_a_health_event(tmp_path: Path) -> None:
    found = _site(tmp_path / "x", "g2")
    assert not found.incidents
    assert "xid.48" in {h.signal for h in found.health_events}


def test_on_a_host_that_was_not_the_jobs_it_stays_a_fault(tmp_path: Path) -> None:
    (fault,) = _site(tmp_path / "x", "g7").incidents
    assert (fault.kind, fault.component) == ("host_fault", "gpu.hbm")


def test_the_only_job_of_a_root_without_names_counts_too(tmp_path: Path) -> None:
    assert not _site(tmp_path / "x", "g7", record=False).incidents
