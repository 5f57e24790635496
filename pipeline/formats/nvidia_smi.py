"""What `nvidia-smi` prints as text: the table, `-q`, `-L`, `nvlink --status`, and any of them one after the other.

State of a GPU, not events: each value that is not as it should be becomes a sentence (`pipeline.records.gpu_report`)
with the
stamp of the report; temperature, power and clocks become telemetry. Lines with tables of a `--query-gpu` among them
are read too. Read are also captures that put a heading with the command above each output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.nvidia_smi_csv import CsvRows, is_header
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.records import gpu_report
from pipeline.records.gpu_report import Gpu
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts, Stamp

_BANNER = re.compile(r"=+NVSMI LOG=+$")
_TABLE = re.compile(
    r"\| NVIDIA-SMI (?P<smi>[\d.]+)\s+(?:Driver|KMD) Version:? (?P<driver>[\d.]+)"
    r"(?:.*CUDA\s+Version: (?P<cuda>[\d.]+))?"
)
_GPU = re.compile(r"GPU (?P<bdf>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")
_PAIR = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z][^:]{0,80}?)\s*(?:: (?P<value>.*)|:?)$")
_ROW = re.compile(
    r"\|\s+(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM)?\s*\|\s*(?P<bdf>[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]{7,8})"
    r"\s+\S+\s*\|\s*(?P<ecc>\S+)\s*\|"
)
_READINGS = re.compile(
    r"\|\s*(?P<fan>\S+)\s+(?P<temp>\S+)\s+(?P<perf>P\d+|N/A|ERR!)\s+(?P<power>\S+)\s*/\s*\S+\s*\|[^|]*\|\s*(?P<util>\S+)?"
)
_LISTED = re.compile(r"GPU (?P<index>\d{1,3}): (?P<name>.{1,80}?) \(UUID: (?P<uuid>GPU-[0-9a-fA-F-]{8,40})\)")
_LINK = re.compile(r"\s+Link (?P<link>\d{1,3}): (?P<state>.{1,60}?)\s*$")
_NO_LINKS = re.compile(r"NVML: (?P<what>Unable to retrieve NVLink information.{0,80})")
_FAILED = re.compile(
    r"(?P<what>Unable to determine the device handle for (?:GPU|gpu).{0,160}|No devices were found"
    r"|NVIDIA-SMI has failed because.{0,160}|Failed to initialize NVML: .{0,120})"
)
_DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\s*$")


class NvidiaSmi:
    """State of GPUs as text."""

    name = "nvidia_smi"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = head.decode("utf-8", "replace").splitlines()
        tests = (_BANNER.match, _TABLE.match, _NO_LINKS.match, _FAILED.match, _LISTED.match)
        counted = [line for line in lines[:4000] if line.strip()]
        if not counted:
            return 0.0
        if any(test(line.strip()) for line in counted[:6] for test in tests):
            # a line of it may stand at the top of a job's output too: the rest must be of it as well
            known = sum(_is_known(line) for line in counted[:200])
            return 0.93 if known * 10 >= 6 * min(len(counted), 200) else 0.0
        headed = sum(line.startswith("# $ nvidia-smi") for line in counted)
        return 0.9 if headed >= 2 else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        read_lines(raw_lines(data), out, match)
        return out.result()


def _is_known(line: str) -> bool:
    text = line.strip()
    return bool(
        line.startswith(("|", "+", " ", "\t", "=", "#"))
        or _PAIR.fullmatch(line.rstrip())
        or _GPU.match(text)
        or _LISTED.match(text)
        or _NO_LINKS.match(text)
        or _FAILED.match(text)
        or _DATE.match(text)
    )


def tell(gpu: Gpu, out: Collector, match: LineMatcher, host: str = "") -> None:
    """What one GPU's report says, taken into a collector."""
    for sentence, offset, line in gpu_report.findings(gpu):
        out.matched(match(sentence, offset=offset, line=line, stamp=gpu.stamp, host=host), gpu.stamp)
    for metric, value, offset in gpu_report.samples(gpu):
        out.telemetry.add(gpu.stamp, offset, host, gpu.device, metric, value)
    out.facts.update(gpu_report.names(gpu))
    out.stamps.append(gpu.stamp)


def read_lines(lines: Iterator[RawLine], out: Collector, match: LineMatcher) -> None:
    """All outputs among these lines."""
    reader = _Reader(out, match)
    for line in lines:
        reader.line(line)
    reader.flush()


