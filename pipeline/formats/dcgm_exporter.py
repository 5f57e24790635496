"""Metrics of `dcgm-exporter` in Prometheus' text form: `DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-..."} 34 [stamp]`.

Temperature, power, clocks and utilisation of lines with a stamp (milliseconds) become telemetry; a scrape without
stamps says when only by its file's date, which is no fact. Counters and states that are not as they should be become
the sentences of `pipeline.records.gpu_report`, each GPU by its PCI address where the exporter prints it, else by its
UUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.records.gpu_report import short_bdf
from schemas.facts import NO_STAMP, Facts, Stamp
from schemas.identity import short_host

_LINE = re.compile(
    r"(?P<name>DCGM_FI_[A-Z0-9_]{3,60})\{(?P<labels>[^}]{0,4000})\} "
    r"(?P<value>[-+.\deE]{1,30}|NaN|[+-]Inf)(?: (?P<at>\d{10,16}))?\s*$"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_METRICS = {
    "DCGM_FI_DEV_GPU_TEMP": "gpu_temperature_c",
    "DCGM_FI_DEV_MEMORY_TEMP": "gpu_memory_temperature_c",
    "DCGM_FI_DEV_POWER_USAGE": "gpu_power_w",
    "DCGM_FI_DEV_SM_CLOCK": "gpu_sm_clock_mhz",
    "DCGM_FI_DEV_MEM_CLOCK": "gpu_memory_clock_mhz",
    "DCGM_FI_DEV_GPU_UTIL": "gpu_utilization_pct",
}
_STATES = {
    "DCGM_FI_DEV_XID_ERRORS": "last Xid",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "uncorrectable DRAM errors since the driver started",
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": "uncorrectable DRAM errors in its life",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "row remapping failed",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "row remapping pending",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "rows remapped after uncorrectable errors",
    "DCGM_FI_DEV_RETIRED_DBE": "pages retired after double-bit errors",
    "DCGM_FI_DEV_RETIRED_PENDING": "page retirement pending",
}


def _names(labels: Mapping[str, str]) -> Iterator[str]:
    """What ties the names of one GPU, where the labels give them (not those of a part of it, MIG)."""
    index, uuid, bdf = labels.get("gpu", ""), labels.get("UUID", ""), short_bdf(labels.get("pci_bus_id", ""))
    if labels.get("GPU_I_ID"):
        return
    if index.isdigit() and uuid.startswith("GPU-"):
        yield f"gpu_listed:{index}={uuid}"
    if bdf and uuid.startswith("GPU-"):
        yield f"gpu_uuid:{bdf}={uuid}"
    if bdf and index.isdigit():
        yield f"gpu_index:{bdf}={index}"


class DcgmExporter:
    """A scrape, or several one after the other."""

    name = "dcgm_exporter"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x for x in head.decode("utf-8", "replace").splitlines() if x.strip()][:200]
        mine = sum(x.startswith(("DCGM_FI_", "# HELP DCGM_", "# TYPE DCGM_")) for x in lines)
        return 0.96 if lines and mine * 10 >= len(lines) * 3 else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        seen: dict[tuple[str, str], float] = {}
        hosts: set[str] = set()
        named: set[str] = set()
        for line in raw_lines(data):
            text = line.text.rstrip()
            if not text.startswith("DCGM_FI_"):
                if text and not text.startswith("#") and not re.match(r"[a-zA-Z_:][\w:]*(?:\{[^}]*\})? \S+", text):
                    out.quarantine(line.offset, line.length, "not a metric")
                continue
            m = _LINE.match(text)
            if m is None:
                out.quarantine(line.offset, line.length, "not a metric")
                continue
            labels: dict[str, str] = dict(_LABEL.findall(m["labels"]))
            stamp = NO_STAMP if m["at"] is None else Stamp("utc", int(m["at"].ljust(13, "0")[:13]) * 1000)
            value = float(m["value"])
            host = short_host(labels.get("Hostname") or labels.get("hostname") or "")
            uuid = labels.get("UUID", "")
            hosts.add(host)
            named.update(_names(labels))
            if metric := _METRICS.get(m["name"]):
                out.telemetry.add(stamp, line.offset, host, uuid or f"gpu{labels.get('gpu', '?')}", metric, value)
            what = _STATES.get(m["name"])
            who = labels.get("pci_bus_id") or uuid or f"GPU {labels.get('gpu', '?')}"
            if stamp != NO_STAMP:
                out.stamps.append(stamp)
            if what is None or not value > 0 or seen.get((who, what)) == value:
                continue
            seen[(who, what)] = value
            shown = "Yes" if "FAILURE" in m["name"] or "PENDING" in m["name"] else f"{value:.0f}"
            sentence = f"gpu report: {who}: {what}: {shown}"
            out.matched(match(sentence, offset=line.offset, line=line.number, stamp=stamp, host=host), stamp)
        if len(hosts) == 1:
            out.host = hosts.pop()
            out.facts.update(named)
        return out.result()


FORMATS = (DcgmExporter(),)
