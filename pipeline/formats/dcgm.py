"""Output of NVIDIA DCGM: `dcgmi diag` (table and JSON of versions 2 to 4) and `dcgmi health -c`.

Results that are not a pass become sentences, with the warning that came with them, so that rules which know DCGM's
wording see it as well:

    dcgm diag: GPU 3: GPU Memory: Fail: Detected 1 volatile double-bit ECC error(s) in GPU 3.
    dcgm health: GPU 0: NVLink system: Failure: ...

They hold no time. Facts: `dcgm_version`, `driver_version`, `dcgm_diag=<Pass|Fail>`, `gpu_serial_of:<index>=...`.
Forms from DCGM's dcgmi/Diag.cpp and Health.cpp.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from schemas.facts import NO_STAMP, Facts

_ROW = re.compile(r"\|(?P<left>[^|]*)\|(?P<right>[^|]*)\|\s*$")
_ONE = re.compile(r"\|\s*(?P<text>[^|]*?)\s*\|\s*$")
_DIAG = re.compile(r"\| Diagnostic\s+\| Result\s+\|")
_HEALTH = re.compile(r"\| (?:Health Monitor Report|Overall Health)\b")
_SECTION = re.compile(r"\|-+\s+(?P<name>[\w ]{2,40}?)\s+-+\+-*\|")
_RESULT = re.compile(r"(?P<word>Pass|Fail|Warn|Skip|Healthy|Warning|Failure|N/A)\b(?P<rest>.*)$", re.IGNORECASE)
_GPU = re.compile(r"GPUs?:? ?(?P<ids>\d{1,3}(?:, ?\d{1,3})*)")
_JSON = re.compile(rb'"DCGM (?:GPU )?Diagnostic"\s*:\s*\{')
_BAD = frozenset(("fail", "failure", "warn", "warning"))


class Dcgm:
    """Results of DCGM's diagnostic and health checks as text."""

    name = "dcgm"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        text = head[:16384].decode("utf-8", "replace")
        lines = [x for x in text.splitlines() if x.strip()]
        rows = sum(x.startswith(("|", "+")) for x in lines)
        headed = any(_DIAG.match(x) or _HEALTH.match(x) for x in lines)
        return 0.95 if headed and rows * 2 > len(lines) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        table = _Table(out, match)
        for line in raw_lines(data):
            table.line(line)
        table.flush()
        return out.result()


class _Table:
    """A table's rows: a name and a result, with the texts in the rows below it."""

    def __init__(self, out: Collector, match: LineMatcher) -> None:
        self.out, self.match = out, match
        self.kind = "diag"
        self.test = ""
        self.group = ""
        self.gpu = ""
        self.raw = ""  # the right cell with its blanks
        self.held: tuple[str, str, list[str], RawLine] | None = None  # (who, result, texts, where)

    def flush(self) -> None:
        if self.held is not None:
            who, result, texts, line = self.held
            words = _unwrapped(texts)
            sentence = f"dcgm {self.kind}: {who}: {result}" + (f": {words}" if words else "")
            self.out.matched(self.match(sentence, offset=line.offset, line=line.number, stamp=NO_STAMP), NO_STAMP)
        self.held = None

    def line(self, line: RawLine) -> None:
        text = line.text.rstrip()
        if _SECTION.match(text) or text.startswith("+"):
            self.flush()
            return
        if _HEALTH.match(text):
            self.kind = "health"
        m = _ROW.match(text)
        if m is None:
            if text.strip() and not _ONE.match(text) and not text.startswith(("Successfully", "Error", "#")):
                self.out.quarantine(line.offset, line.length, "not a row of DCGM's table")
            return
        left, right = m["left"].strip(), m["right"].strip()
        self.raw = m["right"][1:-1]
        if left in ("", "|") and self.held is not None and not re.match(r"GPU ?\d+: ", right):
            self.held[2].append(self.raw)  # the text goes on
            return
        self.row(left, right, line)

    def row(self, left: str, right: str, line: RawLine) -> None:
        name = left.lstrip("->| ").strip()
        if name.startswith(("DCGM Version", "Driver Version")):
            self.out.facts.add(f"{'dcgm' if name[0] == 'D' and 'DCGM' in name else 'driver'}_version={right}")
            return
        if name.startswith("Overall Health"):
            self.out.facts.add(f"dcgm_health={right}")
            return
        if self.kind == "health" and name.isdigit():
            self.gpu = f"{self.group or 'GPU'} {name}"
        elif self.kind == "health" and not right:
            self.group = name.split()[0] if name and not name.lower().startswith("error") else self.group
        if m := re.match(r"(?:Warning|Error|Info)(?:: (?P<who>GPU ?\d+))?$", name):
            if self.held is not None:
                self.held[2].append(self.raw)
            elif name.startswith(("Warning", "Error")):
                self.held = (f"{m['who'] or 'GPU ?'}: {self.test or '?'}", "Warning", [self.raw], line)
            return
        part = re.match(r"(?P<gpu>GPU ?\d+): (?P<rest>.*)$", right) if not name else None
        result = _RESULT.match(part["rest"] if part else right)
        if result is None:
            return
        self.flush()
        if name and not name.isdigit():
            self.test = name
        if result["word"].lower() not in _BAD:
            return
        where = part["gpu"] if part else (self.gpu if self.kind == "health" else "")
        ids = _GPU.search(result["rest"])
        who = where or (f"GPU {ids['ids']}" if ids else "all")
        if self.kind == "health" and name.isdigit():
            return  # its systems say why
        self.held = (f"{who}: {self.test or '?'}", result["word"], [], line)


