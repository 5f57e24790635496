"""A cluster that never was: raw logs in true formats with the truth beside them, outside the folder to ingest.

`settings` says what cluster, `plan` decides what happens (attempts, faults, neighbours), `wording` how each cause
reads, `writers` put it on disk as a Slurm or a Kubernetes site would, `truth` keeps the answers, `check` makes sure
that none of them is in the logs.
"""

from __future__ import annotations

from pipeline.simulate.run import SimulateResult, simulate
from pipeline.simulate.settings import PRESETS, SimSettings, load_settings

__all__ = ["PRESETS", "SimSettings", "SimulateResult", "load_settings", "simulate"]
