"""What a printed state of a GPU says, whichever of nvidia-smi's forms printed it: findings, samples, names. Pure.

A report is a flat mapping of paths to values: the form's own words in lower case, everything but letters and digits
as `_`, levels joined by `.` (`ecc_errors.volatile.dram_uncorrectable`, `temperature.gpu_current_temp`). What is wrong
becomes a sentence for the rules, always of one shape, so that one rule serves all forms:

    gpu report: 00000000:83:00.0: row remapping failed: Yes

Counters that only rise (`aggregate`) say nothing of when; their sentences have words of their own.
Paths and values as printed by nvidia-smi 450 to 595 (`-q`, `-x` with the DTDs v10 to v13, `--query-gpu`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pipeline.records.telemetry import number
from schemas.facts import NO_STAMP, Stamp

_WORD = re.compile(r"[^a-z0-9]+")

#: Metric -> the paths that hold it, in order of preference.
METRICS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (metric, re.compile(pattern))
    for metric, pattern in (
        ("gpu_temperature_c", r"temperature\.(?:gpu|gpu_current_temp|gpu_temp)$"),
        ("gpu_memory_temperature_c", r"temperature\.(?:memory|memory_current_temp|memory_temp)$"),
        (
            "gpu_power_w",
            r"power\.draw$|power\.draw\.average$|(?:gpu_)?power_readings\.(?:power_draw|average_power_draw)$"
            r"|gpu_power_readings\.(?:instant|average)_?power_draw$|power_readings\.instantaneous_power_draw$",
        ),
        ("gpu_sm_clock_mhz", r"clocks\.(?:current\.)?sm$|clocks\.sm_clock$"),
        ("gpu_memory_clock_mhz", r"clocks\.(?:current\.)?(?:memory|mem)$|clocks\.mem_clock$"),
        ("gpu_utilization_pct", r"utilization\.(?:gpu|gpu_util)$"),
    )
)

_VOLATILE = r"ecc_errors\.volatile\.|ecc\.errors\.uncorrected\.volatile\."
_AGGREGATE = r"ecc_errors\.aggregate\.|ecc\.errors\.uncorrected\.aggregate\."
_DRAM = r"(?:dram_uncorrectable|dram|device_memory|double_bit\.device_memory)$"
_SRAM = (
    r"(?:sram_uncorrectable(?:_parity|_sec_?ded)?|sram(?:\.parity|\.secded)?|double_bit\.(?:l[12]_cache|register_file"
    r"|texture_shared|cbu|l[12]cache)|l[12]_cache|register_file|cbu)$"
)
#: What was found, on which path, and when a value counts: a number above zero, or one of these words.
_FINDINGS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (what, re.compile(pattern), when)
    for what, pattern, when in (
        ("uncorrectable DRAM errors since the driver started", f"(?:{_VOLATILE}){_DRAM}", "count"),
        ("uncorrectable SRAM errors since the driver started", f"(?:{_VOLATILE}){_SRAM}", "count"),
        ("uncorrectable DRAM errors in its life", f"(?:{_AGGREGATE}){_DRAM}", "count"),
        ("uncorrectable SRAM errors in its life", f"(?:{_AGGREGATE}){_SRAM}", "count"),
        ("SRAM error threshold exceeded", r"sram_threshold_exceeded$|sram\.thresholdexceeded$", "yes"),
        ("memory that cannot be repaired", r"ecc_errors\.unrepairable_memory$", "yes"),
        ("row remapping failed", r"remapped_rows\.(?:remapping_failure_occurred|remapped_row_failure|failure)$", "yes"),
        ("row remapping pending", r"remapped_rows\.(?:pending|remapped_row_pending)$", "yes"),
        (
            "rows remapped after uncorrectable errors",
            r"remapped_rows\.(?:uncorrectable_error|remapped_row_unc|uncorrectable)$",
            "count",
        ),
        (
            "page retirement pending",
            r"retired_pages\.(?:pending_page_blacklist|pending_blacklist|pending_retirement|pending)$",
            "yes",
        ),
        (
            "pages retired after double-bit errors",
            r"retired_pages\.(?:double_bit_ecc|double_bit\.count|double_bit_retirement\.retired_count"
            r"|multiple_single_bit_retirement\.none)$",
            "count",
        ),
        ("hardware thermal slowdown", r"reasons?(?:\.|_).*hw_thermal_slowdown$", "active"),
        ("hardware power brake", r"reasons?(?:\.|_).*hw_power_brake_slowdown$", "active"),
        ("recovery action", r"gpu_recovery_action$|gpu_reset_status\..*required$", "action"),
        ("fabric state", r"fabric\.(?:status|health\.summary)$", "fabric"),
    )
)
_LOST = re.compile(r"(?i)\bGPU is lost\b|\bERR!|\[?Unknown Error\]?|\bGPU requires reset\b")
_NONE = ("", "n/a", "none", "[n/a]", "not supported", "[not supported]", "disabled", "not available")


def word(text: str) -> str:
    """A heading or column as one level of a path."""
    return _WORD.sub("_", text.lower()).strip("_")


@dataclass(slots=True)
class Gpu:
    """One GPU's part of a report. offset, line: where it begins. places: where single values stand (offset, line)."""

    offset: int
    line: int | None
    bdf: str = ""
    stamp: Stamp = NO_STAMP
    values: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def _first(self, *paths: str) -> str:
        value = next((self.values[p] for p in paths if p in self.values), "").strip()
        return "" if value.lower() in _NONE else value

    @property
    def uuid(self) -> str:
        value = self._first("gpu_uuid", "uuid")
        return value if value.startswith("GPU-") else ""

    @property
    def serial(self) -> str:
        return self._first("serial_number", "serial", "gpu_serial")

    @property
    def index(self) -> str:
        return self._first("index", "minor_number")

    @property
    def address(self) -> str:
        return self.bdf or self._first("pci.bus_id", "pci_bus_id", "pci.pci_bus_id", "gpu_bus_id")

    @property
    def device(self) -> str:
        """How telemetry names it."""
        return self.uuid or self.address.lower() or (f"gpu{self.index}" if self.index else "")