def _unwrapped(cells: list[str]) -> str:
    """A text that was cut to the width of its column, in the middle of words where it came to that."""
    text = ""
    for cell in cells:
        text += cell.rstrip() + ("" if cell and not cell.endswith(" ") else " ")
    return " ".join(text.split())


class DcgmJson:
    """Results of DCGM's diagnostic as JSON (`dcgmi diag -j`)."""

    name = "dcgm.json"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        return 0.97 if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and _JSON.search(head[:8192]) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        try:
            document = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError) as err:
            out.quarantine(0, len(data), f"not JSON: {err}"[:200])
            return out.result()
        body = next((document[k] for k in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if k in document), None)
        if not isinstance(body, dict):
            out.quarantine(0, len(data), "no results under DCGM Diagnostic")
            return out.result()
        _versions(document, out)
        bad = False
        for test, who, status, words in _results(body):
            if status.lower() not in _BAD:
                continue
            bad = bad or status.lower().startswith("fail")
            sentence = f"dcgm diag: {who}: {test}: {status}" + (f": {words}" if words else "")
            at = max(0, data.find(json.dumps(words[:40])[1:-1].encode())) if words else 0
            line = data.count(b"\n", 0, at) + 1
            out.matched(match(sentence, offset=at, line=line, stamp=NO_STAMP), NO_STAMP)
        out.facts.add(f"dcgm_diag={'Fail' if bad else 'Pass'}")
        return out.result()


def _versions(document: Mapping[str, Any], out: Collector) -> None:
    meta = document.get("metadata")
    meta = meta if isinstance(meta, dict) else document
    for key, fact in (
        ("version", "dcgm_version"), ("DCGM Version", "dcgm_version"), ("Driver Version Detected", "driver_version"),
    ):  # fmt: skip
        if isinstance(meta.get(key), str):
            out.facts.add(f"{fact}={meta[key]}")
    groups = document.get("entity_groups")
    for group in groups if isinstance(groups, list) else ():
        for entity in (
            group.get("entities", ()) if isinstance(group, dict) and group.get("entity_group") == "GPU" else ()
        ):
            if isinstance(entity, dict) and entity.get("serial_num"):
                out.facts.add(f"gpu_serial_of:{entity.get('entity_id')}={entity['serial_num']}")


def _results(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """(test, who, status, warnings) of every result."""
    categories = body.get("test_categories")
    for category in categories if isinstance(categories, list) else ():
        tests = category.get("tests") if isinstance(category, dict) else None
        for test in tests if isinstance(tests, list) else ():
            results = test.get("results") if isinstance(test, dict) else None
            for result in results if isinstance(results, list) else ():
                if isinstance(result, dict):
                    yield str(test.get("name", "?")), _who(result), str(result.get("status", "")), _words(result)


def _who(result: Mapping[str, Any]) -> str:
    if "entity_id" in result:
        return f"{result.get('entity_group', 'GPU')} {result['entity_id']}"
    ids = str(result.get("gpu_ids", result.get("gpu_id", ""))).strip()
    return f"GPU {ids}" if ids else "all"


def _words(result: Mapping[str, Any]) -> str:
    warnings = result.get("warnings", result.get("warning", ""))
    said = warnings if isinstance(warnings, list) else [warnings]
    return " ".join(str(w.get("warning", "")) if isinstance(w, dict) else str(w) for w in said if w).strip()


FORMATS = (Dcgm(), DcgmJson())
