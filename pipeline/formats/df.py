"""`df` of one or many hosts: how full each file system was, when somebody looked.

Read are the plain, `-h`, `-P` and `-T` forms, with a host in front of each line as `pdsh`, `clush` or `srun --label`
put it (`node017: tmpfs ...`, `node017 tmpfs ...`). The output holds no time: a full file system is a sentence without
a stamp (`df: host=.. fs=.. mount=/scratch use=100%`), and each is a fact (`disk_use:<host>:<mount>=<percent>`),
so that "disk full" can be ruled out.
"""

from __future__ import annotations

import re

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from schemas.facts import NO_STAMP, Facts
from schemas.identity import short_host

#: From here on a file system counts as full: writers of checkpoints need more than what is left.
FULL = 99
_HEADER = re.compile(r"(?:\S+:? +)?Filesystem +(?:Type +)?(?:\S+-blocks|Size|Inodes) +\S+")
_ROW = re.compile(
    r"(?:(?P<host>[A-Za-z0-9][\w.-]*):? +)?(?P<fs>[^\s]+) +(?:(?P<type>[a-z][\w.]*) +)?(?P<size>[\d.]+[KMGTPE]?i?) +"
    r"(?P<used>[\d.]+[KMGTPE]?i?) +(?P<avail>[\d.]+[KMGTPE]?i?) +(?P<use>\d{1,3})% +(?P<mount>/\S*)$"
)
_HOST_LINE = re.compile(r"#+ *(?:host(?:name)?[:=]? *)?([A-Za-z][\w.-]*\d[\w.-]*)[: ]")


class Df:
    """Free space."""

    name = "df"
    family = "other"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x for x in head.decode("utf-8", "replace").split("\n")[:100] if x.strip()]
        if not lines:
            return 0.0
        rows = sum(_ROW.match(x.rstrip()) is not None for x in lines)
        heads = any(_HEADER.match(x) for x in lines)
        return 0.9 if rows * 2 > len(lines) or (heads and rows * 3 >= len(lines)) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        headed = ""
        for line in raw_lines(data):
            text = line.text.strip()
            if not text or _HEADER.match(text):
                continue
            if text.startswith("#"):
                m = _HOST_LINE.match(text)
                headed = m[1] if m else headed
                continue
            row = _ROW.match(text)
            if row is None:
                out.quarantine(line.offset, line.length, "not a row of df")
                continue
            host = short_host(row["host"] or headed)
            use = int(row["use"])
            out.facts.add(f"disk_use:{host}:{row['mount']}={use}")
            if use >= FULL:
                sentence = f"df: host={host or '-'} fs={row['fs']} mount={row['mount']} use={use}% avail={row['avail']}"
                out.matched(match(sentence, offset=line.offset, line=line.number, stamp=NO_STAMP, host=host), NO_STAMP)
        return out.result()


FORMATS = (Df(),)
