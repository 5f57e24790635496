"""How badly can Python's `re` backtrack on a pattern? Found from the syntax tree, before a hostile line finds it.

Three shapes are refused:

- an unbounded repeat inside an unbounded repeat where the inner one can take what the next round begins with;
- alternatives below an unbounded repeat that can begin with the same character;
- more than two unbounded repeats in a row that compete for the same characters (worse than quadratic).
"""

# ruff: noqa: ANN401 - the libraries and the syntax tree carry no types

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

#: Characters 0..127 and one member (128) for all others.
EVERY = frozenset(range(129))
_DIGIT = frozenset(range(48, 58))
_WORD = _DIGIT | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95, 128}
_SPACE = frozenset({9, 10, 11, 12, 13, 32})
_CATEGORY = {
    sre.CATEGORY_DIGIT: _DIGIT,
    sre.CATEGORY_NOT_DIGIT: EVERY - _DIGIT,
    sre.CATEGORY_WORD: _WORD,
    sre.CATEGORY_NOT_WORD: EVERY - _WORD,
    sre.CATEGORY_SPACE: _SPACE,
    sre.CATEGORY_NOT_SPACE: EVERY - _SPACE,
}
#: A repeat of this many rounds or more counts as unbounded.
MANY = 64
_FORBIDDEN = {
    sre.ASSERT: "look-around",
    sre.ASSERT_NOT: "look-around",
    sre.GROUPREF: "a back-reference",
    sre.GROUPREF_EXISTS: "a conditional group",
    sre.ATOMIC_GROUP: "an atomic group",
    sre.POSSESSIVE_REPEAT: "a possessive repeat",
}
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)


def _char(code: int) -> int:
    return min(code, 128)


def _fold(chars: frozenset[int]) -> frozenset[int]:
    swapped = {ord(chr(c).swapcase()) for c in chars if c < 128 and chr(c).isalpha()}
    return chars | swapped


def charset(item: Any) -> frozenset[int] | None:
    """The characters that a one-character node matches, or None for other nodes."""
    op, arg = item
    if op is sre.LITERAL:
        return _fold(frozenset({_char(arg)}))
    if op is sre.NOT_LITERAL:
        return EVERY - ({_char(arg)} if arg < 128 else set())
    if op is sre.ANY:
        return EVERY - {10}
    if op is sre.IN:
        chars: frozenset[int] = frozenset()
        negate = False
        for kind, value in arg:
            if kind is sre.NEGATE:
                negate = True
            elif kind is sre.LITERAL:
                chars |= {_char(value)}
            elif kind is sre.RANGE:
                chars |= frozenset(_char(c) for c in range(value[0], min(value[1], 128) + 1))
            elif kind is sre.CATEGORY:
                chars |= _CATEGORY[value]
        return EVERY - (chars - {128}) if negate else _fold(chars)
    return None


@dataclass(frozen=True, slots=True)
class _Step:
    """One part of a pattern laid flat: its characters, and how often it comes at least and at most."""

    chars: frozenset[int]
    low: int
    high: int

    @property
    def unbounded(self) -> bool:
        return self.high >= MANY


def _bare(items: Any) -> list[Any]:
    """Items of a sequence with plain groups opened."""
    out: list[Any] = []
    for item in items:
        if item[0] is sre.SUBPATTERN:
            out += _bare(item[1][3])
        else:
            out.append(item)
    return out


def first(items: Any) -> tuple[frozenset[int], bool]:
    """Characters that a sequence can begin with, and whether it can be empty."""
    chars: frozenset[int] = frozenset()
    for item in _bare(items):
        one = charset(item)
        op, arg = item
        if one is not None:
            return chars | one, False
        if op is sre.AT:
            continue
        if op is sre.BRANCH:
            empty = False
            for branch in arg[1]:
                begin, may_be_empty = first(branch)
                chars |= begin
                empty = empty or may_be_empty
        elif op in _REPEATS:
            begin, empty = first(arg[2])
            chars |= begin
            empty = empty or arg[0] == 0
        else:
            return EVERY, False
        if not empty:
            return chars, False
    return chars, True


def _forbidden(items: Any) -> list[str]:
    found = []
    for op, arg in items:
        if op in _FORBIDDEN:
            found.append(f"uses {_FORBIDDEN[op]}")
        if op is sre.SUBPATTERN:
            found += _forbidden(arg[3])
        elif op is sre.BRANCH:
            for branch in arg[1]:
                found += _forbidden(branch)
        elif op in _REPEATS:
            found += _forbidden(arg[2])
    return found


