"""Strings that a pattern matches, made from its syntax tree: one for each way through its alternatives.

They show whether a rule's anchors cover its pattern: a way without an anchor is a line that no scan would ever find.
"""

# ruff: noqa: ANN401 - the syntax tree carries no types

from __future__ import annotations

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from classifiers.matching.backtracking import charset

#: Characters to stand for a class, the plainest first.
_PLAIN = "0a1bA_-. :/x\t\"'=,;#*"


def _one(item: Any) -> str:
    op, arg = item
    if op is sre.LITERAL:
        return chr(arg)
    chars = charset(item) or frozenset()
    for ch in _PLAIN:
        if ord(ch) in chars:
            return ch
    return next((chr(c) for c in sorted(chars) if 32 <= c < 127), "x")


def _ways(items: Any, limit: int) -> list[str]:
    out = [""]
    for item in items:
        op, arg = item
        if op is sre.SUBPATTERN:
            parts = _ways(arg[3], limit)
        elif op is sre.BRANCH:
            parts = [way for branch in arg[1] for way in _ways(branch, limit)]
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, sub = arg
            inner = _ways(sub, limit)
            parts = [way * low for way in inner] if low else ["", *(inner if high == 1 else [])]
        elif op is sre.AT:
            parts = [""]
        else:
            parts = [_one(item)]
        # Each part's alternatives are all shown, but not every combination of them.
        if len(out) * len(parts) <= limit:
            out = [a + b for a in out for b in parts]
        else:
            size = max(len(out), len(parts))
            out = [out[i % len(out)] + parts[i % len(parts)] for i in range(size)]
    return out


def examples(pattern: str, limit: int = 256) -> list[str]:
    """Strings that the pattern matches, shortest repeats, each alternative at least once (as far as they do match)."""
    compiled = re.compile(pattern)
    made = dict.fromkeys(_ways(sre_parser.parse(pattern), limit))
    return [text for text in made if compiled.search(text)]
