"""`nvidia-smi --query-gpu=... --format=csv`: one row a GPU and moment, any columns in any order, looped or not.

Temperature, power, clocks and utilisation of rows with a time become telemetry by hour; values that are not as they
should be become sentences (`pipeline.records.gpu_report`), one for each change, since a loop prints the same state
again and
again. Units may stand in the heading (`power.draw [W]`), behind the value (`652.1 W`), or nowhere (`nounits`).
Without a heading (`noheader`) nothing says what a column is: such files are not claimed.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.records import gpu_report
from pipeline.records.gpu_report import Gpu
from pipeline.records.telemetry import number
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts, Stamp
from schemas.identity import short_host

_COLUMN = re.compile(r"[a-zA-Z][\w.]*(?: \[[^\]]{1,12}\])?")
_OWN = re.compile(
    r"(?:temperature|power|clocks|utilization|ecc|remapped_rows|retired_pages|pci|memory|pcie|fan|clocks_\w+_reasons)\."
    r"|uuid$|gpu_(?:uuid|bus_id|name|serial)$|pstate$|fabric\."
)
_OWN_STAMP = re.compile(r"(?P<minute>\d{4}/\d\d/\d\d \d\d:\d\d):(?P<second>[0-5]\d(?:\.\d{1,6})?)")
_HOSTS = ("hostname", "host", "node", "instance")
_IDENTITY = frozenset(("timestamp", "index", "uuid", "gpu_uuid", "pci_bus_id", "pci.bus_id", "gpu_bus_id", *_HOSTS))


def columns(text: str) -> list[str] | None:
    """The columns of a heading without their units; None where the line is none."""
    names = [c.strip() for c in text.split(",")]
    if len(names) < 2 or not all(_COLUMN.fullmatch(c) for c in names):
        return None
    plain = [c.split(" [")[0].lower() for c in names]
    if not any(c in _IDENTITY for c in plain) or not any(_OWN.match(c) for c in plain):
        return None
    return plain


def is_header(text: str) -> bool:
    """Whether a line heads a query's table."""
    return "," in text and columns(text) is not None


class CsvRows:
    """The rows below one heading."""

    def __init__(self, header: str) -> None:
        self.columns = columns(header) or []
        self._at = {name: i for i, name in enumerate(self.columns)}
        self._metrics = [
            (metric, i)
            for metric, pattern in gpu_report.METRICS
            if (i := next((i for i, c in enumerate(self.columns) if pattern.search(c)), None)) is not None
        ]
        watched = {i for _, i in self._metrics} | {i for n, i in self._at.items() if n in _IDENTITY}
        self._state = [i for i in range(len(self.columns)) if i not in watched]
        self._seen: dict[str, tuple[str, ...]] = {}
        self._named: set[str] = set()
        self._minute: tuple[str, Stamp] = ("", NO_STAMP)

    def row(self, line: RawLine, out: Collector, match: LineMatcher) -> bool:
        """Takes in one row; False where the line is none."""
        cells = [c.strip() for c in line.text.split(",")]
        if len(cells) != len(self.columns):
            return False
        if cells == self.columns or is_header(line.text):
            return True
        get = self._cell
        stamp = self._stamp(get(cells, "timestamp")) if "timestamp" in self._at else NO_STAMP
        host = next((short_host(h) for name in _HOSTS if (h := get(cells, name)) and not h.startswith("[")), "")
        device = get(cells, "uuid") or get(cells, "gpu_uuid") or get(cells, "pci.bus_id").lower()
        index = get(cells, "index") or get(cells, "gpu")
        device = device or (f"gpu{index}" if index else "")
        for metric, i in self._metrics:
            out.telemetry.add(stamp, line.offset, host, device, metric, number(cells[i]))
        if not device.startswith(("GPU-", "MIG-")) and number(get(cells, "timestamp")) is None and stamp == NO_STAMP:
            return bool(device)
        out.stamps.append(stamp) if len(out.stamps) < 2 else _extend(out, stamp)
        key = f"{host} {device}"
        # a lost GPU says so in the place of its readings
        state = (*(cells[i] for i in self._state), *(cells[i] for _, i in self._metrics if not cells[i][:1].isdigit()))
        if key not in self._named or self._seen.get(key) != state:
            self._told(cells, line, stamp, host, out, match)
            self._seen[key] = state
            self._named.add(key)
        return True

    def _stamp(self, text: str) -> Stamp:
        """The row's time. A minute is parsed once: rows are many, and most of their text is the same."""
        m = _OWN_STAMP.fullmatch(text)
        if m is None:
            return parse_field(text)
        if m["minute"] != self._minute[0]:
            self._minute = (m["minute"], parse_field(f"{m['minute']}:00"))
        kind, us, _ = self._minute[1]
        return Stamp(kind, us + round(float(m["second"]) * 1e6)) if kind != "none" else NO_STAMP

    def _cell(self, cells: list[str], name: str) -> str:
        i = self._at.get(name)
        return cells[i] if i is not None else ""

    def _told(
        self, cells: list[str], line: RawLine, stamp: Stamp, host: str, out: Collector, match: LineMatcher
    ) -> None:
        gpu = Gpu(line.offset, line.number, stamp=stamp, values=dict(zip(self.columns, cells, strict=True)))
        for sentence, offset, number_ in gpu_report.findings(gpu):
            out.matched(match(sentence, offset=offset, line=number_, stamp=stamp, host=host), stamp)
        out.facts.update(gpu_report.names(gpu))
        out.facts.update(gpu_report.scalar_facts(gpu.values))


def _extend(out: Collector, stamp: Stamp) -> None:
    """Keeps the two ends of the stamps only: a loop of days has millions of rows."""
    low, high = out.stamps[0], out.stamps[1]
    if stamp.kind != low.kind:
        out.stamps.append(stamp)
    elif stamp.us < low.us:
        out.stamps[0] = stamp
    elif stamp.us > high.us:
        out.stamps[1] = stamp


class NvidiaSmiCsv:
    """Rows of a query."""

    name = "nvidia_smi.csv"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        for line in head.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:5]:
            if line.strip() and not line.startswith("#"):
                return 0.96 if is_header(line) else 0.0
        return 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        rows: CsvRows | None = None
        for line in raw_lines(data):
            if not line.text.strip() or line.text.startswith("#"):
                continue
            if is_header(line.text) and (rows is None or columns(line.text) != rows.columns):
                rows = CsvRows(line.text)
            elif rows is None or not rows.row(line, out, match):
                out.quarantine(line.offset, line.length, "not a row of the query above")
        return out.result()


FORMATS = (NvidiaSmiCsv(),)
