"""JSON of Slurm's commands: `sacct --json`, `squeue --json`, `scontrol show job|node --json`, `sinfo --json`.

Two formats, because accounting knows ends for certain and the queue only sees the present. A cut document gives the
jobs before the cut. Fragments come from `pipeline.records.slurm_json`; node records become sentences for the rules
and boot times (`boot:<host>`, UTC).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from pipeline.records.json_items import Broken, iter_items
from pipeline.records.slurm_json import job_fragments, time, word
from pipeline.records.slurm_nodes import node_word
from schemas.facts import NO_STAMP, Facts

_KEYS = frozenset({"jobs", "nodes"})
_META = re.compile(rb'"(?:Slurm|slurm|data_parser|plugins?|openapi/[^"]*)"\s*:')
_JOBS = re.compile(rb'"(?:jobs|nodes)"\s*:\s*\[')
_QUEUE = re.compile(rb'"(?:job_state|state_reason|slurmd_start_time|real_memory|partitions)"\s*:')
_ACCOUNTING = re.compile(
    rb'"(?:association|derived_exit_code|steps|submission|kill_request_user|allocation_nodes)"\s*:'
)


def _node(node: Mapping[str, Any], offset: int, line: int, out: Collector, match: LineMatcher) -> None:
    name = word(node.get("name")) or word(node.get("hostname"))
    flags = word(node.get("state_flags"))
    state = "+".join(x for x in (word(node.get("state")).replace(",", "+"), flags.replace(",", "+")) if x)
    said = node_word(name, state, word(node.get("reason")).strip(), word(node.get("reason_set_by_user")))
    booted = time(node.get("boot_time"))
    if said is None:
        return
    if booted != NO_STAMP:
        out.facts.add(f"boot:{said.node}={booted.us}")
    at = time(node.get("reason_changed_at"))
    for sentence in said.sentences:
        out.matched(match(sentence, offset=offset, line=line, stamp=at, host=said.node), at)


def _is_node(value: Mapping[str, Any]) -> bool:
    return "job_id" not in value and ("slurmd_start_time" in value or "real_memory" in value)


class SlurmJson:
    """Jobs and nodes of Slurm as JSON; `queue` says which commands' output this instance takes."""

    family = "scheduler"

    def __init__(self, name: str, queue: bool) -> None:
        self.name, self.queue = name, queue

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{" or not _JOBS.search(head):
            return 0.0
        queue, accounting = len(_QUEUE.findall(head)), len(_ACCOUNTING.findall(head))
        if queue + accounting == 0 and not (_META.search(head) and b'"job_id"' in head):
            return 0.0
        # `derived_exit_code` stands in both; `job_state` only in the queue's.
        is_queue = queue > 0 and (b'"job_state"' in head or b'"slurmd_start_time"' in head or accounting == 0)
        return 0.96 if is_queue == self.queue else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        for item in iter_items(data, _KEYS):
            if isinstance(item, Broken):
                out.quarantine(item.offset, item.length, item.reason)
            elif not item.key:
                continue  # the document's own head and tail
            elif not isinstance(item.value, dict):
                out.quarantine(item.offset, item.length, f"not an object in the list {item.key!r}")
            elif _is_node(item.value):
                _node(item.value, item.offset, item.line, out, match)
            elif item.key == "jobs":
                found = job_fragments(item.value, info.source_id, item.offset, item.line)
                for fragment in found:
                    out.fragment(fragment)
                if not found:
                    out.quarantine(item.offset, item.length, "a job without a job_id")
        return out.result()


FORMATS = (SlurmJson("sacct.json", queue=False), SlurmJson("squeue.json", queue=True))