class _Reader:
    """Where the reading stands: the report's head and GPU, the headings above a value, the table's row."""

    def __init__(self, out: Collector, match: LineMatcher) -> None:
        self.out, self.match = out, match
        self.stamp: Stamp = NO_STAMP
        self.gpu: Gpu | None = None
        self.path: list[tuple[int, str]] = []
        self.in_query = False
        self.listed = ""
        self.csv: CsvRows | None = None

    def flush(self) -> None:
        if self.gpu is not None:
            tell(self.gpu, self.out, self.match)
        self.gpu, self.path = None, []

    def say(self, sentence: str, line: RawLine) -> None:
        found = self.match(sentence, offset=line.offset, line=line.number, stamp=self.stamp)
        self.out.matched(found, self.stamp)

    def line(self, line: RawLine) -> None:
        text = line.text.rstrip()
        if _BANNER.match(text) or text.startswith("#"):
            self.flush()
            self.in_query, self.csv, self.listed = text.startswith("="), None, ""
            return
        if self.csv is not None and self.csv.row(line, self.out, self.match):
            return
        if text.startswith(("|", "+")):
            self.table(text, line)
        elif is_header(text):
            self.flush()
            self.in_query, self.csv = False, CsvRows(text)
        elif _DATE.match(text):
            self.stamp = parse_field(text.strip())
            self.out.stamps.append(self.stamp)
        elif m := _FAILED.match(text):
            self.say(f"nvidia-smi: {m['what']}", line)
        elif m := _LISTED.match(text.strip()):
            self.flush()
            self.in_query, self.listed = False, m["uuid"]
            self.out.facts.add(f"gpu_listed:{m['index']}={m['uuid']}")
        elif m := _NO_LINKS.match(text.strip()):
            self.say(f"gpu report: {self.listed or 'GPU ?'}: all NVLinks inactive: {m['what']}", line)
        elif self.listed and (m := _LINK.match(line.text)):
            if "inactive" in m["state"].lower():
                self.say(f"gpu report: {self.listed}: NVLink {m['link']} inactive: {m['state']}", line)
        elif self.in_query:
            self.query(text, line)

    def query(self, text: str, line: RawLine) -> None:
        if m := _GPU.match(text):
            self.flush()
            self.gpu = Gpu(line.offset, line.number, m["bdf"], self.stamp)
            return
        m = _PAIR.fullmatch(text)
        if m is None:
            return
        depth, key, value = len(m["indent"]), gpu_report.word(m["key"]), m["value"]
        while self.path and self.path[-1][0] >= depth:
            self.path.pop()
        if depth == 0:
            self.head(key, value or "")
            return
        if value is None:
            self.path.append((depth, key))
            return
        if self.gpu is not None:
            path = ".".join([*(name for _, name in self.path), key])
            self.gpu.values.setdefault(path, value)
            self.gpu.places.setdefault(path, (line.offset, line.number))
        self.path.append((depth, key))  # a value may head deeper ones (HW Slowdown)

    def head(self, key: str, value: str) -> None:
        if key == "timestamp":
            self.stamp = parse_field(value)
            self.out.stamps.append(self.stamp)
        else:
            self.out.facts.update(gpu_report.scalar_facts({key: value}))

    def table(self, text: str, line: RawLine) -> None:
        if m := _TABLE.match(text):
            self.flush()
            self.in_query = False
            self.out.facts.update(
                gpu_report.scalar_facts({"driver_version": m["driver"], "cuda_version": m["cuda"] or ""})
            )
        elif m := _ROW.match(text):
            self.flush()
            self.gpu = Gpu(line.offset, line.number, m["bdf"], self.stamp)
            self.gpu.values = {"index": m["index"], "ecc_errors.volatile.total_uncorrectable": m["ecc"]}
            if m["ecc"].isdigit() and int(m["ecc"]):
                # the table adds up DRAM and SRAM
                self.say(f"gpu report: {m['bdf']}: uncorrectable errors since the driver started: {m['ecc']}", line)
        elif (m := _READINGS.match(text)) and self.gpu is not None:
            self.gpu.values.update(
                {"temperature.gpu": m["temp"], "power.draw": m["power"], "utilization.gpu": m["util"] or ""}
            )
            if m["fan"] == "ERR!":
                self.gpu.values["fan.speed"] = "ERR!"
            self.flush()


FORMATS = (NvidiaSmi(),)
