"""`smartctl -j` (ATA, NVMe, SCSI), and `nvme smart-log -o json`: the health of one drive, or of several in a list.

State, not events: what is wrong with a drive becomes a sentence with the time of the report; the drive's temperature
becomes telemetry.

    smart: /dev/nvme2: critical warning 0x04: reliability degraded (SAMSUNG MZQLB1T9HAJR S4XXNX0N)

Facts: `drive:<name>=<model> <serial>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts, Stamp

Object = Mapping[str, Any]

_SHAPE = re.compile(
    rb'"(?:smartctl|ata_smart_attributes|nvme_smart_health_information_log|ata_smart_data|smart_status)"\s*:'
)
_SMART_LOG = re.compile(rb'"critical_warning"\s*:.*"avail_spare"\s*:', re.DOTALL)
#: Bits of NVMe's Critical Warning (NVM Express base specification, SMART / Health Information log).
_WARNINGS = (
    "spare below its threshold", "temperature out of range", "reliability degraded", "read only",
    "volatile backup failed", "persistent memory region read only",
)  # fmt: skip
#: ATA attributes whose raw count is a number of bad sectors (ATA, as named by smartmontools).
_SECTORS = {5: "reallocated sectors", 197: "pending sectors", 198: "uncorrectable sectors"}


class SmartJson:
    """Health of drives."""

    name = "smart.json"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return 0.0
        found = len(set(_SHAPE.findall(head)))
        return (
            0.96 if found >= 2 or (found and b'"device"' in head) else 0.9 if found or _SMART_LOG.search(head) else 0.0
        )

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        try:
            document = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError) as err:
            out.quarantine(0, len(data), f"not JSON: {err}"[:200])
            return out.result()
        drives = [d for d in (document if isinstance(document, list) else [document]) if isinstance(d, dict)]
        if not drives:
            out.quarantine(0, len(data), "no drive in the document")
        for drive in drives:
            _tell(drive, data, out, match)
        return out.result()


def _get(obj: Object, *path: str) -> Any:  # noqa: ANN401 - a member of decoded JSON
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(value: Any) -> int | None:  # noqa: ANN401
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _tell(drive: Object, data: bytes, out: Collector, match: LineMatcher) -> None:
    seconds = _number(_get(drive, "local_time", "time_t"))
    stamp = (
        Stamp("utc", seconds * 1_000_000) if seconds else parse_field(str(_get(drive, "local_time", "asctime") or ""))
    )
    name = str(_get(drive, "device", "name") or "?")
    model, serial = (
        str(drive.get("model_name") or drive.get("scsi_model_name") or ""),
        str(drive.get("serial_number") or ""),
    )
    offset = max(0, data.find(json.dumps(name).encode()))
    if stamp != NO_STAMP:
        out.stamps.append(stamp)
    if name != "?" and model:
        out.facts.add(f"drive:{name}={model} {serial}".strip())
    who = f" ({model} {serial})" if model else ""
    line = data.count(b"\n", 0, offset) + 1
    for found in _findings(drive):
        out.matched(match(f"smart: {name}: {found}{who}", offset=offset, line=line, stamp=stamp), stamp)
    degrees = _number(_get(drive, "temperature", "current"))
    if degrees is None and (kelvin := _number(drive.get("temperature"))) is not None:
        degrees = kelvin - 273 if kelvin > 200 else kelvin
    if degrees:
        device = f"{name} {serial}".strip()
        out.telemetry.add(stamp, offset, "", device, "drive_temperature_c", float(degrees))


def _findings(drive: Object) -> Iterator[str]:
    if _get(drive, "smart_status", "passed") is False:
        yield "self-assessment failed"
    log = drive.get("nvme_smart_health_information_log")
    log = log if isinstance(log, dict) else drive
    warning = _number(log.get("critical_warning"))
    if warning is None:
        warning = _number(_get(log, "critical_warning", "value"))
    if warning:
        words = [word for bit, word in enumerate(_WARNINGS) if warning >> bit & 1]
        yield f"critical warning 0x{warning:02x}: {', '.join(words) or 'unknown'}"
    if errors := _number(log.get("media_errors")):
        yield f"media errors: {errors}"
    spare = _number(log.get("available_spare", log.get("avail_spare")))
    least = _number(log.get("available_spare_threshold", log.get("spare_thresh")))
    if spare is not None and least is not None and spare < least:
        yield f"available spare {spare}% below {least}%"
    used = _number(log.get("percentage_used", log.get("percent_used")))
    if used is not None and used >= 100:
        yield f"endurance used up: {used}%"
    table = _get(drive, "ata_smart_attributes", "table")
    for row in table if isinstance(table, list) else ():
        if not isinstance(row, dict):
            continue
        if _get(row, "when_failed") in ("now", "FAILING_NOW"):
            yield f"attribute {row.get('name')} failing now"
        raw = _number(_get(row, "raw", "value"))
        what = _SECTORS.get(_number(row.get("id")) or 0)
        if what and raw and raw < 1 << 32:
            yield f"{what}: {raw}"
    if grown := _number(drive.get("scsi_grown_defect_list")):
        yield f"grown defects: {grown}"
    messages = _get(drive, "smartctl", "messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("severity") == "error":
            yield f"no answer: {str(message.get('string'))[:160]}"


FORMATS = (SmartJson(),)
