"""Shippers' documents that hold many lines: OpenTelemetry's OTLP JSON and Loki's streams.

`otlp.json`: `resourceLogs` > `scopeLogs` > `logRecords`, one document a file or one a line (the collector's file
exporter). The line is `body.stringValue`, or `MESSAGE` of a journald body; the place comes from the attributes of
resource and record (`k8s.pod.name`, `k8s.namespace.name`, `k8s.node.name`, `host.name`, `log.file.path`). Source:
OpenTelemetry's logs data model and semantic conventions.

`loki.json`: what Loki's push and query interfaces carry: `streams` or `data.result`, each with labels and `[ns, line]`.

Every stream becomes a source of its own (`pipeline.scanning.streams`). Torn documents are quarantined.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.formats.shippers import of_labels
from pipeline.records import k8s_objects as k8s
from pipeline.scanning.shipped import Pod, Record, frame_of, stamp_of
from pipeline.scanning.streams import Streams
from schemas.facts import NO_STAMP, Facts, merge_facts

Object = Mapping[str, Any]


def _member(obj: Object, *names: str) -> Any:  # noqa: ANN401 - a member of decoded JSON
    return next((obj[n] for n in names if n in obj), None)


def _objects(value: object) -> Iterator[Object]:
    if isinstance(value, list):
        yield from (v for v in value if isinstance(v, dict))


def _plain(value: object, depth: int = 0) -> Any:  # noqa: ANN401
    """An OTLP value as plain JSON."""
    if not isinstance(value, dict) or depth > 8:
        return value
    for name in ("stringValue", "string_value", "intValue", "int_value", "boolValue", "doubleValue", "double_value"):
        if name in value:
            return value[name]
    if isinstance(listed := _member(value, "kvlistValue", "kvlist_value"), dict):
        return {str(e.get("key")): _plain(e.get("value"), depth + 1) for e in _objects(listed.get("values"))}
    if isinstance(listed := _member(value, "arrayValue", "array_value"), dict):
        return [_plain(e, depth + 1) for e in _objects(listed.get("values"))]
    return ""


def _attributes(obj: Object) -> dict[str, Any]:
    return {str(e.get("key")): _plain(e.get("value")) for e in _objects(obj.get("attributes"))}


def _text(at: Object, *names: str) -> str:
    return next((str(v) for n in names if isinstance(v := at.get(n), (str, int)) and v != ""), "")


def otlp_record(record: Object, place: Object) -> Record | None:
    """One log record under the attributes of its resource."""
    at = {**place, **_attributes(record)}
    body = _plain(record.get("body"))
    ident = ""
    if isinstance(body, dict):
        ident = _text(body, "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT") or ("journal" if "MESSAGE" in body else "")
        at = {"host.name": _text(body, "_HOSTNAME"), **{k: v for k, v in at.items() if v}}
        body = _text(body, "MESSAGE", "message", "log")
    if not isinstance(body, str) or not body:
        return None
    pod = None
    if name := _text(at, "k8s.pod.name"):
        life = _text(at, "k8s.container.restart_count")
        pod = Pod(name, _text(at, "k8s.namespace.name"), _text(at, "k8s.container.name"), _text(at, "k8s.pod.uid"),
                  int(life) if life.isdigit() else -1)  # fmt: skip
    labels = {key[15:]: value for key, value in at.items() if key.startswith("k8s.pod.labels.")}
    for key in ("k8s.job.name", "k8s.jobset.name"):
        if _text(at, key):
            labels.setdefault(k8s.JOB_LABELS[-1], at[key])
    when = stamp_of(_member(record, "timeUnixNano", "time_unix_nano"))
    if when == NO_STAMP:
        when = stamp_of(_member(record, "observedTimeUnixNano", "observed_time_unix_nano"))
    return Record(
        body, when, _text(at, "k8s.node.name", "host.name"), pod, labels,
        _text(at, "log.file.path", "log.file.name", "service.name"), ident, _text(at, "log.iostream"),
    )  # fmt: skip


def _otlp(doc: Object) -> Iterator[Record | None]:
    for resource in _objects(_member(doc, "resourceLogs", "resource_logs")):
        holder = resource.get("resource")
        place = _attributes(holder) if isinstance(holder, dict) else {}
        for scope in _objects(_member(resource, "scopeLogs", "scope_logs", "instrumentationLibraryLogs")):
            for record in _objects(_member(scope, "logRecords", "log_records", "logs")):
                yield otlp_record(record, place)


def _loki(doc: Object) -> Iterator[Record | None]:
    data = doc.get("data")
    found = doc.get("streams") or (data.get("result") if isinstance(data, dict) else None)
    for stream in _objects(found):
        labels = _member(stream, "stream", "labels")
        labels = labels if isinstance(labels, dict) else {}
        values = stream.get("values")
        # the query interface gives the newest first
        rows = [v for v in values if isinstance(v, list) and len(v) >= 2] if isinstance(values, list) else []
        for when, line, *_ in sorted(rows, key=lambda v: str(v[0]).rjust(24)):
            yield of_labels(labels, line, when) if isinstance(line, str) else None


class ShipperDocuments:
    """One kind of document. read: its records in order, None for one that is no log line."""

    family = "shipper"

    def __init__(self, name: str, signs: tuple[bytes, ...], read: Callable[[Object], Iterator[Record | None]]) -> None:
        self.name, self._signs, self._read = name, signs, read

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return 0.0
        return 0.97 if all(any(s in head for s in sign.split(b"|")) for sign in self._signs) else 0.0

    def records(self, doc: Object) -> Iterator[Record | None]:
        """The records of one document in order, None for one that is no log line."""
        return self._read(doc)

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        streams = Streams(info, match)
        lost = 0
        for offset, line, length, doc in self._documents(data, out):
            for n, record in enumerate(self._read(doc)):
                if record is None:
                    lost += 1
                    continue
                frame = frame_of(record)
                out.stamps.append(frame.stamp)
                streams.add(frame, offset + min(n, max(0, length - 1)), line)
        if lost:
            out.note = f"{lost} records that are no log line"
        own = out.result()
        signals = getattr(match, "signal_lines", 0)
        row = replace(own.sources[0], signal_lines=max(own.sources[0].signal_lines, signals))
        return merge_facts([replace(own, sources=(row,)), *streams.facts()])

    def _documents(self, data: bytes, out: Collector) -> Iterator[tuple[int, int, int, Object]]:
        """(offset, line, length, document): the whole file as one, else one a line."""
        lines = [raw for raw in raw_lines(data) if raw.text.strip()]
        first = _load(lines[0].text) if lines else None
        if first is None:
            whole = _load(data.decode("utf-8", "replace").removeprefix("\ufeff"))
            if whole is None:
                out.quarantine(0, len(data), f"torn {self.name} document")
            else:
                yield 0, 1, len(data), whole
            return
        for raw in lines:
            doc = _load(raw.text)
            if doc is None:
                out.quarantine(raw.offset, raw.length, f"torn {self.name} document")
            else:
                yield raw.offset, raw.number, raw.length, doc


def _load(text: str) -> Object | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


FORMATS = (
    ShipperDocuments("otlp.json", (b'"resourceLogs"|"resource_logs"',), _otlp),
    ShipperDocuments("loki.json", (b'"streams"|"stream"', b'"values"'), _loki),
)
