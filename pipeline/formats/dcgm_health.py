"""`dcgmi health -c -j`: the report of DCGM's background health watches as JSON.

A tree of boxes, `{"value": ..., "children": {name: box}}`, below `body`: entity groups (`GPU`, `NvSwitch`), their
entities, and under `Errors` the watched systems with `Warning` or `Failure` and the words that say why. Every such
system becomes the sentence that the table gives as well (`pipeline.formats.dcgm`):

    dcgm health: GPU 0: NVLink system: Failure: ...

It holds no time. dcgmi has no CSV of this report. Form from DCGM's dcgmi/Health.cpp and DcgmiOutput.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from schemas.facts import NO_STAMP, Facts

_BAD = frozenset({"warning", "failure"})
_GOOD = frozenset({"healthy", "n/a", ""})
#: Boxes inside boxes that are read; DCGM makes six.
_DEPTH = 12
_WORDS = 600


class DcgmHealthJson:
    """Results of DCGM's health watches."""

    name = "dcgm.health.json"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
            return 0.0
        return 0.96 if b'"Overall Health"' in head and (b'"body"' in head or b'"header"' in head) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        try:
            document = json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"))
        except (ValueError, RecursionError) as err:
            out.quarantine(0, len(data), f"not JSON: {err}"[:200])
            return out.result()
        body = document.get("body") if isinstance(document, dict) else None
        if not isinstance(body, dict):
            out.quarantine(0, len(data), "no report under body")
            return out.result()
        overall = _value(body.get("Overall Health"))
        if overall:
            out.facts.add(f"dcgm_health={overall[:40]}")
        at = 0
        for group, box in body.items():
            for entity, inner in _children(box):
                for system, word, words in _systems(inner, 0):
                    found = data.find(json.dumps(system).encode(), at)
                    at = found if found >= 0 else at
                    line = data.count(b"\n", 0, at) + 1
                    sentence = f"dcgm health: {group} {entity}: {system}: {word}" + (f": {words}" if words else "")
                    out.matched(match(sentence, offset=at, line=line, stamp=NO_STAMP), NO_STAMP)
        return out.result()


def _children(box: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    children = box.get("children") if isinstance(box, dict) else None
    for name, child in children.items() if isinstance(children, dict) else ():
        if isinstance(child, dict):
            yield str(name), child


def _value(box: object) -> str:
    value = box.get("value") if isinstance(box, dict) else None
    return value.strip() if isinstance(value, str) else ""


def _systems(box: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str, str]]:
    """(system, state, words) of each box under `Errors` that has a bad state."""
    for name, child in _children(box) if depth < _DEPTH else ():
        if _value(child).lower() in _BAD:
            yield name, _value(child), " ".join(_said(child, 0))[:_WORDS]
        else:
            yield from _systems(child, depth + 1)


def _said(box: Mapping[str, Any], depth: int) -> Iterator[str]:
    """All texts below a box, in order."""
    for _, child in _children(box) if depth < _DEPTH else ():
        value = _value(child)
        if value.lower() not in _BAD | _GOOD:
            yield " ".join(value.split())
        yield from _said(child, depth + 1)


FORMATS = (DcgmHealthJson(),)
