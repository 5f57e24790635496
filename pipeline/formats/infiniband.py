"""State and error counters of RDMA ports: `ibstat`, `perfquery`, and files of `/sys/class/infiniband/*/ports/*`.

| name | what |
|---|---|
| `ibstat` | blocks of `CA 'mlx5_0'` with `State:`, `Physical state:`, `Rate:` |
| `perfquery` | `# Port counters: Lid 12 port 1 ...` and `Name:......value` |

They hold no time. A port that is not Active, or whose error counters are not zero, becomes a sentence:
`ib port: mlx5_0/1: state Down (physical Polling)`, `ib counters: lid 12 port 1: LinkDownedCounter 3`.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from schemas.facts import NO_STAMP, Facts

_CA = re.compile(r"CA '(?P<ca>[\w.-]{1,40})'")
_PORT = re.compile(r"\s+Port (?P<port>\d{1,3}):")
_FIELD = re.compile(r"\s+(?P<key>State|Physical state|Rate|Link layer|Firmware version|CA type): ?(?P<value>.*?)\s*$")
_PERF = re.compile(r"# Port (?:extended )?counters: Lid (?P<lid>\d{1,6}) port (?P<port>\d{1,3})")
_COUNTER = re.compile(r"(?P<name>[A-Z]\w{3,40}):\.{1,40}(?P<value>\d{1,20})\s*$")
#: Counters that only rise on errors (InfiniBand architecture specification, PortCounters).
_ERRORS = frozenset(
    ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
     "PortRcvRemotePhysicalErrors", "PortXmitConstraintErrors", "PortRcvConstraintErrors",
     "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")
)  # fmt: skip


class Ibstat:
    """Ports of a host."""

    name = "ibstat"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        text = head[:8192].decode("utf-8", "replace")
        return (
            0.95
            if re.search(r"(?m)^CA '[\w.-]+'$", text) and re.search(r"(?m)^\s+(?:State|CA type|Port \d+):", text)
            else 0.0
        )

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        ca = port = ""
        at: RawLine | None = None
        fields: dict[str, str] = {}

        def flush() -> None:
            if at is None or not fields.get("State"):
                return
            state, physical = fields["State"], fields.get("Physical state", "?")
            out.facts.add(f"ib_port:{ca}/{port}={state} {fields.get('Rate', '')}".strip())
            # a port that somebody turned off is no fault
            if state != "Active" and physical != "Disabled":
                text = f"ib port: {ca}/{port}: state {state} (physical {physical})"
                out.matched(match(text, offset=at.offset, line=at.number, stamp=NO_STAMP), NO_STAMP)

        for line in raw_lines(data):
            if m := _CA.match(line.text):
                flush()
                ca, at, fields = m["ca"], None, {}
            elif m := _PORT.match(line.text):
                flush()
                port, at, fields = m["port"], line, {}
            elif m := _FIELD.match(line.text):
                fields[m["key"]] = m["value"]
                if m["key"] == "Firmware version":
                    out.facts.add(f"nic_firmware:{ca}={m['value']}")
        flush()
        return out.result()


class Perfquery:
    """Counters of ports."""

    name = "perfquery"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        text = head[:8192].decode("utf-8", "replace")
        return 0.95 if _PERF.search(text) and re.search(r"(?m)^[A-Z]\w+:\.+\d+\s*$", text) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        where = "port ?"
        for line in raw_lines(data):
            if m := _PERF.search(line.text):
                where = f"lid {m['lid']} port {m['port']}"
            elif (m := _COUNTER.match(line.text)) and m["name"] in _ERRORS and int(m["value"]):
                text = f"ib counters: {where}: {m['name']} {m['value']}"
                out.matched(match(text, offset=line.offset, line=line.number, stamp=NO_STAMP), NO_STAMP)
            elif m is None and line.text.strip() and not line.text.startswith("#"):
                out.quarantine(line.offset, line.length, "not a counter")
        return out.result()


FORMATS = (Ibstat(), Perfquery())
