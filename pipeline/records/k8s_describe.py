"""`kubectl describe` text and event tables as the objects that the API would give. Pure; nothing here raises.

Only what runs and rules need is taken: names, labels, owner, node, states of containers, conditions, taints, events.
Events of text carry ages ("3m (x5 over 58m)"), which count from when the command ran; that moment is taken from a pod
whose start is printed as a time and whose `Scheduled` event has an age, and is not guessed where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from pipeline.formats.records import RawLine

Object = dict[str, Any]

_FIELD = re.compile(r"( *)([A-Z][\w ./()-]{0,60}?|[a-z][\w.-]{0,62}(?=:\s*$)):(?: +(.*)|\s*)$")
_AGE = re.compile(r"(\d+)([smhdy])")
_TABLE_AGE = re.compile(
    r"(<invalid>|<unknown>|(?:\d+[smhdy])+|\d{4}-\d\d-\d\dT\S+)(?: \(x(\d+) over ((?:\d+[smhdy])+)\))?"
)
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
#: Kinds in a table's OBJECT column, as kubectl writes them in lower case.
_KINDS = {
    k.lower(): k
    for k in ("Pod", "Node", "Job", "PyTorchJob", "TFJob", "MPIJob", "TrainJob", "JobSet", "RayJob", "RayCluster",
              "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Service", "CronJob", "Workload")
}  # fmt: skip


@dataclass(slots=True)
class Block:
    """One line of a description with what stands deeper below it."""

    name: str
    value: str
    raw: RawLine
    rows: list[RawLine] = field(default_factory=list)
    inner: list[Block] = field(default_factory=list)

    def get(self, name: str) -> Block | None:
        return next((b for b in self.inner if b.name == name), None)

    def text(self, name: str) -> str:
        found = self.get(name)
        return "" if found is None or found.value in ("<none>", "<unset>", "<unknown>") else found.value


def descriptions(lines: Sequence[RawLine]) -> Iterator[Block]:
    """The objects of a text, each with its blocks. Lines around them are passed over."""
    current: Block | None = None
    stack: list[tuple[int, Block]] = []
    for raw in lines:
        text = raw.text.removeprefix(' "').rstrip('"') if current is None else raw.text.rstrip('"')
        m = _FIELD.match(text)
        if m and not m[1] and m[2] == "Name" and m[3]:
            if current is not None:
                yield current
            current = Block("", m[3].strip(), raw)
            stack = [(-1, current)]
        if current is None or not text.strip():
            continue
        indent = len(text) - len(text.lstrip(" "))
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        top = stack[-1][1]
        if m:
            block = Block(m[2], (m[3] or "").strip(), raw)
            top.inner.append(block)
            stack.append((indent, block))
        for _, above in stack[1:]:
            above.rows.append(raw)
    if current is not None:
        yield current


def when(text: str) -> str:
    """A time of a description (`Tue, 26 Nov 2024 15:16:52 +0100`) as RFC 3339 in UTC; "" for none."""
    try:
        found = parsedate_to_datetime(text)
        return "" if found.tzinfo is None else found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def age_s(text: str) -> int | None:
    """Seconds of an age (`3m30s`, `2d`)."""
    parts = _AGE.findall(text)
    return sum(int(n) * _UNIT[u] for n, u in parts if len(n) < 8) if parts else None


def table(rows: Sequence[RawLine], first: str) -> Iterator[tuple[RawLine, dict[str, str]]]:
    """Rows of a column table by the places of its header, which begins with `first`; the last one may hold blanks."""
    columns: list[tuple[str, int]] = []
    for raw in rows:
        text = raw.text.rstrip('"')
        if not columns:
            if text.lstrip().startswith(first):
                columns = [(m[0], m.start()) for m in re.finditer(r"\S+(?: \S+)*", text)]
            continue
        if not text.strip() or set(text.strip()) <= {"-", " "}:
            continue
        cells: dict[str, str] = {}
        for i, (name, start) in enumerate(columns):
            stop = columns[i + 1][1] if i + 1 < len(columns) else len(text)
            cells[name.lower()] = text[start:stop].strip()
        yield raw, cells


def _labels(block: Block | None) -> dict[str, str]:
    if block is None:
        return {}
    words = [block.value, *(r.text.strip() for r in block.rows[1:])]
    return dict(w.split("=", 1) for w in words if "=" in w and " " not in w)


def _state(block: Block | None) -> Object:
    """`State:` or `Last State:` of a container."""
    if block is None:
        return {}
    if block.value == "Terminated":
        code = block.text("Exit Code")
        return {
            "terminated": {
                "reason": block.text("Reason"),
                "exitCode": int(code) if code.lstrip("-").isdigit() else None,
                "message": block.text("Message"),
                "startedAt": when(block.text("Started")),
                "finishedAt": when(block.text("Finished")),
            }
        }
    if block.value == "Running":
        return {"running": {"startedAt": when(block.text("Started"))}}
    return {"waiting": {"reason": block.text("Reason")}} if block.value == "Waiting" else {}


def _containers(block: Block | None) -> tuple[list[Object], list[Object]]:
    """(specifications, statuses) of `Containers:`."""
    specs: list[Object] = []
    statuses: list[Object] = []
    for c in block.inner if block is not None else ():
        limits = c.get("Limits")
        found = {b.name: b.value for b in limits.inner} if limits is not None else {}
        # a resource's name begins with a small letter and has a value: no field to us, so it is read from the rows
        for raw in limits.rows[1:] if limits is not None else ():
            name, _, value = raw.text.strip().partition(":")
            found.setdefault(name, value.strip())
        specs.append({"name": c.name, "resources": {"limits": found}})
        restarts = c.text("Restart Count")
        statuses.append(
            {
                "name": c.name,
                "state": _state(c.get("State")),
                "lastState": _state(c.get("Last State")),
                "restartCount": int(restarts) if restarts.isdigit() else 0,
            }
        )
    return specs, statuses


def _conditions(block: Block | None) -> list[Object]:
    if block is None:
        return []
    return [
        {"type": c.get("type", ""), "status": c.get("status", ""), "reason": c.get("reason", ""),
         "message": c.get("message", ""), "lastTransitionTime": when(c.get("lasttransitiontime", ""))}
        for _, c in table(block.rows, "Type")
    ]  # fmt: skip


def kind_of(b: Block) -> str:
    """Pod, Node or Job, by the fields that only these have; "" for other kinds."""
    if b.get("System Info") or b.get("Allocatable"):
        return "Node"
    if b.get("Containers") and b.get("Node") and (b.get("IP") or b.get("Status")):
        return "Pod"
    return "Job" if b.get("Pods Statuses") else b.text("Kind")


def object_of(b: Block) -> Object:
    """The API's object of a description."""
    kind = kind_of(b)
    meta: Object = {"name": b.text("Name"), "namespace": b.text("Namespace"), "labels": _labels(b.get("Labels"))}
    owner, _, owner_name = b.text("Controlled By").partition("/")
    if owner_name:
        meta["ownerReferences"] = [{"kind": owner, "name": owner_name, "controller": True}]
    if created := when(b.text("CreationTimestamp")):
        meta["creationTimestamp"] = created
    out: Object = {"apiVersion": "v1", "kind": kind, "metadata": meta}
    if kind == "Pod":
        specs, statuses = _containers(b.get("Containers"))
        node = b.text("Node").split("/")[0]
        out["spec"] = {"nodeName": node, "containers": specs}
        out["status"] = {
            "phase": b.text("Status").split(" ")[0], "reason": b.text("Reason"), "message": b.text("Message"),
            "startTime": when(b.text("Start Time")), "containerStatuses": statuses,
        }  # fmt: skip
    elif kind == "Node":
        taints = b.get("Taints")
        words = [taints.value, *(r.text.strip() for r in taints.rows[1:])] if taints is not None else []
        parts = [w.rpartition(":") for w in words if ":" in w]
        out["spec"] = {"taints": [{"key": k.split("=")[0], "effect": e} for k, _, e in parts]}
        out["status"] = {"conditions": _conditions(b.get("Conditions")), "nodeInfo": {}}
    else:
        failed = re.search(r"(\d+) Failed", b.text("Pods Statuses"))
        done = when(b.text("Completed At"))
        out["status"] = {"startTime": when(b.text("Start Time")), "completionTime": done, "conditions": []}
        if done:
            out["status"]["conditions"] = [{"type": "Complete", "status": "True", "lastTransitionTime": done}]
        elif failed and int(failed[1]) and re.search(r"(?:^|\D)0 Active", b.text("Pods Statuses")):
            out["status"]["conditions"] = [{"type": "Failed", "status": "True"}]
    return out


