"""Kernel messages that survived a crash: records of `/sys/fs/pstore`, and what systemd-pstore joins of them.

A record begins with its reason and part (`Panic#1 Part2`); part 1 holds the last lines before the crash. The record's
id holds the time of the crash, which no line does: `dmesg-erst-<id>` (seconds in the upper half, drivers/firmware/efi/
cper.c) and `dmesg-efi[_pstore]-<id>` (seconds, two digits of part, three of count, drivers/firmware/efi/efi-pstore.c).
The last uptime of part 1 and that time make a pair of clocks. Facts: `pstore=Panic#1`, `crash_at=<microseconds UTC>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.dmesg import frame_line
from pipeline.formats.records import Collector, raw_lines
from schemas.facts import Facts

_HEAD = re.compile(
    r"(?P<reason>Panic|Oops|Emergency|Restart|Halt|Poweroff|Shutdown|Unknown)#(?P<n>\d{1,3}) Part(?P<part>\d{1,3})$"
)
_NAME = re.compile(r"dmesg-(?P<backend>erst|efi|efi_pstore|nvram|ramoops|[a-z_]{2,20})-(?P<id>\d{1,20})")
#: Uptimes are seconds and crashes lie between 2010 and 2100: any other reading of an id is wrong.
_EARLIEST, _LATEST = 1_262_304_000, 4_102_444_800
_BACK = 40


class Pstore:
    """Records of a crash."""

    name = "pstore"
    family = "kernel"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x.strip() for x in head[:2048].decode("utf-8", "replace").split("\n")[:3]]
        headed = any(_HEAD.match(x) for x in lines[:2])
        return 0.97 if headed else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        crash = crashed_at(info.inner_path)
        part = last = 0
        back: list[str] = []
        for line in raw_lines(data):
            text = line.text
            if m := _HEAD.match(text.strip()):
                part, last = int(m["part"]), 0
                out.facts.add(f"pstore={m['reason']}#{m['n']}")
                continue
            if text.rstrip().endswith(":") and _NAME.match(text):
                crash = crashed_at(text) or crash
                continue
            if not text.strip():
                continue
            frame = frame_line(text, _Back(back))
            back.append(text)
            del back[:-_BACK]
            if frame.stamp.kind == "mono":
                out.stamps.append(frame.stamp)
                last = max(last, frame.stamp.us)
                if part == 1 and crash is not None:
                    out.clocks = {c for c in out.clocks if c[2] != crash} | {("utc", last, crash)}
            if frame.text:
                out.matched(match(frame.text, offset=line.offset, line=line.number, stamp=frame.stamp), frame.stamp)
        if crash is not None:
            out.facts.add(f"crash_at={crash}")
        return out.result()


class _Back:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def lines(self) -> Iterator[str]:
        return reversed(self._lines)


def crashed_at(name: str) -> int | None:
    """Microseconds UTC of the crash that a record's name holds; None where it holds none."""
    m = _NAME.search(name)
    if m is None:
        return None
    number = int(m["id"])
    seconds = number >> 32 if m["backend"] == "erst" else number // 100_000 if m["backend"].startswith("efi") else 0
    return seconds * 1_000_000 if _EARLIEST < seconds < _LATEST else None


FORMATS = (Pstore(),)
