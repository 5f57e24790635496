"""Settings of a simulated cluster, presets, and reading them from YAML.

The two large presets follow the two published mixes of causes (arXiv 2407.21783 Table 5; arXiv 2602.00277).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipeline.errors import PipelineError
from schemas.taxonomy import components


class SimulateError(PipelineError):
    """A setting that cannot be simulated, or an output that cannot be written."""


#: Table 5 of the Llama 3 paper as component classes (419 unexpected interruptions).
LLAMA3_MIX = {
    "gpu.device": 108,
    "gpu.nvlink": 40,
    "gpu.hbm": 72,
    "software.bug": 54,
    "net.fabric": 35,
    "maintenance.unplanned": 32,
    "gpu.sram": 19,
    "gpu.gsp": 17,
    "net.nic": 7,
    "unknown.nccl_timeout": 7,
    "gpu.sdc": 6,
    "gpu.thermal": 6,
    "host.ssd": 3,
    "host.power": 3,
    "host.chassis": 2,
    "host.ioboard": 2,
    "dependency": 2,
    "host.cpu": 2,
    "host.memory": 2,
}
#: Meta's later mix (678 events).
HSDP_MIX = {
    "gpu.hbm": 155,
    "host.pcie": 122,
    "unknown.nccl_timeout": 61,
    "gpu.device": 50,
    "software.bug": 48,
    "maintenance.unplanned": 42,
    "host.os": 77,
    "gpu.sdc": 37,
    "net.fabric": 36,
    "host.ssd": 30,
    "gpu.sram": 8,
    "unknown": 7,
    "host.memory": 2,
    "host.chassis": 2,
    "gpu.thermal": 1,
}


class SideJobs(BaseModel):
    """Small jobs beside the main one, with ends that are no faults. Numbers over the whole period."""

    model_config = ConfigDict(extra="forbid")
    completed: int = Field(0, ge=0)
    cancelled: int = Field(0, ge=0)
    timed_out: int = Field(0, ge=0)
    preempted: int = Field(0, ge=0)
    hosts_each: int = Field(2, ge=1, le=64)


class SimSettings(BaseModel):
    """What cluster to simulate. Seconds unless the name says otherwise."""

    model_config = ConfigDict(extra="forbid")

    seed: int = 1
    site: Literal["slurm", "k8s"] = "slurm"
    cluster: str = Field("ridge", pattern=r"^[a-z][a-z0-9-]{0,15}$")
    start: str = Field("2025-03-03T00:00:00", description="first moment, UTC")
    wording: Literal["usual", "other"] = Field(
        "usual", description="how causes read: of other versions of the same software"
    )
    days: float = Field(2.0, gt=0, le=400)
    hosts: int = Field(16, ge=1, le=20_000, description="hosts of the main job")
    spare_hosts: int = Field(
        4,
        ge=0,
        description="hosts beside it: the first half for side jobs, the other half idle, whose faults stop nobody",
    )
    gpus_per_host: int = Field(8, ge=1, le=16)
    interruptions: int = Field(12, ge=0, le=20_000, description="unexpected ones")
    planned: int = Field(1, ge=0)
    mix: dict[str, float] = Field(default_factory=lambda: {k: float(v) for k, v in LLAMA3_MIX.items()})
    exact_mix: bool = Field(False, description="counts of `mix` are taken as they are, in random order")
    frameworks: list[Literal["megatron", "torchtitan", "nemo", "lightning"]] = ["megatron"]
    step_s: float = Field(5.0, gt=0.05)
    log_every: int = Field(20, ge=1, description="steps between two progress lines")
    startup_s: tuple[float, float] = Field((300.0, 0.25), description="median, sigma of the log-normal")
    queue_s: tuple[float, float] = (40.0, 0.4)
    checkpoint_every_s: float = Field(900.0, gt=1)
    checkpoint_s: tuple[float, float] = (6.0, 0.15)
    stop_delay_s: tuple[float, float] = Field((20.0, 0.8), description="from the cause to the end of the attempt")
    watchdog_s: float = Field(600.0, ge=30)
    day_effect: float = Field(0.0, ge=0, le=0.2, description="peak to trough of throughput over the day")
    slowest_hour: float = Field(14.0, ge=0, lt=24)
    step_noise: float = Field(0.004, ge=0, le=0.2)
    teardown_lines: int = Field(40, ge=0, description="lines of a tear-down storm")
    withheld: float = Field(0.0, ge=0, le=1, description="share of hosts whose kernel logs never arrive")
    skew_s: float = Field(0.3, ge=0, le=300, description="standard deviation of host clocks")
    local_zone: str = Field("UTC", description="IANA zone of stamps that carry none")
    noise_lines_per_host_day: float = Field(2.0, ge=0)
    noise_hosts: float = Field(0.05, ge=0, le=1, description="share of healthy hosts whose kernel log is written")
    recovered_faults: int = Field(3, ge=0, description="faults that training survived")
    weak_gpu_faults: int = Field(
        0,
        ge=0,
        description="of the causes gpu.device, the first so many are one GPU's whose faults read like a program's",
    )
    neighbour_faults: float = Field(0.2, ge=0, le=1, description="chance of a fault on an idle host in the minute")
    in_job_restarts: float = Field(0.0, ge=0, le=1, description="share of interruptions restarted inside the job")
    telemetry_hosts: int = Field(1, ge=0)
    telemetry_every_s: float = Field(600.0, ge=1)
    side_jobs: SideJobs = SideJobs()
    hosts_per_leaf: int = Field(16, ge=1)

    @field_validator("mix")
    @classmethod
    def _known(cls, value: dict[str, float]) -> dict[str, float]:
        unknown = sorted(set(value) - set(components()))
        if unknown:
            msg = f"not components of the taxonomy: {', '.join(unknown)}"
            raise ValueError(msg)
        if not value or min(value.values()) < 0 or sum(value.values()) <= 0:
            msg = "weights must be 0 or more, and some above 0"
            raise ValueError(msg)
        planned = [c for c in value if c == "maintenance.planned" or c.startswith("scheduler.")]
        if planned:
            msg = f"{', '.join(planned)}: planned stops are `planned`, the scheduler's `side_jobs`"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> SimSettings:
        if self.exact_mix and round(sum(self.mix.values())) != self.interruptions:
            msg = f"exact_mix: the counts sum to {sum(self.mix.values()):g}, not to interruptions={self.interruptions}"
            raise ValueError(msg)
        per = (self.interruptions + self.planned) * (self.startup_s[0] + self.queue_s[0] + self.stop_delay_s[0])
        if per > 0.8 * self.days * 86400:
            msg = (
                f"{self.interruptions + self.planned} interruptions with {self.startup_s[0]:g} s of start-up do not fit "
                f"in {self.days:g} days: fewer interruptions, shorter start-up or more days"
            )
            raise ValueError(msg)
        return self

    @property
    def gpus(self) -> int:
        return self.hosts * self.gpus_per_host


PRESETS: dict[str, dict[str, Any]] = {
    "small": {
        "spare_hosts": 6,
        "frameworks": ["megatron", "torchtitan", "nemo", "lightning"],
        "interruptions": 24,
        "planned": 2,
        "noise_hosts": 1.0,
        "in_job_restarts": 0.1,
        "side_jobs": {"completed": 6, "cancelled": 2, "timed_out": 2, "preempted": 2},
    },
    "llama3-54d": {
        "days": 54,
        "hosts": 2048,
        "spare_hosts": 64,
        "interruptions": 419,
        "planned": 47,
        "exact_mix": True,
        "mix": LLAMA3_MIX,
        "day_effect": 0.015,
        "log_every": 20,
        "recovered_faults": 40,
        "noise_lines_per_host_day": 1.0,
        "noise_hosts": 0.05,
        "telemetry_hosts": 2,
    },
    "hsdp-mix": {
        "days": 30,
        "hosts": 1024,
        "spare_hosts": 32,
        "interruptions": 678,
        "planned": 20,
        "exact_mix": True,
        "mix": HSDP_MIX,
        "frameworks": ["torchtitan", "megatron"],
        "startup_s": [180.0, 0.25],
        "checkpoint_every_s": 600.0,
        "in_job_restarts": 0.2,
        "recovered_faults": 40,
        "noise_hosts": 0.05,
        "telemetry_hosts": 2,
    },
}


def load_settings(preset: str | None = None, file: Path | None = None, **over: Any) -> SimSettings:  # noqa: ANN401
    """Settings from a preset, a YAML file over it, and single values over both; `SimulateError` says what is wrong."""
    values: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            msg = f"no preset {preset!r}; there are {', '.join(sorted(PRESETS))}"
            raise SimulateError(msg)
        values.update(PRESETS[preset])
    if file is not None:
        try:
            read = yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as error:
            msg = f"cannot read settings {file}: {error.strerror}"
            raise SimulateError(msg) from None
        except yaml.YAMLError as error:
            msg = f"{file} is no YAML: {error}"
            raise SimulateError(msg) from None
        if not isinstance(read, dict):
            msg = f"{file}: expected settings as `name: value`, found {type(read).__name__}"
            raise SimulateError(msg)
        values.update(read)
    values.update({k: v for k, v in over.items() if v is not None})
    try:
        return SimSettings.model_validate(values)
    except ValidationError as error:
        lines = [f"{'.'.join(str(x) for x in e['loc']) or 'settings'}: {e['msg']}" for e in error.errors()]
        msg = "settings of the simulation: " + "; ".join(lines)
        raise SimulateError(msg) from None
