"""From a shipper's record to the frame of the line inside it. Pure.

Shippers put one line of some log into a record of their own, with a stamp and words about where it came from. What is
inside goes through the format that would have read the original file: container output as job output, syslog and
kernel lines as such. Which it is, is told by the record and the line alone (pod, path, identifier, header), never by
neighbours. The record's stamp counts, in UTC; where it has none, the line's own.

Each pod's container and each host's file becomes a `Stream` of its own, so nothing of two streams ever mixes.
Job ids come from the pod's labels, else from its name (`k8s_objects.job_stem`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipeline.formats import syslog_line
from pipeline.formats.base import Frame, Stream
from pipeline.formats.joblog import JobLog
from pipeline.formats.kernel_text import clean
from pipeline.records import k8s_objects as k8s
from pipeline.scanning.lookback import NoBack
from pipeline.stamps import parse_field, uptime
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl

#: Lines of one record (a joined traceback) that are read; what is behind them is cut.
MAX_LINES = 400
JOB = JobLog()
#: What CRI runtimes write before each line; a shipper that does not parse it ships it along.
CRI = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([PF])(?::\w+)* ?"
)
_LOG_FILE = re.compile(
    r"(?:^|/)(?:messages|syslog|kern(?:\.log)?|dmesg|daemon\.log|auth\.log|secure|cron)(?:[.-]\S*)?$"
)
_POD_DIR = re.compile(r"(?:^|/)pods/([^_/]+)_([^_/]+)_([^/]+)/([^/]+)/(\d+)\.log")
_ANY_POD_DIR = re.compile(r"(?:^|[/!])([a-z0-9-]+)_([a-z0-9.-]+)_([0-9a-f-]{8,36})/([^/]+)/(\d+)\.log")
_POD_FILE = re.compile(r"(?:^|/)([a-z0-9.-]+)_([a-z0-9-]+)_([a-z0-9.-]+?)-([0-9a-f]{12,64})\.log")
_KMSG = re.compile(r"\d{1,3},\d{1,12},\d{1,16},[-c][^;]{0,40};")


@dataclass(frozen=True, slots=True)
class Pod:
    """A container's place, as a path or a record names it. restart: number of the container's life, -1 unknown."""

    name: str
    namespace: str = ""
    container: str = ""
    uid: str = ""
    restart: int = -1


@dataclass(frozen=True, slots=True)
class Record:
    """What a shipper's record says. text: the inner line or lines. ident: syslog identifier of a journal record."""

    text: str
    stamp: Stamp = NO_STAMP
    host: str = ""
    pod: Pod | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    ident: str = ""
    stream: str = ""


def escaped_literals(ruleset: RulesetImpl) -> tuple[bytes, ...]:
    """Rules' literal anchors as JSON writers may write them otherwise: quotes, slashes, non-ASCII, `<`, `>`, `&`."""
    return _escaped(tuple([anchor.text for anchor, _ in ruleset.anchors if anchor.kind == "literal"]))


@lru_cache(maxsize=4)
def _escaped(literals: tuple[str, ...]) -> tuple[bytes, ...]:
    # asked for with every shipped file, and the same for all of them
    out: set[str] = set()
    for literal in literals:
        plain = json.dumps(literal, ensure_ascii=False)[1:-1]
        coded = json.dumps(literal)[1:-1]
        for text in (plain, coded):
            for lower in (True, False):
                go = text
                for ch in "<>&":
                    go = go.replace(ch, f"\\u{ord(ch):04x}" if lower else f"\\u{ord(ch):04X}")
                out.update((text, go, text.replace("/", "\\/")))
        out.discard(literal)
    return tuple(sorted(t.encode() for t in out))


def pod_of_path(path: str) -> Pod | None:
    """The pod that a kubelet's path of a container log names; None for other paths."""
    if m := _POD_DIR.search(path) or _ANY_POD_DIR.search(path):
        return Pod(m[2], m[1], m[4], m[3], int(m[5]))
    if m := _POD_FILE.search(path):
        return Pod(m[1], m[2], m[3])
    return None


def job_of(pod: Pod, labels: Mapping[str, Any]) -> str:
    """The job that a pod belongs to: by label, else by its name; "" for pods of the cluster itself."""
    if k8s.is_system(pod.namespace, pod.name):
        return ""
    for label in k8s.JOB_LABELS:
        value = labels.get(label) or labels.get(re.sub(r"\W", "_", label))
        if value:
            return str(value)
    return "" if k8s.is_service_name(pod.name) else k8s.job_stem(pod.name)


def pod_facts(pod: Pod) -> tuple[str, ...]:
    """A pod's names as facts of its log."""
    named = (
        ("pod", f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name), ("container", pod.container),
        ("pod_uid", pod.uid), ("container_restart", str(pod.restart) if pod.restart >= 0 else ""),
    )  # fmt: skip
    return tuple(f"{name}={value}" for name, value in named if value)


def stamp_of(value: object) -> Stamp:
    """A record's stamp: RFC 3339, or seconds, milliseconds, microseconds or nanoseconds since 1970."""
    if isinstance(value, bool) or value is None:
        return NO_STAMP
    if isinstance(value, str):
        text = value.strip()
        if text.replace(".", "", 1).isdigit():
            return _epoch(text)
        found = parse_field(text)
        return found if found.kind in ("utc", "local") else NO_STAMP
    return _epoch(repr(value)) if isinstance(value, (int, float)) and 0 < value < 1e20 else NO_STAMP