def _times(age: str, now: datetime | None) -> tuple[str, str, int]:
    """(first, last, count) of an age column, "" where it cannot be told."""
    m = _TABLE_AGE.match(age)
    if m is None:
        return "", "", 1
    count = int(m[2]) if m[2] and len(m[2]) < 9 else 1
    if m[1][:1].isdigit() and "T" in m[1]:
        return m[1], m[1], count
    last, over = age_s(m[1]), age_s(m[3] or "")
    if now is None or last is None:
        return "", "", count

    def at(seconds: int) -> str:
        return (now - timedelta(seconds=min(seconds, 10**9))).strftime("%Y-%m-%dT%H:%M:%SZ")

    return at(max(over or 0, last)), at(last), count


def events_of(b: Block, obj: Mapping[str, Any]) -> Iterator[tuple[RawLine, Object]]:
    """The events at the end of a description, as Event objects."""
    block = b.get("Events")
    rows = list(table(block.rows, "Type")) if block is not None else []
    started = when(b.text("Start Time"))
    now = None
    for _, c in rows:
        seconds = age_s(c.get("age", ""))
        if c.get("reason") == "Scheduled" and started and seconds is not None and seconds < 10**9:
            now = datetime.fromisoformat(started.replace("Z", "+00:00")) + timedelta(seconds=seconds)
    for raw, c in rows:
        if c.get("reason"):
            about = {"kind": obj["kind"], **{k: obj["metadata"][k] for k in ("name", "namespace")}}
            yield raw, _event(about, c, c.get("age", ""), now)


