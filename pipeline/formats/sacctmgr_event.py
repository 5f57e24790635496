"""`sacctmgr show event -P`: when each node was down or drained, and why. The only place where old reasons are kept.

A pipe table whose columns include NodeName, TimeStart and Reason, in any order. Each row becomes a sentence for the
rules (`pipeline.records.slurm_nodes`); rows of the cluster itself (no NodeName) are passed over. A row with another
number of fields is quarantined.
"""

from __future__ import annotations

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.records import slurm_fields as sf
from pipeline.records.slurm_nodes import node_word, split_reason
from schemas.facts import Facts

_NEEDED = frozenset({"nodename", "timestart", "reason"})


def _header(text: str) -> list[str] | None:
    names = [n.strip().lower() for n in text.rstrip("\r\n").rstrip("|").split("|")]
    return names if set(names) >= _NEEDED else None


class SacctmgrEvent:
    """History of node states."""

    name = "sacctmgr.event"
    family = "scheduler"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = head.decode("utf-8", "replace").split("\n")[:20]
        return 0.95 if any(_header(line) for line in lines) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        header: list[str] | None = None
        for line in raw_lines(data):
            if found := _header(line.text):
                header = found
                continue
            if header is None or not line.text.strip():
                continue
            cells = line.text.split("|")
            if len(cells) == len(header) + 1 and not cells[-1].strip():
                cells.pop()
            if len(cells) != len(header):
                out.quarantine(line.offset, line.length, f"{len(cells)} fields where the header has {len(header)}")
                continue
            row = dict(zip(header, cells, strict=True))
            at = sf.stamp(row["timestart"])
            out.stamps.append(sf.stamp(row.get("timeend", "")))
            reason, _, _ = split_reason(row["reason"])
            said = node_word(row["nodename"], row.get("state", ""), reason, row.get("user", ""), at)
            if said is None:
                continue
            for sentence in said.sentences:
                out.matched(match(sentence, offset=line.offset, line=line.number, stamp=at, host=said.node), at)
        return out.result()


FORMATS = (SacctmgrEvent(),)
