"""What kubectl prints for people: `describe pods|nodes|jobs` and tables of events.

    k8s.describe        kubectl describe pod fit-worker-0
    k8s.events_table    kubectl get events -A, kubectl events

The text is read into the objects that the API would give (`pipeline.records.k8s_describe`), which go the way of
`k8s.json`: one
sentence an event, condition, ended container and taint, and job runs. Ages in tables have no clock: such events are
without a stamp, unless the description prints a time that dates them.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.k8s_json import Dump, Reader
from pipeline.formats.records import Collector, raw_lines
from pipeline.records.k8s_describe import descriptions, events_of, header, object_of, table_events
from pipeline.records.k8s_objects import pod_key, with_namespaces
from schemas.facts import Facts

_NAME = re.compile(rb'(?m)^(?: ")?Name: {4,}\S')
_SIGNS = (
    re.compile(rb"(?m)^Namespace: {3,}\S"), re.compile(rb"(?m)^Labels: {3,}\S"),
    re.compile(rb"(?m)^Annotations: {2,}\S"),
    re.compile(rb"(?m)^(?:Node|Taints|Controlled By|Pods Statuses|Start Time|CreationTimestamp|Status): {2,}\S"),
    re.compile(rb"(?m)^(?:Containers|Conditions|Allocatable|Pod Template):\s*$"), re.compile(rb"(?m)^Events: *"),
)  # fmt: skip


class Describe:
    """Descriptions of objects."""

    name = "k8s.describe"
    family = "cluster"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if not _NAME.search(head):
            return 0.0
        found = sum(sign.search(head) is not None for sign in _SIGNS)
        return 0.9 if found >= 4 else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        dump = Dump()
        for block in descriptions(list(raw_lines(data))):
            obj = object_of(block)
            at = block.raw
            dump.take(obj, "", at.offset, at.number, at.length)
            for raw, event in events_of(block, obj):
                dump.take(event, "", raw.offset, raw.number, raw.length)
        return _said(dump, out, info, match)


class EventsTable:
    """Events as a table."""

    name = "k8s.events_table"
    family = "cluster"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = head[:4096].decode("utf-8", "replace").splitlines()[:8]
        return 0.9 if any(header(line) for line in lines) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        dump = Dump()
        for raw, event in table_events(list(raw_lines(data))):
            dump.take(event, "", raw.offset, raw.number, raw.length)
        return _said(dump, out, info, match)


def _said(dump: Dump, out: Collector, info: SourceInfo, match: LineMatcher) -> Facts:
    dump.events = with_namespaces(dump.events, {pod_key(pod) for pod, *_ in dump.pods})
    Reader(out, match).read(dump, info.source_id)
    if dump.other:
        out.note = f"{dump.other} objects of kinds that tell nothing here"
    return out.result()


FORMATS = (Describe(), EventsTable())
