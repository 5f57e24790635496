"""Lines that a log shipper wrapped in JSON, one object a line: Docker, Fluent Bit, Vector, Filebeat, Loki's logcli.

| format | record | where seen |
|---|---|---|
| `docker.json` | `log`, `stream`, `time` | Docker's json-file driver |
| `fluentbit` | `log` or `message`, `date` or `@timestamp` or `time`, `kubernetes{}` | Fluent Bit, Fluentd |
| `vector` | `message`, `timestamp`, `source_type`, `host`, `file`, `kubernetes{}` | Vector |
| `filebeat` | `message`, `@timestamp`, `host.name`, `log.file.path`, `kubernetes{}` | Filebeat |
| `loki.jsonl` | `labels{}`, `line`, `timestamp` | `logcli query -o jsonl` |

Each line gives the frame of what is inside (`pipeline.scanning.shipped`), in a stream of its own. Rules' literals are
looked for
in the bytes of the JSON text; those that JSON may write otherwise (quotes, slashes, `<`, `>`, `&` of Go's encoder) are
looked for in those forms too, and such lines are decoded and tried against all rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from pipeline.formats.base import Frame, LookBack
from pipeline.formats.kernel_text import MARKS as KERNEL_MARKS
from pipeline.formats.kernel_text import clean, marked
from pipeline.formats.sniffing import sample
from pipeline.records import k8s_objects as k8s
from pipeline.scanning.shipped import JOB, Pod, Record, frame_of, stamp_of
from schemas.facts import NO_STAMP

Object = Mapping[str, Any]

#: What JSON writers escape in rules' anchors that are no plain literals (those: `shipped.escaped_literals`). A line
#: with one of them is tried against all rules.
HIDDEN: tuple[bytes, ...] = (
    rb"i\/o error", rb"I\/O error", rb"nput\/output error", rb": I\/O ", rb"NET\/OFI ", rb"data\/_utils\/worker",
    rb"data\/dataloader", rb"\u003cwarn", rb"\u003Cwarn",
)  # fmt: skip
_WRITTEN = re.compile(rb"\s*\{")


def _text(obj: Object, *names: str) -> str:
    """The first of these members that is a text or a number. `a.b` is looked up flat first, then nested."""
    for name in names:
        value = _get(obj, name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return str(value)
    return ""


def _get(obj: Object, name: str) -> Any:  # noqa: ANN401 - a member of decoded JSON
    if name in obj:
        return obj[name]
    head, _, rest = name.partition(".")
    inner = obj.get(head)
    return _get(inner, rest) if rest and isinstance(inner, dict) else None


def _labels(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def kubernetes(obj: Object) -> tuple[Pod | None, str, Object]:
    """(pod, node, labels) of a record's `kubernetes` member, in the words of any shipper."""
    k = obj.get("kubernetes")
    k = k if isinstance(k, dict) else {f[11:]: v for f, v in obj.items() if f.startswith("kubernetes.")}
    name = _text(k, "pod_name", "pod.name")
    if not name:
        return None, "", {}
    pod = Pod(
        name,
        _text(k, "namespace_name", "pod_namespace", "namespace"),
        _text(k, "container_name", "container.name"),
        _text(k, "pod_id", "pod_uid", "pod.uid"),
    )
    node = _text(k, "host", "pod_node_name", "node.name", "node_name")
    return pod, node, _labels(k.get("labels") or k.get("pod_labels") or _get(k, "pod.labels"))


def _docker(obj: Object) -> Record | None:
    if not isinstance(obj.get("log"), str) or "time" not in obj or obj.get("stream") not in ("stdout", "stderr"):
        return None
    if obj.keys() - {"log", "stream", "time", "attrs"}:
        return None
    attrs = _labels(obj.get("attrs"))
    name = _text(attrs, "io.kubernetes.pod.name")
    pod = None
    if name:
        pod = Pod(name, _text(attrs, "io.kubernetes.pod.namespace"), _text(attrs, "io.kubernetes.container.name"),
                  _text(attrs, "io.kubernetes.pod.uid"))  # fmt: skip
    return Record(obj["log"], stamp_of(obj["time"]), pod=pod)


def _fluent(obj: Object) -> Record | None:
    text = next((obj[n] for n in ("log", "message", "MESSAGE", "msg") if isinstance(obj.get(n), str)), None)
    when = next((obj[n] for n in ("date", "@timestamp", "time", "timestamp", "_time") if n in obj), None)
    if text is None or when is None or "source_type" in obj or "__REALTIME_TIMESTAMP" in obj:
        return None
    pod, node, labels = kubernetes(obj)
    host = node or _text(obj, "host", "hostname", "_HOSTNAME", "node", "node_name")
    path = _text(obj, "file", "filename", "path", "file_path", "tail_path", "log_file")
    ident = _text(obj, "SYSLOG_IDENTIFIER", "ident", "_SYSTEMD_UNIT")
    return Record(text, stamp_of(when), host, pod, labels, path, ident, _text(obj, "stream"))


