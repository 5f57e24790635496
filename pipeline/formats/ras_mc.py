"""`ras-mc-ctl --errors` and `--summary`: what rasdaemon has written down of memory, PCIe and machine checks.

(rasdaemon's own lines in syslog and the journal are read there.) Each event is a sentence with its stamp; a summary has
no stamps, its counts are sentences of their own:

    ras-mc-ctl: memory: 1 Uncorrected error(s): memory read error at CPU_SrcID#0_MC#1_Chan#0_DIMM#0
    ras-mc-ctl: summary: memory: 3 Corrected errors on CPU_SrcID#0_MC#0_Chan#0_DIMM#0

Forms from rasdaemon's util/ras-mc-ctl.in.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts, Stamp

_SECTION = re.compile(
    r"(?:(?P<kind>Memory controller|PCIe AER|MCE|Extlog|Devlink|Disk|ARM processor|CXL [\w ]{2,40}|Memory failure)"
    r" (?:events?|records?|errors?)(?P<sum> summary)?:|No (?P<none>[\w ]{2,40}?) (?:errors?|events?|records?)\.)\s*$",
    re.IGNORECASE,
)
_EVENT = re.compile(r"\d{1,9} (?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}) (?P<text>\S.{2,2000})$")
_SUM_MEMORY = re.compile(
    r"\s+(?P<type>\w+) on DIMM Label\(s\): '(?P<dimm>[^']{1,120})' location: \S+ errors: (?P<n>\d{1,9})\s*$"
)
_SUM_OTHER = re.compile(r"\s+(?P<n>\d{1,9}) (?P<text>\S.{2,300}?) errors?(?::.*)?\s*$")
_NAMES = {"memory controller": "memory", "pcie aer": "pcie", "mce": "mce"}


class RasMc:
    """Errors that rasdaemon recorded."""

    name = "ras_mc_ctl"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x for x in head[:8192].decode("utf-8", "replace").splitlines() if x.strip()]
        return 0.94 if lines and any(_SECTION.match(x) for x in lines[:3]) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        kind = "other"

        def say(text: str, stamp: Stamp, offset: int, number: int) -> None:
            out.matched(match(f"ras-mc-ctl: {text}", offset=offset, line=number, stamp=stamp), stamp)

        for line in raw_lines(data):
            text = line.text.rstrip()
            if not text:
                continue
            if m := _SECTION.match(text):
                name = (m["kind"] or "").lower()
                kind = _NAMES.get(name, name or "other")
            elif m := _EVENT.match(text):
                say(f"{kind}: {m['text']}", parse_field(m["at"]), line.offset, line.number)
            elif m := _SUM_MEMORY.match(text):
                say(f"summary: {kind}: {m['n']} {m['type']} errors on {m['dimm']}", NO_STAMP, line.offset, line.number)
            elif m := _SUM_OTHER.match(text):
                say(f"summary: {kind}: {m['n']} {m['text']} errors", NO_STAMP, line.offset, line.number)
            else:
                out.quarantine(line.offset, line.length, "not a record of ras-mc-ctl")
        return out.result()


FORMATS = (RasMc(),)
