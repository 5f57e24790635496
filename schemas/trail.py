"""Trails: how the beginning of a source is remembered, so that two files which share an id are told apart later.

A trail is a row of digests, `STEP` hex digits each, of the source's bytes up to certain places in its first `REACH`
bytes: every line end of the first 64, then one every 1/32 of the way, and some fixed offsets. The places depend on the
bytes before them only. So the trail of a file's beginning is the beginning of the file's trail: growth makes a trail
longer and never changes it, and files that differ have trails that part where the files do (their last 3 % apart).

`assign` gives ids to the trails of all files that share a plain id. It depends on the set of trails alone, so neither
the order of loads nor their number can show.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise

from schemas.identity import digest

#: How much of a source its trail speaks of, bytes.
REACH = 1 << 20
#: Hex digits of one digest.
STEP = 8
_EVERY = 64
_FIXED = (4 << 10, 64 << 10, 256 << 10, REACH)


def trail(head: bytes) -> str:
    """The trail of a source whose first `REACH` bytes (or all it has) are these."""
    h = blake2b(digest_size=STEP // 2)
    done = 0
    out = []
    for place in _places(head[:REACH]):
        h.update(memoryview(head)[done:place])
        out.append(h.hexdigest())
        done = place
    return "".join(out)


def _places(head: bytes) -> list[int]:
    places = [n for n in _FIXED if n <= len(head)]
    at = lines = 0
    while (end := head.find(b"\n", at)) >= 0:
        lines += 1
        places.append(end + 1)
        at = end + 1 if lines < _EVERY else end + 1 + end // 32
    return sorted(set(places))


def assign(base: str, trails: Iterable[str]) -> dict[str, str]:
    """Trail -> source id, for all trails of one plain id.

    One file and its beginnings keep the plain id. Where files differ, each is named by the shortest part of its trail
    that no other one has; what is the beginning of several of them goes to the first of these, to which it adds
    nothing.
    """
    ordered = sorted(set(trails))
    whole = [a for a, b in pairwise(ordered) if not b.startswith(a)] + ordered[-1:]
    if len(whole) <= 1:
        return dict.fromkeys(ordered, base)
    shared = [_shared(a, b) for a, b in pairwise(whole)]
    ids = [
        digest("source", base, name[: max(before, after) + STEP])
        for name, before, after in zip(whole, [0, *shared], [*shared, 0], strict=True)
    ]
    out: dict[str, str] = {}
    at = 0
    for name in ordered:  # a beginning stands right before the first of those that it begins
        out[name] = ids[at]
        if name == whole[at]:
            at += 1
    return out


def _shared(a: str, b: str) -> int:
    """Length of the whole digests with which both begin."""
    n = 0
    while n < min(len(a), len(b)) and a[n : n + STEP] == b[n : n + STEP]:
        n += STEP
    return n
