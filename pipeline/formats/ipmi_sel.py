"""System event logs of a BMC: `ipmitool sel list|elist`, FreeIPMI's `ipmi-sel`, line, table and record form.

Stamps are those of the BMC's own clock, without zone (`local`; `utc` where the tool prints one). Whose log it is says a
heading such as `# node017: ipmitool sel elist`, else the path. Each entry becomes one sentence for the rules
(`pipeline.records.sel_records`).
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.records.sel_records import Torn, entries, header_of, host_of, looks_like_entry
from schemas.facts import Facts
from schemas.identity import short_host


class IpmiSel:
    """Event log of a baseboard management controller."""

    name = "ipmi.sel"
    family = "bmc"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x for x in head.decode("utf-8", "replace").split("\n")[:60] if x.strip()]
        if not lines:
            return 0.0
        if any(header_of(line) for line in lines[:10]) or re.match(r"\s*SEL Record ID\s*: ", lines[0]):
            return 0.95
        found = sum(looks_like_entry(line) for line in lines)
        return 0.95 if found * 2 >= len(lines) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        lines = list(raw_lines(data))
        host = ""
        named = {}
        for line in lines:
            if found := host_of(line.text):
                named[line.offset] = short_host(found)
        heads = sorted(named)
        for entry in entries(lines):
            if isinstance(entry, Torn):
                out.quarantine(entry.offset, entry.length, entry.reason)
                continue
            while heads and heads[0] < entry.offset:
                host = named[heads.pop(0)]
            at = entry.stamp
            out.matched(match(entry.sentence, offset=entry.offset, line=entry.line, stamp=at, host=host), at)
        hosts = set(named.values())
        if len(hosts) == 1:
            out.host = hosts.pop()
        return out.result()


FORMATS = (IpmiSel(),)