def _inside_repeat(items: Any, after: frozenset[int]) -> list[str]:
    """Problems of the body of an unbounded repeat; `after`: what the next round (or what follows here) begins with."""
    found = []
    parts = _bare(items)
    for i, (op, arg) in enumerate(parts):
        follow, may_be_empty = first(parts[i + 1 :])
        if may_be_empty:
            follow |= after
        if op is sre.BRANCH:
            # An empty alternative goes straight on to what follows (`a|aa` is parsed as `a` and then nothing or `a`).
            begins = [begin | follow if empty else begin for begin, empty in map(first, arg[1])]
            if any(a & b for n, a in enumerate(begins) for b in begins[n + 1 :]):
                found.append("has alternatives below an unbounded repeat that begin with the same character")
            for branch in arg[1]:
                found += _inside_repeat(branch, follow)
        elif op in _REPEATS:
            body, _ = first(arg[2])
            if arg[1] == sre.MAXREPEAT or arg[1] >= MANY:
                if body & follow:
                    found.append("nests unbounded repeats that compete for the same characters")
                found += _inside_repeat(arg[2], body | follow)
            else:
                if arg[0] != arg[1] and body & follow and arg[1] > 1:
                    found.append("nests a bounded repeat in an unbounded one where both can take the same characters")
                found += _inside_repeat(arg[2], follow)
    return found


def _repeats(items: Any) -> list[str]:
    """Problems of every unbounded repeat of a sequence."""
    found = []
    for op, arg in _bare(items):
        if op is sre.BRANCH:
            for branch in arg[1]:
                found += _repeats(branch)
        elif op in _REPEATS:
            if arg[1] == sre.MAXREPEAT or arg[1] >= MANY:
                found += _inside_repeat(arg[2], first(arg[2])[0])
            else:
                found += _repeats(arg[2])
    return found


def _flat(items: Any, limit: int = 64) -> list[list[_Step]]:
    """The ways through a sequence, each as a list of steps (at most `limit` ways: the rest look alike)."""
    ways: list[list[_Step]] = [[]]
    for item in _bare(items):
        op, arg = item
        one = charset(item)
        if one is not None:
            tails = [[_Step(one, 1, 1)]]
        elif op is sre.BRANCH:
            tails = [way for branch in arg[1] for way in _flat(branch, limit)]
        elif op in _REPEATS:
            single = charset(arg[2][0]) if len(arg[2]) == 1 else None
            high = MANY if arg[1] == sre.MAXREPEAT else min(arg[1], MANY)
            if single is not None:
                tails = [[_Step(single, arg[0], high)]]
            elif high >= MANY:
                tails = [[_Step(_all_chars(arg[2]), arg[0], high)]]
            else:
                tails = _flat(arg[2], limit) + ([[]] if arg[0] == 0 else [])
        else:
            continue
        ways = [way + tail for way in ways for tail in tails][:limit]
    return ways


def _all_chars(items: Any) -> frozenset[int]:
    steps: Iterable[_Step] = (step for way in _flat(items) for step in way)
    return frozenset().union(*(step.chars for step in steps))


def degree(pattern: str) -> int:
    """Most unbounded repeats in a row that compete for the same characters and can fail afterwards."""
    worst = 0
    for way in _flat(sre_parser.parse(pattern)):
        chain = 0
        previous: frozenset[int] = frozenset()
        for i, step in enumerate(way):
            if step.unbounded:
                if not any(s.low for s in way[i + 1 :]):
                    break  # what can match nothing at the end never fails
                chain = chain + 1 if chain and step.chars & previous else 1
                previous = step.chars
                worst = max(worst, chain)
            elif step.low and not step.chars & previous:
                chain = 0
    return worst


def problems(pattern: str) -> list[str]:
    """Why a pattern is refused, one phrase each; [] where it is fine."""
    tree = sre_parser.parse(pattern)
    found = _forbidden(tree) + _repeats(tree)
    chain = degree(pattern)
    if chain > 2:
        found.append(f"has {chain} unbounded repeats in a row that compete for the same characters")
    return list(dict.fromkeys(found))


def can_match_line_end(regex: str) -> bool:
    """Whether a regex can take a `\\n` or `\\r`, or looks at the text's or line's ends."""

    def walk(items: Any) -> bool:
        for item in items:
            op, arg = item
            chars = charset(item)
            if chars is not None:
                if chars & {10, 13}:
                    return True
            elif op is sre.AT:
                if arg in {sre.AT_BEGINNING, sre.AT_END, sre.AT_BEGINNING_STRING, sre.AT_END_STRING}:
                    return True
            elif op is sre.SUBPATTERN:
                if walk(arg[3]):
                    return True
            elif op is sre.BRANCH:
                if any(walk(branch) for branch in arg[1]):
                    return True
            elif op in _REPEATS and walk(arg[2]):
                return True
        return False

    return walk(sre_parser.parse(regex))
