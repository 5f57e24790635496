"""What a stream is asked to do, as one value that the supervisor hands to the process of the pipeline."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from schemas.settings import Settings

#: The runner that is started here, from the binary that is named.
PRISM = "prism"


@dataclass(frozen=True, slots=True)
class Plan:
    """See the options of `faultbeam stream`. start: `earliest`, `latest` or microseconds UTC. Times in seconds."""

    servers: str
    topics: tuple[str, ...]
    warehouse: str
    settings: Settings
    runner: str = PRISM
    prism_location: str = ""
    pipeline_args: tuple[str, ...] = ()
    config_file: str = ""
    dead_letters: str = ""
    incidents: str = ""
    start: str | int = "earliest"
    rewind_s: float = 60.0
    pass_s: float = 60.0
    shards: int = 1
    metrics_port: int | None = None
    json_logs: bool = False
    log_level: str = "INFO"


@dataclass(frozen=True, slots=True)
class Submission:
    """One start of the pipeline: the plan, what names the start, where reading begins, and the job server if any."""

    plan: Plan
    name: str
    positions: tuple[tuple[str, int, int], ...]
    endpoint: str = ""

    def text(self) -> str:
        """As one line of JSON."""
        plan = {**asdict(self.plan), "settings": self.plan.settings.model_dump()}
        return json.dumps({**asdict(self), "plan": plan}, separators=(",", ":"))

    @staticmethod
    def of(text: str) -> Submission:
        """What `text` wrote."""
        row: dict[str, Any] = json.loads(text)
        plan = row["plan"]
        plan["settings"] = Settings(**plan["settings"])
        for name in ("topics", "pipeline_args"):
            plan[name] = tuple(plan[name])
        positions = tuple((t, n, at) for t, n, at in row["positions"])
        return Submission(Plan(**plan), row["name"], positions, row["endpoint"])
