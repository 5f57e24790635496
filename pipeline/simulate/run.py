"""`simulate`: plan, logs and truth on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

from pipeline.simulate.check import leaks
from pipeline.simulate.plan import make_plan
from pipeline.simulate.settings import SimSettings, SimulateError
from pipeline.simulate.site_k8s import job_name, write_k8s
from pipeline.simulate.site_slurm import write_slurm
from pipeline.simulate.stamps import calendar
from pipeline.simulate.truth import totals, write_truth


@dataclass(frozen=True, slots=True)
class SimulateResult:
    """Where the logs and the truth are, how much was written, and the true totals."""

    logs: Path
    truth: Path
    bytes: int
    totals: dict[str, Any]


def simulate(out: Path, settings: SimSettings) -> SimulateResult:
    """Write `out/logs` (to ingest) and `out/truth` (to compare with). The folder must be new or empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        msg = f"{out} is not an empty folder: name a new one, the simulation does not overwrite"
        raise SimulateError(msg)
    try:
        cal = calendar(settings.start, settings.local_zone)
    except (ValueError, ZoneInfoNotFoundError) as error:
        msg = f"start={settings.start!r}, local_zone={settings.local_zone!r}: {error}"
        raise SimulateError(msg) from None
    plan = make_plan(settings)
    width = max(3, len(str(settings.hosts + settings.spare_hosts)))

    def name(host: int) -> str:
        return f"{settings.cluster}{host:0{width}d}"

    logs, truth = out / "logs", out / "truth"
    try:
        size = (write_slurm if settings.site == "slurm" else write_k8s)(logs, plan, cal, name)
        write_truth(truth, plan, cal, name, (lambda a: str(a.job_id)) if settings.site == "slurm" else job_name)
    except OSError as error:
        msg = f"cannot write {error.filename or out}: {error.strerror}; what is there already is not complete"
        raise SimulateError(msg) from None
    return SimulateResult(logs, truth, size, totals(plan))


def check(out: Path) -> list[str]:
    """Places where the logs of a simulation give its truth away; [] if none. See `pipeline.simulate.check`."""
    if not (out / "logs").is_dir() or not (out / "truth").is_dir():
        msg = f"{out} holds no simulation: expected the folders logs and truth in it"
        raise SimulateError(msg)
    return leaks(out / "logs", out / "truth")
