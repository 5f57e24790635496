"""Settings of a diagnosis or an ingest, with the defaults that the documentation names.

Read from arguments, then `FAULTBEAM_*` environment variables, then defaults. Everything that changes an answer is
here; decisions never read the environment or a clock themselves.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """How evidence is gathered and decided."""

    model_config = SettingsConfigDict(env_prefix="FAULTBEAM_", extra="forbid", frozen=True)

    cluster: str = Field("default", description="name of the cluster that the logs come from")
    tz: str = Field("UTC", description="IANA zone of stamps that carry none")
    window_before_s: float = Field(600.0, description="evidence window before the last useful step, seconds")
    window_after_s: float = Field(300.0, description="evidence window after the end of the run, seconds")
    watchdog_s: float = Field(1800.0, description="collective time-out assumed where none is printed, seconds")
    history_days: float = Field(28.0, description="how far back earlier events of a host or device count, days")
    hang_steps: float = Field(10.0, description="median steps without progress that make a hang")
    hang_s: float = Field(300.0, description="least time without progress that makes a hang, seconds")
    threshold: float = Field(0.5, description="confidence below which the answer is unknown")
    model: str = Field("shipped", description="models of text and evidence: shipped, none, or a folder")
    model_threshold: float = Field(0.7, description="confidence from which the model's word is taken")
    prior: str = Field("none", description="mix that breaks ties of weak evidence: none, llama3, fthsdp, labels")
    opinions: str = Field(
        "all", description="whose opinion counts: all, rules, text, or evidence (to measure each alone)"
    )
    grace_s: float = Field(120.0, description="how long after its end a stream's answer is provisional, seconds")
    episode_gap_s: float = Field(180.0, description="silence that ends a fault episode of a host, seconds")
    range_bytes: int = Field(64 * 1024 * 1024, description="size of a byte range, a multiple of 64 KiB")
    max_inflated_bytes: int = Field(64 * 1024**3, description="limit for one decompressed member")
    max_ratio: float = Field(2000.0, description="limit for decompressed to compressed size")
    max_depth: int = Field(4, description="archives inside archives")
    engine: str = Field("auto", description="scan engine: auto, hyperscan or re2")
