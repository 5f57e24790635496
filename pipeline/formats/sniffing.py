"""Telling formats by what their lines look like: a sample of the head, and the share of lines of each kind.

Copied logs begin with prompts, comments and cut lines, so formats go by shares of the sampled lines, never by the
first one. Blank and indented lines say nothing and do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from pipeline.formats.base import HEAD

#: Lines looked at, spread evenly over the head.
SAMPLE = 80
_LINE_CHARS = 2_000
_BREAK = re.compile(r"[\r\n]+")


class Shares(NamedTuple):
    """total: counted lines. by_name: share of them, 0 to 1, by the name that was given."""

    total: int
    by_name: Mapping[str, float]


def sample(head: bytes) -> list[str]:
    """Up to `SAMPLE` lines that count, in order. A line that the head cuts is left out unless it is the only one."""
    return list(_sample(head))


@lru_cache(maxsize=4)  # all formats look at one head, one after the other
def _sample(head: bytes) -> tuple[str, ...]:
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = _BREAK.split(text)
    if len(head) >= HEAD and len(lines) > 1:
        lines.pop()
    counted = [line[:_LINE_CHARS] for line in lines if line.strip("\0 \t") and not line[0].isspace()]
    step = max(1, -(-len(counted) // SAMPLE))
    return tuple(counted[::step])


def shares(lines: list[str], kind: Callable[[str], str | None]) -> Shares:
    """What share of the lines `kind` gives each name; None counts into the total alone."""
    found = Counter(name for name in map(kind, lines) if name is not None)
    total = len(lines)
    return Shares(total, {name: n / total for name, n in found.items()} if total else {})