def findings(gpu: Gpu) -> Iterator[tuple[str, int, int | None]]:
    """(sentence, offset, line) for everything of a report that is not as it should be."""
    name = gpu.address or gpu.uuid or f"GPU {gpu.index or '?'}"
    lost = False
    for path, value in gpu.values.items():
        offset, line = gpu.places.get(path, (gpu.offset, gpu.line))
        if not lost and _LOST.search(value):
            lost = True  # one for the GPU: a lost one answers so to everything
            yield f"gpu report: {name}: no answer: {value.strip()[:80]} ({path})", offset, line
        for what, pattern, when in _FINDINGS:
            if pattern.search(path) and _counts(value.strip(), when):
                yield f"gpu report: {name}: {what}: {value.strip()[:60]}", offset, line


def _counts(value: str, when: str) -> bool:
    lower = value.lower()
    if when == "count":
        return value.isdigit() and int(value) > 0
    if when == "yes":
        return lower == "yes"
    if when == "active":
        return lower == "active"
    if when == "action":
        return lower not in _NONE and lower != "no" and len(lower) < 40 and not _LOST.search(value)
    return lower not in (*_NONE, "success", "healthy", "ok", "completed") and len(lower) < 40


def samples(gpu: Gpu) -> Iterator[tuple[str, float, int]]:
    """(metric, value, offset) of temperature, power and clocks; the first path that has a number wins."""
    for metric, pattern in METRICS:
        for path, text in gpu.values.items():
            if pattern.search(path) and (value := number(text.replace("[", "").strip())) is not None:
                yield metric, value, gpu.places.get(path, (gpu.offset, None))[0]
                break


def names(gpu: Gpu) -> Iterator[str]:
    """Facts of a source that join a GPU's names: by its PCI address as kernels print it."""
    bdf = short_bdf(gpu.address)
    if not bdf:
        return
    if gpu.uuid:
        yield f"gpu_uuid:{bdf}={gpu.uuid}"
    if gpu.serial:
        yield f"gpu_serial:{bdf}={gpu.serial}"
    if gpu.index.isdigit():
        yield f"gpu_index:{bdf}={gpu.index}"


def short_bdf(address: str) -> str:
    """`00000000:83:00.0` as the kernel prints it, `0000:83:00`; "" for what is no address."""
    m = re.fullmatch(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.\d)?", address.strip())
    return f"{(m[1] or '0')[-4:].zfill(4)}:{m[2]}:{m[3]}".lower() if m else ""


def scalar_facts(values: Mapping[str, str]) -> Iterator[str]:
    """`driver_version` and `cuda_version` of a report's head."""
    for name in ("driver_version", "cuda_version"):
        if (value := values.get(name, "").strip()) and value[:1].isdigit():
            yield f"{name}={value}"
