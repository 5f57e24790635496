"""The answers: one row an attempt, and totals computed from the plan itself."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

from pipeline.simulate.plan import ACCEPTABLE, Attempt, Plan
from pipeline.simulate.stamps import Calendar
from schemas.identity import digest

#: Faults of a weak GPU before which there is no pattern to see.
WEAK_UNKNOWN = 2
COLUMNS = ("job_id", "attempt", "kind", "start", "end", "component", "acceptable", "host", "gpu", "fault_id", "onset",
           "last_step", "logs_withheld")  # fmt: skip


def totals(plan: Plan) -> dict[str, Any]:
    """Totals of the main job. Hours and seconds as named; MTTF counts unexpected interruptions only."""
    s = plan.settings
    main = plan.attempts
    unexpected = [a for a in main if a.kind == "unexpected"]
    saves = [sec for a in main for _, sec, _ in a.saves]
    startups = [a.first_progress - a.start for a in main if a.first_progress is not None]
    return {
        "gpus": s.gpus,
        "days": s.days,
        "interruptions": sum(a.kind in ("unexpected", "planned") for a in main),
        "unexpected": len(unexpected),
        "planned": sum(a.kind == "planned" for a in main),
        "mttf_hours": plan.length / 3600 / len(unexpected) if unexpected else None,
        "effective_training_time": plan.useful_s / plan.length,
        "startup_seconds": {"median": median(startups) if startups else None},
        "checkpoint_seconds": {"mean": mean(saves) if saves else None, "count": len(saves)},
        "lost_work_hours": sum(plan.lost_s) / 3600,
        "lost_gpu_hours": sum(plan.lost_s) / 3600 * s.gpus,
        "day_effect": {"peak_to_trough": s.day_effect, "slowest_hour": s.slowest_hour},
        "faults_survived": sum(f.recovered for f in plan.faults),
        "faults_of_neighbours": sum(not f.recovered for f in plan.faults),
        "by_component": {
            c: sum(a.component == c for a in unexpected) for c in sorted({a.component for a in unexpected})
        },
    }


def acceptable(a: Attempt) -> tuple[str, ...]:
    """Other answers that a reviewer would let stand: of a weak GPU, nobody knows the first times."""
    other = ACCEPTABLE.get(a.component, ())
    return (*other, "software.bug", "unknown") if 0 < a.weak <= WEAK_UNKNOWN else other


def write_truth(
    folder: Path, plan: Plan, cal: Calendar, name: Callable[[int], str], job: Callable[[Attempt], str]
) -> None:
    """`attempts.tsv`, `totals.json` and `settings.json` in a folder of their own; `job` names a job as its site does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "attempts.tsv").open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, delimiter="\t", lineterminator="\n")
        rows.writerow(COLUMNS)
        for a in (*plan.attempts, *plan.side):
            rows.writerow(
                (
                    job(a), a.attempt, a.kind, cal.utc(a.start).isoformat(timespec="seconds"),
                    cal.utc(a.end).isoformat(timespec="seconds"), a.component or "none",
                    ";".join(acceptable(a)), name(a.host) if a.host is not None else "",
                    a.gpu if a.gpu is not None else "",
                    digest("sim-fault", a.fault) if a.fault is not None else "",
                    cal.utc(a.onset).isoformat(timespec="milliseconds") if a.onset is not None else "",
                    a.last_step, int(a.withheld),
                )
            )  # fmt: skip
    (folder / "totals.json").write_text(json.dumps(totals(plan), indent=1) + "\n", encoding="utf-8")
    (folder / "settings.json").write_text(plan.settings.model_dump_json(indent=1) + "\n", encoding="utf-8")
