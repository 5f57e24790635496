"""What `faultbeam stream` does: it keeps the pipeline running, and does beside it what a pipeline must not do.

The pipeline is a process of its own (`pipeline.beam.stream_job`). When it dies it is submitted again, later each time
it dies young, from the positions that are durable in the warehouse. Beside it run the relay of incidents, the monitor
and the HTTP server of metrics. SIGTERM and SIGINT drain: the pipeline writes what it holds, incidents are delivered,
and `run` returns.
"""

from __future__ import annotations

import logging
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from pipeline.stream.client import Partition, common_config, first_look, start_positions, wanted
from pipeline.stream.errors import BrokerError, StreamError
from pipeline.stream.plan import PRISM, Plan, Submission
from pipeline.stream.prism import Prism, leashed, prism_path
from sql.errors import SqlError

if TYPE_CHECKING:
    from pipeline.stream.health import Monitor
    from sql.store import Store

log = logging.getLogger(__name__)

#: Waits before a pipeline is submitted again, seconds; the first again after it has lived for `_OLD_S`.
BACK_OFF = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_OLD_S = 300.0
_DRAIN_S = 60.0
_JOB = "pipeline.beam.stream_job"


def check_plan(plan: Plan) -> None:
    """Raises for what cannot work, with the reason: a runner, or a database for it."""
    from sql.engine import parse_url

    if plan.runner == PRISM:
        prism_path(plan.prism_location)
    elif plan.runner.lower() in ("directrunner", "fnapirunner", "switchingdirectrunner", "bundlebaseddirectrunner"):
        raise StreamError(
            f"--runner {plan.runner}: it tries to finish what it reads, and a stream has no end; use --runner prism on "
            "one machine, or PortableRunner with --beam-option job_endpoint=HOST:PORT"
        )
    else:
        from pipeline.beam.runners import check_runner

        check_runner(plan.runner, plan.pipeline_args)
        if parse_url(plan.warehouse).get_backend_name() == "sqlite":
            raise StreamError(
                f"--runner {plan.runner} with {plan.warehouse}: SQLite has one writer, and the workers of this runner "
                "are several processes, perhaps on several machines; use PostgreSQL, or --runner prism"
            )


class Supervisor:
    """Runs one plan. `stop` may be called from a signal handler or another thread."""

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._stop = threading.Event()
        self.child: subprocess.Popen[str] | None = None
        self.prism: Prism | None = None
        self.metrics_port: int | None = None
        self.submissions = 0

    def stop(self) -> None:
        """Ask for a drain."""
        self._stop.set()

    def run(self) -> None:
        """Runs until `stop`. Raises at the start for what a person must put right; later troubles are waited out."""
        from sql.store import open_store

        plan = self._plan
        check_plan(plan)
        common = common_config(plan.servers, plan.config_file or None)
        with open_store(plan.warehouse, create=True) as store, ExitStack() as beside:
            partitions = first_look(common, plan.settings.cluster, plan.topics)
            log.info("reading %d partitions of %s", len(partitions), ", ".join(sorted({t for t, _ in partitions})))
            monitor = beside.enter_context(self._monitored(store, common))
            if plan.incidents:
                from pipeline.stream.relay import IncidentTopic, Relay

                topic = IncidentTopic(common, plan.incidents)
                beside.enter_context(Relay(store, plan.settings.cluster, topic))
            self._keep(store, common, partitions, monitor)

    @contextmanager
    def _monitored(self, store: Store, common: dict[str, object]) -> Iterator[Monitor]:
        from pipeline.stream.health import Monitor
        from pipeline.stream.offsets import BrokerEnds

        plan = self._plan
        ends = BrokerEnds(common, wanted(plan.topics))
        with Monitor(store, plan.settings.cluster, ends) as monitor:
            if plan.metrics_port is None:
                yield monitor
                return
            from pipeline.stream.metrics import HOST, MetricsServer

            with MetricsServer(monitor, plan.metrics_port) as server:
                self.metrics_port = server.port
                log.info("metrics at http://%s:%d/metrics, health at /healthz", HOST, server.port)
                yield monitor

    def _keep(self, store: Store, common: dict[str, object], partitions: list[Partition], monitor: Monitor) -> None:
        """Submits, waits, submits again."""
        deaths = 0
        while not self._stop.is_set():
            began = self._clock()
            why = self._once(store, common, partitions, monitor)
            if self._stop.is_set():
                return
            deaths = 0 if self._clock() - began > _OLD_S else deaths
            wait = BACK_OFF[min(deaths, len(BACK_OFF) - 1)]
            deaths += 1
            monitor.pipeline_is("waiting", why)
            log.warning("%s; submitting again in %.0f s", why, wait)
            self._stop.wait(wait)
            try:
                partitions = first_look(common, self._plan.settings.cluster, self._plan.topics)
            except BrokerError as error:
                log.warning("%s", error)

    def _once(self, store: Store, common: dict[str, object], partitions: list[Partition], monitor: Monitor) -> str:
        """One submission from begin to end; returns why it ended."""
        plan = self._plan
        try:
            stored = store.read_stream_progress(plan.settings.cluster)
            at = start_positions(common, plan.settings.cluster, partitions, stored, plan.start, plan.rewind_s)
            self.prism = Prism(prism_path(plan.prism_location)) if plan.runner == PRISM else None
        except (BrokerError, SqlError, StreamError) as error:
            return f"the pipeline cannot be submitted: {error}"
        name = secrets.token_hex(4)
        positions = tuple((t, n, offset) for (t, n), offset in sorted(at.items()))
        submission = Submission(plan, name, positions, self.prism.endpoint if self.prism else "")
        try:
            with self._started(submission) as child:
                monitor.submitted(name, again=self.submissions > 0)
                self.submissions += 1
                while child.poll() is None and not self._stop.wait(0.2):
                    if self.prism is not None and not self.prism.alive:
                        return "Prism died"
                if child.poll() is None:
                    monitor.pipeline_is("draining")
                    return self._drain(child)
                return f"the pipeline ended with {child.returncode}"
        finally:
            if self.prism is not None:
                self.prism.close()

    @contextmanager
    def _started(self, submission: Submission) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", _JOB]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, preexec_fn=leashed)
        self.child = child
        try:
            assert child.stdin is not None
            try:
                child.stdin.write(submission.text() + "\n")
                child.stdin.close()
            except BrokenPipeError:
                log.warning("the pipeline's process ended before it was told what to do")
            yield child
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()

    def _drain(self, child: subprocess.Popen[str]) -> str:
        log.info("draining")
        child.terminate()
        try:
            child.wait(_DRAIN_S)
        except subprocess.TimeoutExpired:
            log.warning("the pipeline did not end within %.0f s; what it was at is done at the next start", _DRAIN_S)
        return "stopped"
