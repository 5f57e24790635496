"""Writes lines as each shipper would ship them, for tests: (where, microseconds, text) in, bytes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any


@dataclass(frozen=True)
class Place:
    """Where a line comes from: a pod's container on a node, or a file of a host."""

    host: str
    pod: str = ""
    file: str = ""


Shipped = tuple[Place, int, str]


def iso(us: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _fluent(place: Place, us: int, text: str) -> dict[str, Any]:
    if place.pod:
        k = {"pod_name": place.pod, "namespace_name": "train", "host": place.host, "container_name": "main"}
        return {"date": us / 1e6, "log": text + "\n", "stream": "stdout", "kubernetes": k}
    return {"date": us / 1e6, "log": text, "file": place.file, "host": place.host}


def _vector(place: Place, us: int, text: str) -> dict[str, Any]:
    out: dict[str, Any] = {"message": text, "timestamp": iso(us), "source_type": "file", "host": place.host}
    if place.pod:
        k = {"pod_name": place.pod, "pod_namespace": "train", "pod_node_name": place.host, "container_name": "main"}
        return {**out, "source_type": "kubernetes_logs", "kubernetes": k}
    return {**out, "file": place.file}


def _filebeat(place: Place, us: int, text: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "@timestamp": iso(us),
        "message": text,
        "agent": {"type": "filebeat"},
        "ecs": {"version": "8"},
    }
    if place.pod:
        k = {
            "pod": {"name": place.pod},
            "namespace": "train",
            "node": {"name": place.host},
            "container": {"name": "main"},
        }
        return {**out, "kubernetes": k, "host": {"name": "filebeat-x7"}}
    return {**out, "host": {"name": place.host}, "log": {"file": {"path": place.file}}}


def _logcli(place: Place, us: int, text: str) -> dict[str, Any]:
    labels = {"namespace": "train", "pod": place.pod, "container": "main", "node_name": place.host}
    if not place.pod:
        labels = {"filename": place.file, "host": place.host}
    return {"labels": labels, "line": text, "timestamp": iso(us)}


def _otlp_record(place: Place, us: int, text: str) -> dict[str, Any]:
    at = {"k8s.pod.name": place.pod, "k8s.namespace.name": "train", "k8s.node.name": place.host}
    if not place.pod:
        at = {"host.name": place.host, "log.file.path": place.file}
    attributes = [{"key": k, "value": {"stringValue": v}} for k, v in at.items()]
    record = {"timeUnixNano": str(us * 1000), "body": {"stringValue": text}, "attributes": []}
    return {"resource": {"attributes": attributes}, "scopeLogs": [{"scope": {}, "logRecords": [record]}]}


def _lines(make: Callable[[Place, int, str], dict[str, Any]]) -> Callable[[Iterable[Shipped]], bytes]:
    def write(lines: Iterable[Shipped]) -> bytes:
        return b"".join(json.dumps(make(*line), separators=(",", ":")).encode() + b"\n" for line in lines)

    return write


def _otlp(lines: Iterable[Shipped]) -> bytes:
    docs = [json.dumps({"resourceLogs": [_otlp_record(*line)]}) for line in lines]
    return ("\n".join(docs) + "\n").encode()


def _loki(lines: Iterable[Shipped]) -> bytes:
    streams: dict[Place, list[list[str]]] = {}
    for place, us, text in lines:
        streams.setdefault(place, []).append([str(us * 1000), text])
    found = [{"stream": _logcli(place, 0, "")["labels"], "values": rows[::-1]} for place, rows in streams.items()]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": found}}).encode()


WRITERS: dict[str, Callable[[Iterable[Shipped]], bytes]] = {
    "fluentbit": _lines(_fluent),
    "vector": _lines(_vector),
    "filebeat": _lines(_filebeat),
    "loki.jsonl": _lines(_logcli),
    "otlp.json": _otlp,
    "loki.json": _loki,
}
