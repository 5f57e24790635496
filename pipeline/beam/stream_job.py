"""The process of one submission of the stream: `python -m pipeline.beam.stream_job`, its `Submission` on stdin.

It submits the graph, decides what nobody decided every `pass_s`, and waits. On Prism it is the worker as well
(LOOPBACK). SIGTERM: readers stop where they stand, what they hold is written, what is undecided is decided, the job is
cancelled, and the process ends with 0. It ends with 3 where the job failed, and at once where its parent is gone.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from pipeline.stream.plan import Plan, Submission

if TYPE_CHECKING:
    from apache_beam.runners.runner import PipelineResult

    from pipeline.stream.deciding import DecidingProcess
    from sql.store import Store

log = logging.getLogger(__name__)

FAILED = 3
_DRAIN_S = 30.0
_OVER = frozenset({"DONE", "FAILED", "CANCELLED", "DRAINED"})
#: How often what only matters for a while is forgotten, seconds.
_TIDY_S = 3600.0


def main() -> int:
    """Runs until it is told to stop, or the job ends."""
    submission = Submission.of(sys.stdin.readline())
    plan = submission.plan
    _end_with(os.getppid())
    from pipeline.stream.logs import set_up_logs

    set_up_logs(as_json=plan.json_logs, level=plan.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    result = _submit(submission)
    log.info("submitted", extra={"fields": {"submission": submission.name, "runner": plan.runner}})
    return _attend(plan, result, stop)


def _submit(submission: Submission) -> PipelineResult:
    from pipeline.beam.runners import start
    from pipeline.beam.stream_graph import Stream, StreamOptions
    from pipeline.beam.stream_reader import ReaderOptions

    plan = submission.plan
    runner, arguments = plan.runner, ["--streaming", f"--job_name=faultbeam-{submission.name}", *plan.pipeline_args]
    if submission.endpoint:
        runner = "PortableRunner"
        arguments += [f"--job_endpoint={submission.endpoint}", "--environment_type=LOOPBACK"]
    reader = ReaderOptions(plan.servers, plan.topics, plan.shards, plan.config_file, plan.dead_letters, submission.name)
    positions = {(t, n): at for t, n, at in submission.positions}
    pipeline = start(runner, arguments)
    pipeline | "Stream" >> Stream(StreamOptions(reader, plan.warehouse, plan.settings, positions))
    return pipeline.run()


def _attend(plan: Plan, result: PipelineResult, stop: threading.Event) -> int:
    from pipeline.beam.stream_steps import decider_of, store_of

    store, decider = store_of(plan.warehouse), decider_of(plan.warehouse, plan.settings)
    passing = threading.Thread(target=_pass, args=(plan, store, decider, stop), name="stream-pass", daemon=True)
    passing.start()
    while not stop.wait(0.5):
        state = result.state
        if state in _OVER:
            log.error("the job ended in state %s; the lines above say why", state)
            return FAILED
    _drain(plan, store, decider)
    result.cancel()
    decider.close()
    return 0


def _drain(plan: Plan, store: Store, decider: DecidingProcess) -> None:
    from pipeline.beam.stream_reader import STOPPING, reads_here
    from pipeline.beam.stream_steps import decide

    if reads_here():
        STOPPING.asked.set()
        if not STOPPING.wait(_DRAIN_S, plan.shards):
            log.warning("readers did not stop within %.0f s; the next start reads again what they held", _DRAIN_S)
    decide(decider, None, store.now_us())


def _pass(plan: Plan, store: Store, decider: DecidingProcess, stop: threading.Event) -> None:
    """The periodic pass. The first one finds what an earlier process left."""
    from pipeline.beam.stream_steps import decide
    from pipeline.stream.stats import worker_stats

    tidied = time.monotonic() - _TIDY_S
    while not stop.is_set():
        decide(decider, None, store.now_us())
        worker_stats().flush(store, plan.settings.cluster)
        if time.monotonic() - tidied >= _TIDY_S:
            tidied = time.monotonic()
            _tidy(store, plan.settings.cluster)
        stop.wait(plan.pass_s)


def _tidy(store: Store, cluster: str) -> None:
    """Forgets what only matters for a while."""
    from sql.errors import CannotConnect
    from sql.housekeeping import sweep

    try:
        sweep(store, cluster)
    except CannotConnect as error:
        log.warning("could not tidy the warehouse, trying again in an hour: %s", error)


def _end_with(parent: int) -> None:
    """Ends this process when its parent is gone: nobody would look after it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(FAILED)

    threading.Thread(target=watch, name="stream-parent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
