"""Which runner a graph runs on: always named, and refused where a name means different things on different machines."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from pipeline.beam.errors import RunnerError

DEFAULT_RUNNER = "FnApiRunner"

_PROCESSES = ["--direct_running_mode", "multi_processing"]
_REFUSED = {
    "directrunner": (
        "a bare DirectRunner first tries to download Prism and falls back quietly, so what runs differs by machine"
    ),
    "switchingdirectrunner": "it picks a runner by the shape of the graph, so what runs is not known",
    "bundlebaseddirectrunner": "BundleBasedDirectRunner checks nothing between stages and is kept for tests of streams",
}


def start(runner: str, pipeline_args: Sequence[str]) -> Pipeline:
    """An empty pipeline on a runner by name. Raises RunnerError for a runner that may not be used as given."""
    check_runner(runner, pipeline_args)
    processes = [a for a in pipeline_args if a.replace("=", " ").split() == _PROCESSES]
    if runner.lower() != DEFAULT_RUNNER.lower() or not processes:
        return Pipeline(runner=make_runner(runner), options=PipelineOptions([*pipeline_args]))
    # The same as Beam does for this mode, with a worker that keeps its start-up lines to itself.
    command = f"{shlex.quote(sys.executable)} -m pipeline.beam.subprocess_worker"
    environment = SubprocessSDKEnvironment.from_command_string(command_string=command)
    options = PipelineOptions([a for a in pipeline_args if a not in processes])
    return Pipeline(runner=FnApiRunner(default_environment=environment), options=options)


def check_runner(runner: str, pipeline_args: Sequence[str]) -> None:
    """Raises RunnerError with the reason and what to pass instead."""
    if any(a == "--runner" or a.startswith("--runner=") for a in pipeline_args):
        raise RunnerError(
            f"--runner is among the pipeline arguments {list(pipeline_args)}; name the runner by the option of its own"
        )
    if any(a.startswith("--save_main_session") for a in pipeline_args):
        raise RunnerError("--save_main_session is never needed here: every function is importable; leave it out")
    word = runner.lower()
    if word in _REFUSED:
        raise RunnerError(
            f"runner {runner}: {_REFUSED[word]}; use --runner {DEFAULT_RUNNER} on one machine, PortableRunner elsewhere"
        )
    given = {a.split("=", 1)[0] for a in pipeline_args}
    if word in ("prismrunner", "prism") and not given & {"--prism_location", "--job_endpoint"}:
        raise RunnerError(
            f"runner {runner} without --prism_location would download a binary; pass --prism_location=PATH of a Prism "
            "that you built, or run it by hand and use PortableRunner with --job_endpoint"
        )
    if word == "portablerunner" and "--job_endpoint" not in given:
        raise RunnerError("runner PortableRunner needs --job_endpoint=HOST:PORT of the job server to submit to")


def make_runner(runner: str) -> PipelineRunner:
    """An instance of a runner by name or by its full path. Raises RunnerError where there is none."""
    try:
        return create_runner(runner)
    except (ValueError, ImportError, AttributeError) as e:
        raise RunnerError(
            f"no runner named {runner}: {e}; known is {DEFAULT_RUNNER}, PortableRunner, FlinkRunner"
        ) from e
