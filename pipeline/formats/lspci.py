"""`lspci`, with `-nn`, `-v`, `-vv`, `-vvv`: which PCI devices a host sees and how their links run.

It holds no time. What is wrong becomes a sentence (`lspci: 0000:4d:00.0: does not answer (rev ff)`), the GPUs,
NVSwitches and RDMA adapters become facts: `pci_device:<bdf>=<class> <name>`.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.formats.sniffing import sample
from schemas.facts import NO_STAMP, Facts

_DEVICE = re.compile(
    r"(?P<bdf>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<class>[^:\"]{3,60}): (?P<name>.{2,200}?)"
    r"(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if .*\))?$"
)
_WATCHED = re.compile(r"NVIDIA|Mellanox|Infiniband|InfiniBand|Processing accelerators|Habana|Elastic Fabric")
_LINK = re.compile(
    r"\s+LnkSta:\s*Speed (?P<speed>[\d.]+GT/s)(?: \((?P<s>\w+)\))?, Width x(?P<width>\d+)(?: \((?P<w>\w+)\))?"
)
_FATAL = re.compile(r"\s+DevSta:.*FatalErr\+")


class Lspci:
    """PCI devices of a host."""

    name = "lspci"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = sample(head)  # indented lines do not count
        mine = sum(_DEVICE.match(line) is not None for line in lines)
        return 0.93 if lines and mine * 10 >= len(lines) * 8 else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        bdf, watched = "", False

        def say(text: str, offset: int, line: int) -> None:
            out.matched(match(f"lspci: {bdf}: {text}", offset=offset, line=line, stamp=NO_STAMP), NO_STAMP)

        for line in raw_lines(data):
            if m := _DEVICE.match(line.text):
                bdf = m["bdf"] if m["bdf"].count(":") == 2 else f"0000:{m['bdf']}"
                watched = _WATCHED.search(line.text) is not None
                if watched:
                    out.facts.add(f"pci_device:{bdf}={m['class']} {m['name']}"[:200])
                if m["rev"] == "ff":
                    say(f"does not answer (rev ff): {m['name'][:120]}", line.offset, line.number)
            elif not line.text[:1].isspace() and line.text.strip():
                out.quarantine(line.offset, line.length, "not a line of lspci")
            elif watched and (m := _LINK.match(line.text)) and "downgraded" in (m["w"], m["s"]):
                say(f"link downgraded: {m['speed']} x{m['width']}", line.offset, line.number)
            elif watched and (m := _FATAL.match(line.text)) and "NonFatalErr- FatalErr+" in line.text:
                say("fatal error in its status", line.offset, line.number)
        return out.result()


FORMATS = (Lspci(),)