def _vector(obj: Object) -> Record | None:
    if not isinstance(obj.get("message"), str) or not isinstance(obj.get("source_type"), str):
        return None
    pod, node, labels = kubernetes(obj)
    ident = _text(obj, "SYSLOG_IDENTIFIER", "_COMM", "appname") or ("kernel" if obj["source_type"] == "kmsg" else "")
    if obj["source_type"] == "journald":
        ident = ident or "journal"
    return Record(
        obj["message"], stamp_of(obj.get("timestamp")), node or _text(obj, "host", "_HOSTNAME"), pod, labels,
        _text(obj, "file"), ident, _text(obj, "stream"),
    )  # fmt: skip


def _filebeat(obj: Object) -> Record | None:
    if not isinstance(obj.get("message"), str) or "@timestamp" not in obj:
        return None
    if not any(n in obj for n in ("agent", "ecs", "beat", "input", "log", "log.file.path", "@metadata")):
        return None
    pod, node, labels = kubernetes(obj)
    host = node or _text(obj, "host.name", "host.hostname", "agent.hostname", "beat.hostname")
    ident = _text(obj, "syslog.identifier", "journald.custom.syslog_identifier", "systemd.unit")
    path = _text(obj, "log.file.path", "source")
    return Record(obj["message"], stamp_of(obj["@timestamp"]), host, pod, labels, path, ident, _text(obj, "stream"))


def of_labels(labels: Object, text: str, when: object) -> Record:
    """A line under a set of Loki labels."""
    name = _text(labels, "pod", "pod_name", "k8s_pod_name", "instance_pod")
    pod = None
    if name:
        pod = Pod(
            name, _text(labels, "namespace", "k8s_namespace_name"), _text(labels, "container", "k8s_container_name")
        )
    host = _text(labels, "node_name", "node", "nodename", "host", "hostname", "k8s_node_name")
    if not host and ":" not in (instance := _text(labels, "instance")):
        host = instance if pod is None else ""
    ident = _text(labels, "syslog_identifier", "SYSLOG_IDENTIFIER", "transport")
    job = {label: labels[key] for label in k8s.JOB_LABELS if (key := re.sub(r"\W", "_", label)) in labels}
    return Record(
        text, stamp_of(when), host, pod, job, _text(labels, "filename", "file"), ident, _text(labels, "stream")
    )


def _logcli(obj: Object) -> Record | None:
    labels, line = obj.get("labels"), obj.get("line")
    if not isinstance(labels, dict) or not isinstance(line, str):
        return None
    return of_labels(labels, line, obj.get("timestamp"))


@lru_cache(maxsize=256)
def _object(line: str) -> Object | None:
    """The object of a line. Cached, because one line is framed, marked and read for progress."""
    try:
        value = json.loads(line.strip().rstrip(",").lstrip("[") or "null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Shipper:
    """One shipper's JSON lines. read: the record of an object, None where it is not this shipper's."""

    family = "shipper"
    progress = True
    shipped = True
    hidden = HIDDEN
    marks: tuple[bytes, ...] = (*JOB.marks, *KERNEL_MARKS, *HIDDEN)

    def __init__(self, name: str, read: Callable[[Object], Record | None], sure: float) -> None:
        self.name, self._read, self._sure = name, read, sure

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if not _WRITTEN.match(head[:256]):
            return 0.0
        lines = [line for line in sample(head)[:40] if line.strip()]
        mine = sum((obj := _object(line)) is not None and self._read(obj) is not None for line in lines)
        # the last line of a head may be cut
        return self._sure * min(1.0, mine / max(1, len(lines) - (len(lines) > 1))) if mine else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:  # noqa: ARG002 - a record stands alone
        obj = _object(line)
        record = self._read(obj) if obj is not None else None
        if record is None:
            return Frame(clean(line), NO_STAMP, ok=False)
        return frame_of(record)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        stream = frame.stream
        if stream is None:
            return {}
        if stream.family == "job":
            found: dict[str, str] = {}
            for text in frame.text.split("\n"):
                found.update(JOB.mark(text, frame))
            return found
        return marked("", frame)


#: Readers of one record each, the surest first.
_READERS: tuple[Callable[[Object], Record | None], ...] = (_docker, _filebeat, _vector, _logcli, _fluent)


def record_of(obj: Object) -> Record | None:
    """What one object says, whichever shipper wrote it; None where none of them did."""
    for read in _READERS:
        record = read(obj)
        if record is not None:
            return record
    return None


def file_place(obj: Object) -> tuple[int, str] | None:
    """(byte offset of the record's line in its own file, what tells this file from others of its path).

    None where the shipper does not say. Filebeat: `log.offset` with `log.file.fingerprint`, `log.file.inode`; Vector,
    Fluent Bit: `offset` where they were told to add it.
    """
    for name in ("log.offset", "offset"):
        offset = _get(obj, name)
        if isinstance(offset, int) and not isinstance(offset, bool) and 0 <= offset < 1 << 62:
            return offset, _text(obj, "log.file.fingerprint", "log.file.inode", "inode")
    return None


FORMATS = (
    Shipper("docker.json", _docker, 0.97),
    Shipper("filebeat", _filebeat, 0.96),
    Shipper("fluentbit", _fluent, 0.9),
    Shipper("loki.jsonl", _logcli, 0.95),
    Shipper("vector", _vector, 0.95),
)
