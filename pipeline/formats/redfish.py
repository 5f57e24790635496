"""Log entries of a Redfish service as JSON: a collection (`Members`), one entry, a list, or JSON lines.

Each entry becomes one sentence; an entry of a system event log that names its sensor becomes that of
`pipeline.records.sel_records` too, so that the rules for event logs see it. Stamps carry their offset (`Created`).

    redfish log: Power Supply PS2 Status: The power input for power supply 2 is lost. [Critical] (PSU0003)

Shape: DMTF schema LogEntry, versions 1.0 to 1.17.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from pipeline.stamps import parse_field
from schemas.facts import Facts

Object = Mapping[str, Any]

_TYPE = re.compile(rb'"@odata\.type"\s*:\s*"#LogEntry(?:Collection)?\.')
_MEMBERS = re.compile(rb'"(?:EntryType|MessageId|EntryCode)"\s*:')


class Redfish:
    """Entries of a BMC's log."""

    name = "redfish.log"
    family = "bmc"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            return 0.0
        if _TYPE.search(head):
            return 0.97
        return 0.85 if _MEMBERS.search(head) and b'"Created"' in head and b'"Severity"' in head else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        for offset, entry in _entries(data, out):
            stamp = parse_field(str(entry.get("EventTimestamp") or entry.get("Created") or ""))
            line = data.count(b"\n", 0, offset) + 1
            for sentence in _sentences(entry):
                out.matched(match(sentence, offset=offset, line=line, stamp=stamp), stamp)
        return out.result()


def _entries(data: bytes, out: Collector) -> Iterator[tuple[int, Object]]:
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        documents = [json.loads(text)]
    except (ValueError, RecursionError):
        documents = []
        at = 0
        for raw in data.split(b"\n"):
            if raw.strip():
                try:
                    documents.append(json.loads(raw.decode("utf-8", "replace")))
                except (ValueError, RecursionError) as err:
                    out.quarantine(at, len(raw), f"not JSON: {err}"[:200])
            at += len(raw) + 1
    found = [entry for document in documents for entry in _flat(document)]
    if not found and not out.torn:
        out.quarantine(0, len(data), "no log entry in the document")
    at = 0
    for entry in found:
        # where the entry's own id or message stands, searching on from the last one
        needle = json.dumps(str(entry.get("Message") or entry.get("Id") or ""))[1:-1][:60].encode()
        place = data.find(needle, at) if needle else -1
        at = place if place >= 0 else at
        yield at, entry


def _flat(document: Any) -> Iterator[Object]:  # noqa: ANN401 - decoded JSON
    for item in document if isinstance(document, list) else [document]:
        if not isinstance(item, dict):
            continue
        members = item.get("Members", item.get("Events"))
        if isinstance(members, list):
            yield from _flat(members)
        elif "Message" in item or "MessageId" in item or "EntryCode" in item:
            yield item


def _sentences(entry: Object) -> Iterator[str]:
    def word(name: str) -> str:
        return " ".join(str(entry.get(name) or "").replace(":", " ").split())

    message = " ".join(str(entry.get("Message") or "").split())
    kind, name = word("SensorType"), word("Name")
    name = "" if name.lower().startswith(("log entry", "system event log")) else name
    sensor = f"{kind} {name}".strip()
    severity = word("Severity") or "?"
    said = f"redfish log: {sensor or 'system'}: {message} [{severity}] ({word('MessageId') or '-'})"
    yield said
    if kind:
        gone = word("EntryCode").lower().startswith("deassert") or "deassert" in message.lower()
        code = word("EntryCode")
        event = code if code and code.lower() not in ("assert", "deassert") else word("Message")
        yield f"ipmi sel: {sensor}: {event} ({'Deasserted' if gone else 'Asserted'})"


FORMATS = (Redfish(),)
