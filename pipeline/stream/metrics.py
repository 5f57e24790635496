"""`/metrics` for Prometheus and `/healthz`, over HTTP on 127.0.0.1 only.

`/healthz` answers 200 if and only if the stream is alive and progressing, else 503 with the reasons, as JSON.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pipeline.stream.errors import StreamError
from pipeline.stream.stats import COUNTERS, HISTOGRAMS, Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

    from pipeline.stream.health import Monitor, Snapshot

HOST = "127.0.0.1"
_PREFIX = "faultbeam_stream"
_COUNTER_TEXT = {
    "messages": "Messages whose facts are durable, by what they were.",
    "message_bytes": "Bytes of those messages.",
    "dead_letters": "Messages put aside, by reason.",
    "loads": "Transactions that made facts durable.",
    "decided": "Subjects decided.",
    "incidents": "Incidents written: new, changed or retracted.",
    "timers_set": "Timers set in the pipeline's state.",
    "timers_fired": "Timers fired.",
    "database_retries": "Transactions that had to be tried again because the warehouse was away or busy.",
}
_HISTOGRAM_TEXT = {
    "kafka_to_row": "From the time stamp of a message at Kafka to its facts in the warehouse.",
    "end_to_provisional": "From the end of a subject to its first answer.",
    "end_to_final": "From the end of a subject to its final answer.",
    "load": "Duration of a transaction that makes facts durable.",
    "decide": "Duration of deciding what one bundle woke.",
}


class MetricsError(StreamError):
    """Metrics cannot be served."""


class _Collector:
    """Families of the monitor's newest snapshot. Made when asked, so nothing is counted twice."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def describe(self) -> Iterator[Metric]:
        return iter(())  # the families depend on the snapshot; nothing is checked beforehand

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now = self._monitor.snapshot

        def gauge(name: str, text: str, value: float) -> Metric:
            return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)

        yield gauge("up", "1 if the stream is alive and progressing.", float(self._monitor.health().ok))
        yield gauge("warehouse_up", "1 if the warehouse answers.", float(not now.warehouse))
        yield gauge("broker_up", "1 if the broker answers.", float(not now.broker))
        yield gauge(
            "state_timers", "Timers that wait in the pipeline's state.", now.open_timers(self._monitor.submission)
        )
        yield gauge("undecided_sources", "Sources that changed and are not decided yet.", now.undecided)
        yield gauge("outbox_waiting", "Incident messages not delivered yet.", now.outbox)
        restarts = CounterMetricFamily(f"{_PREFIX}_restarts", "Times the pipeline was submitted again.")
        restarts.add_metric((), self._monitor.restarts)
        yield restarts
        yield from _partitions(now)
        memory = GaugeMetricFamily(f"{_PREFIX}_worker_memory_bytes", "Resident memory of a worker.", labels=["worker"])
        for worker, row in sorted(now.workers.items()):
            if row.submission == self._monitor.submission and row.memory:
                memory.add_metric((worker,), row.memory)
        yield memory
        yield from _counts(now)


def _partitions(now: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    labels = ["topic", "partition"]
    lag = GaugeMetricFamily(f"{_PREFIX}_lag_messages", "Messages that are not durable yet.", labels=labels)
    for (topic, partition), n in sorted(now.lag().items()):
        lag.add_metric((topic, str(partition)), n)
    yield lag
    age = GaugeMetricFamily(f"{_PREFIX}_event_age_seconds", "Age of the newest durable event time.", labels=labels)
    offset = GaugeMetricFamily(f"{_PREFIX}_position", "Offset up to which messages are durable.", labels=labels)
    for (topic, partition), (next_offset, event_us) in sorted(now.positions.items()):
        offset.add_metric((topic, str(partition)), next_offset)
        if event_us is not None:
            age.add_metric((topic, str(partition)), max(0.0, (now.at_us - event_us) / 1e6))
    yield offset
    yield age


def _counts(now: Snapshot) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    for name, labels in COUNTERS.items():
        family = CounterMetricFamily(f"{_PREFIX}_{name}", _COUNTER_TEXT[name], labels=list(labels))
        found = {key[1:]: n for key, n in now.totals.counters.items() if key[0] == name}
        if not labels:
            found.setdefault((), 0.0)
        for values, n in sorted(found.items()):
            family.add_metric(values, n)
        yield family
    for name, bounds in HISTOGRAMS.items():
        held = now.totals.histograms.get(name) or Histogram([0] * (len(bounds) + 1))
        seen, buckets = 0, []
        for bound, n in zip((*map(str, bounds), "+Inf"), held.buckets, strict=True):
            seen += n
            buckets.append((bound, float(seen)))
        histogram = HistogramMetricFamily(f"{_PREFIX}_{name}_seconds", _HISTOGRAM_TEXT[name])
        histogram.add_metric((), buckets, held.total)
        yield histogram


class MetricsServer:
    """Serves a monitor's state. port: 0 for any that is free; `port` then tells it. Use as a context manager."""

    def __init__(self, monitor: Monitor, port: int = 0) -> None:
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector
        except ImportError as error:
            raise MetricsError(f"metrics need prometheus_client ({error}): pip install 'faultbeam[stream]'") from error
        registry = CollectorRegistry()
        collector: Any = _Collector(monitor)
        registered: Collector = collector
        registry.register(registered)
        ProcessCollector(registry=registry)
        handler = type("Handler", (_Handler,), {"monitor": monitor, "registry": registry})
        try:
            self._server = ThreadingHTTPServer((HOST, port), handler)
        except OSError as error:
            msg = f"cannot serve metrics at {HOST}:{port} ({error.strerror}): choose another port with --metrics-port"
            raise MetricsError(msg) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="stream-metrics", daemon=True)

    def __enter__(self) -> MetricsServer:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)


class _Handler(BaseHTTPRequestHandler):
    monitor: Monitor
    registry: Any
    server_version = "faultbeam"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.split("?", 1)[0]
        if path == "/healthz":
            health = self.monitor.health()
            body = json.dumps({"ok": health.ok, "reasons": health.reasons, **health.details}) + "\n"
            self._answer(200 if health.ok else 503, "application/json", body.encode())
        elif path == "/metrics":
            from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.registry))
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/metrics and /healthz\n")

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 - a scrape is no event
        del format, args