def _event(about: Mapping[str, Any], cells: Mapping[str, str], age: str, now: datetime | None) -> Object:
    first, last, count = _times(age, now)
    return {
        "kind": "Event", "apiVersion": "v1", "involvedObject": dict(about), "type": cells.get("type", "Normal"),
        "reason": cells.get("reason", ""), "message": cells.get("message", ""), "firstTimestamp": first,
        "lastTimestamp": last, "count": count, "metadata": {"namespace": about.get("namespace", "")},
    }  # fmt: skip


def table_events(lines: Sequence[RawLine]) -> Iterator[tuple[RawLine, Object]]:
    """The rows of `kubectl get events` or `kubectl events`, as Event objects."""
    first = next((h for raw in lines if (h := header(raw.text))), "")
    for raw, c in table(lines, first) if first else ():
        kind, _, name = c.get("object", "").partition("/")
        if not name or not c.get("reason"):
            continue
        kind = _KINDS.get(kind.lower().split(".")[0], kind)
        about = {"kind": kind, "name": name, "namespace": c.get("namespace", "")}
        yield raw, _event(about, c, c.get("last seen", c.get("lastseen", "")), None)


def header(text: str) -> str:
    """The first column's name if a line is the header of an event table, else ""."""
    if not re.match(r"(?:NAMESPACE +)?LAST ?SEEN +", text) or not re.search(r"\bREASON +(?:OBJECT|KIND)\b", text):
        return ""
    return "NAMESPACE" if text.startswith("NAMESPACE") else "LAST"
