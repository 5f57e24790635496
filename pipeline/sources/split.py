"""Two files never share an id: what happens where the id of path and first line is not enough.

`schemas.identity.source_id` names a file by its path inside the root and its first line, so that it keeps its id while
it grows. Logs of two ranks or two attempts may agree in both. Within one call, sources with one id are compared by
their bytes, as far as both reach (at most `REACH`):

- one is the beginning of the other, or they are equal: one file seen twice, one id;
- they differ: each gets `source_id(path + "#" + digest of its first n bytes, first line)`, where n is the smallest of
  4 KiB, 64 KiB, 1 MiB and 16 MiB at which all the files that differ are told apart;
- a file that is the beginning of several files which differ keeps the plain id.

The rule looks at contents only: neither the order of the paths nor their names outside the root matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pipeline.sources.model import Source, SourceError
from pipeline.sources.streams import open_source, read_exactly
from schemas.identity import digest, source_id
from schemas.settings import Settings

#: Prefixes that are compared, bytes.
LADDER = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
REACH = LADDER[-1]


def split_ids(sources: Sequence[Source], settings: Settings) -> list[Source]:
    """The sources with ids of their own for those that share one although their contents differ."""
    groups: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        groups[source.source_id].append(source)
    out: list[Source] = []
    for group in groups.values():
        out.extend(group if len(group) == 1 else _split(group, settings))
    return out


def _prefix(source: Source, settings: Settings, length: int = REACH) -> bytes:
    try:
        stream = open_source(source, settings.max_inflated_bytes, settings.max_ratio)
    except SourceError:
        return b""
    try:
        return read_exactly(stream, length)
    finally:
        stream.close()


def _split(group: list[Source], settings: Settings) -> list[Source]:
    # one prefix in memory at a time: leaders are kept as digests and read again for the few comparisons that need it
    sized = sorted(group, key=lambda s: (-len(_prefix(s, settings)), s.inner_path, s.root, s.path))
    leaders: list[Source] = []
    owner: dict[int, set[int]] = {}
    for i, source in enumerate(sized):
        mine = _prefix(source, settings)
        owner[i] = (
            {
                k
                for k, leader in enumerate(leaders)
                if digest(_prefix(leader, settings, max(1, len(mine)))) == digest(mine)
            }
            if mine
            else set(range(len(leaders)))
        )
        if not owner[i]:
            owner[i] = {len(leaders)}
            leaders.append(source)
    if len(leaders) == 1:
        return group
    ids = _leader_ids(leaders, settings)
    return [
        replace(source, source_id=ids[next(iter(owner[i]))]) if len(owner[i]) == 1 else source
        for i, source in enumerate(sized)
    ]


def _leader_ids(leaders: list[Source], settings: Settings) -> list[str]:
    heads = [_prefix(leader, settings) for leader in leaders]
    for n in LADDER:
        marks = [digest(head[:n]) for head in heads]
        if len(set(marks)) == len(marks):
            break
    return [
        source_id(f"{leader.identity}#{mark}", head[:4096])
        for leader, mark, head in zip(leaders, marks, heads, strict=True)
    ]
