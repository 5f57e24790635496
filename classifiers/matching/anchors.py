"""Anchors: the literals that the scan engines look for, and how they follow from a rule's pattern.

An anchor is written in a rule file in one of three ways:

- `text`: these bytes, as they stand (UTF-8);
- `i:text`: the same, letter case ignored (ASCII);
- `re:regex`: a short bounded regex in the subset that Hyperscan, re2 and `re` share.

`derive` finds anchors for a pattern the way a prefilter of a regex library does: it follows the syntax tree and
keeps, for each part, either the few strings that the part can be, or the best set of strings one of which every
match must contain.
"""

# ruff: noqa: ANN401 - the libraries and the syntax tree carry no types

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

#: Shorter anchors hit too often.
MIN_BYTES = 6
#: Not more strings than this for one part of a pattern, else the part counts as "anything".
MAX_STRINGS = 24


@dataclass(frozen=True, slots=True)
class Anchor:
    """One anchor as written, with what the engines need. `text` is the literal or the regex without its mark."""

    written: str
    kind: str  # literal | nocase | regex
    text: str

    @property
    def regex(self) -> str:
        """The anchor as a regex in the common subset."""
        if self.kind == "regex":
            return self.text
        escaped = "".join(_escape(ch) for ch in self.text)
        return f"(?i:{escaped})" if self.kind == "nocase" else escaped

    def compiled(self) -> re.Pattern[bytes]:
        """The anchor for Python's `re` on bytes (slow: for lints and tests)."""
        return _compiled(self.regex)

    def occurs_in(self, text: str) -> bool:
        """Whether the anchor hits this text."""
        if self.kind == "literal":
            return self.text in text
        if self.kind == "nocase":
            return self.text.lower() in text.lower()
        return self.compiled().search(text.encode()) is not None


@cache
def _compiled(regex: str) -> re.Pattern[bytes]:
    return re.compile(regex.encode())


def _escape(ch: str) -> str:
    return ch if ch.isalnum() or ch in "_ " or ord(ch) > 127 else "\\" + ch


def parse_anchor(written: str) -> Anchor:
    """The anchor that a rule file's string stands for."""
    if written.startswith("re:"):
        return Anchor(written, "regex", written[3:])
    if written.startswith("i:"):
        return Anchor(written, "nocase", written[2:])
    return Anchor(written, "literal", written)


def literal_length(anchor: Anchor) -> int:
    """Least bytes of a match of the anchor."""
    if anchor.kind == "regex":
        return int(sre_parser.parse(anchor.text).getwidth()[0])
    return len(anchor.text.encode())


@dataclass(slots=True)
class _Part:
    """exact: all strings that the part can be, or None. best: strings one of which is in every match, or None."""

    exact: frozenset[str] | None
    best: frozenset[str] | None


def _score(strings: frozenset[str] | None) -> tuple[int, int, int]:
    if not strings:
        return (0, 0, 0)
    shortest = min(len(s.encode()) for s in strings)
    return (min(shortest, 9), -len(strings), shortest)


def _better(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    return a if _score(a) >= _score(b) else b


def _sequence(items: Any, flags: int) -> _Part:
    best: frozenset[str] | None = None
    run: frozenset[str] = frozenset({""})  # strings of the current unbroken run
    whole = True
    for item in items:
        part = _part(item, flags)
        if part.exact is not None and len(run) * len(part.exact) <= MAX_STRINGS:
            run = frozenset(a + b for a in run for b in part.exact)
            continue
        best = _better(best, run)
        if part.exact is not None:
            run = part.exact
            whole = False
        else:
            best = _better(best, part.best)
            run = frozenset({""})
            whole = False
    best = _better(best, run)
    return _Part(run if whole else None, best)


def _part(item: Any, flags: int) -> _Part:
    op, arg = item
    if op is sre.LITERAL:
        return _Part(frozenset({chr(arg)}), None)
    if op is sre.IN:
        chars = {chr(v) for o, v in arg if o is sre.LITERAL}
        if len(chars) == len(arg) and len(chars) <= 3:
            return _Part(frozenset(chars), None)
        return _Part(None, None)
    if op is sre.AT:
        return _Part(frozenset({""}), None)
    if op is sre.SUBPATTERN:
        return _sequence(arg[3], flags)
    if op is sre.BRANCH:
        parts = [_sequence(branch, flags) for branch in arg[1]]
        exact: frozenset[str] | None = None
        if all(p.exact is not None for p in parts):
            exact = frozenset().union(*(p.exact for p in parts if p.exact is not None))
            if len(exact) > MAX_STRINGS:
                exact = None
        sides = [_better(p.exact, p.best) for p in parts]
        best = frozenset().union(*(s for s in sides if s)) if all(_score(s)[0] for s in sides) else None
        return _Part(exact, best)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, sub = arg
        part = _sequence(sub, flags)
        if (low, high) == (0, 1) and part.exact is not None and len(part.exact) < MAX_STRINGS:
            return _Part(part.exact | {""}, None)
        if low >= 1:
            return _Part(None, _better(part.exact, part.best))
        return _Part(None, None)
    return _Part(None, None)


def derive(pattern: str) -> list[str]:
    """Anchors for a pattern, one of which every match contains; [] where the pattern has no long enough literals."""
    tree = sre_parser.parse(pattern)
    part = _sequence(tree, tree.state.flags)
    nocase = bool(tree.state.flags & re.IGNORECASE) or "(?i:" in pattern
    strings = _better(part.exact, part.best)
    if strings is None or _score(strings)[0] < MIN_BYTES:
        return []
    kept = sorted(s for s in strings if not any(o != s and o in s for o in strings))
    return [("i:" + s.lower()) if nocase else s for s in kept]