def _epoch(text: str) -> Stamp:
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or len(whole) > 20 or (fraction and not fraction.isdigit()):
        return NO_STAMP
    n = int(whole)
    if n < 10**8:
        return NO_STAMP
    if n < 10**11:
        return Stamp("utc", n * 1_000_000 + int(fraction[:6].ljust(6, "0") or 0))
    return Stamp("utc", n * 1000 if n < 10**14 else n if n < 10**17 else n // 1000)


def frame_of(record: Record) -> Frame:
    """The frame of the line inside a record, with its stream."""
    text, stamp = record.text.rstrip("\r\n"), record.stamp
    if m := CRI.match(text):
        text, stamp = text[m.end() :], parse_field(m[1])
    pod = _together(record.pod, pod_of_path(record.path))
    if pod is not None:
        return _of_pod(record, pod, text, stamp)
    if record.ident or _LOG_FILE.search(record.path) or _headed(text):
        return _of_host(record, text, stamp)
    inner = _job(text, stamp)
    host = short_host(record.host) if record.host else ""
    key = "/".join(p for p in (f"hosts/{host}" if host else "", record.path.strip("/") or "output.log") if p)
    return replace(inner, host=inner.host or host, stream=Stream(key, "job", JOB.name, host, progress=True))


def _together(told: Pod | None, named: Pod | None) -> Pod | None:
    """What the record says of its pod, with what only the path says (which life of the container it is)."""
    if told is None or named is None:
        return told or named
    return Pod(
        told.name,
        told.namespace or named.namespace,
        told.container or named.container,
        told.uid or named.uid,
        told.restart if told.restart >= 0 else named.restart,
    )


def _headed(text: str) -> bool:
    """Whether a line has the header of syslog or of the kernel."""
    if _KMSG.match(text):
        return True
    found = uptime(text)
    if found is not None and found[0].kind == "mono":
        return True
    parts = syslog_line.split(text)
    return (
        parts is not None
        and bool(parts.host and parts.tag)
        and (parts.header in ("bsd", "5424") or (parts.header == "iso" and text[10:11] == "T"))
    )


def _of_host(record: Record, text: str, stamp: Stamp) -> Frame:
    """A line of a host's own log: syslog, journal or kernel."""
    host = short_host(record.host) if record.host else ""
    extra = {"tag": record.ident} if record.ident else {}
    if m := _KMSG.match(text):
        text = text[m.end() :]
    inner = Frame(text, ok=False)
    up = uptime(text)
    booted = up is not None and up[0].kind == "mono"
    # a line that begins with an uptime is the kernel's: the driver's name behind it is no host
    if not booted and not record.ident and (parts := syslog_line.split(text)) is not None and parts.host:
        inner = syslog_line.frame_line(text, NoBack())
    if not inner.ok:
        body, clock = text, None
        if up is not None and booted:
            body = text[up[1] :].removeprefix(" ")
            clock = ("utc", up[0].us, stamp.us) if stamp.kind == "utc" else None
        inner = Frame(
            clean(body.replace("\n", " ")), up[0] if up and stamp.kind == "none" else NO_STAMP, "", None, clock
        )
    clock = inner.clock
    if inner.ok and stamp.kind == "utc" and clock is not None:
        clock = ("utc", clock[1], stamp.us)
    host = host or (short_host(inner.host) if inner.host else "")
    return Frame(
        inner.text,
        stamp if stamp.kind != "none" else inner.stamp,
        host,
        inner.rank,
        clock,
        {**inner.extra, **extra},
        inner.ok,
        _host_stream(host, record.path, journal=bool(record.ident)),
    )


@lru_cache(maxsize=50_000)
def _host_stream(host: str, path: str, *, journal: bool) -> Stream:
    name = path.strip("/") or ("journal" if journal else "syslog")
    key = f"hosts/{host}/{name}" if host else name
    family, fmt = ("journal", "journal.json") if journal else ("syslog", "syslog.iso")
    return Stream(key, family, fmt, host)


def _of_pod(record: Record, pod: Pod, text: str, stamp: Stamp) -> Frame:
    job = job_of(pod, record.labels)
    host = short_host(record.host) if record.host else ""
    inner = _job(text, stamp)
    # NCCL prints the pod's own name for a host: the node is where it stands
    said = "" if inner.host in ("", short_host(pod.name), pod.name) else inner.host
    folder = "_".join(p for p in (pod.namespace, pod.name, pod.uid) if p)
    life = f"{max(pod.restart, 0)}.log"
    system = k8s.is_system(pod.namespace, pod.name)
    stream = Stream(
        f"pods/{folder}/{pod.container or 'container'}/{life}",
        "other" if system else "job",
        "text" if system else JOB.name,
        host,
        (job,) if job else (),
        pod_facts(pod),
        progress=not system,
    )
    return replace(inner, host=said or host, stream=stream)


def _job(text: str, stamp: Stamp) -> Frame:
    """Job output as a frame; a record of several lines keeps its line ends."""
    lines = text.split("\n")
    first = JOB.frame(lines[0], NoBack())
    if len(lines) > 1:
        rest = [JOB.frame(line, NoBack()).text for line in lines[1:MAX_LINES]]
        first = replace(first, text="\n".join([first.text, *rest]))
    extra = {k: v for k, v in first.extra.items() if k != "utc_offset"} if stamp.kind != "none" else first.extra
    return replace(first, stamp=stamp if stamp.kind != "none" else first.stamp, extra=extra)
