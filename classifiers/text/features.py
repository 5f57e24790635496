"""From a failure line to what the text model counts: masked words, pairs of words, character n-grams.

`masked(text)` keeps what says something about a failure (words, parts of compound names, error codes that follow a
word such as `errno` or `status`, the top folder of a path) and replaces what varies from one print of a message to the
next. `features(text)` gives the features in order, repeated as often as they occur. Both are pure; a change of either
must raise VERSION, because a stored model fits only the features that it was trained on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

#: Of the features; a model that was trained with another one is refused.
VERSION = 1
#: Characters of a line that are looked at.
LONGEST = 600
#: Lengths of character n-grams inside a word.
GRAMS = (3, 4, 5)

#: Ranks, local ranks and log levels in front of what is said.
_PREFIX = re.compile(r"^(?:\[?(?:default|local)?_?rank\s?\d{1,6}\]?\s?:\s?|\[\d{1,6}\]:\s?|\d{1,6}:\s)+", re.IGNORECASE)
_CODE = re.compile(
    r"(?i)\b(errno|error code|error|exit ?code|exitcode|code|status|signal|xid|sxid|rc|http)"
    r"([ :=\[(]{0,3})(-?\d{1,5})\b(?![:.]\d)"
)
_XID = re.compile(r"(?i)\b(s?xid) \(pci:[0-9a-f:.]{4,16}\): (\d{1,5})\b")
_HTTP = re.compile(r"(?i)\b([45]\d\d)(?= (?:client|server|error|bad|service|gateway|too|internal|slow|back))")
_URL = re.compile(r"\b(https?|s3|gs|hdfs|abfss?|tcp|grpc)://\S{1,300}", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.])/([A-Za-z_][\w-]{0,40})(?:/[\w.+@%=~-]{0,120}){0,20}")
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), " uuidmark "),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T_ ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), " "),
    (re.compile(r"(?i)\b(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?\b(?![:0-9a-f])"), " pcimark "),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"), " ipmark "),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-f]{0,31}\d)[0-9a-f]{12,64}\b"), " hexmark "),
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.'-]*|\d[\d.,]*%?")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MARKED = re.compile(r"codemark\d+|(?:uuid|pci|ip|hex|url|path)mark|num")


@lru_cache(maxsize=8192)
def _words_of(word: str) -> tuple[str, ...]:
    """A word in lower case and, where it is a compound, its parts: `HfHubHTTPError` -> hf, hub, http, error."""
    low = word.strip("._-'").lower()
    if not low:
        return ()
    if low[0].isdigit():
        return ("num",)
    if _MARKED.fullmatch(low):
        return (low,)
    whole = re.sub(r"\d+", "#", low)
    parts = [p.lower() for p in _PARTS.findall(word) if len(p) > 1]
    return (whole,) if len(parts) < 2 else (whole, *parts)


def _path(match: re.Match[str]) -> str:
    return f" pathmark {match[1]} "


def _code(match: re.Match[str]) -> str:
    number = match[3].lstrip("-")
    return f" {match[1]} codemark{number} "


def words(text: str) -> list[str]:
    """The words of a line: masked, in lower case, compounds with their parts."""
    text = _PREFIX.sub("", text[:LONGEST])
    text = _URL.sub(lambda m: f" urlmark {m[1]} ", text)
    text = _PATH.sub(_path, text)
    text = _XID.sub(lambda m: f" {m[1]} codemark{m[2]} ", text)
    text = _CODE.sub(_code, text)
    text = _HTTP.sub(lambda m: f" codemark{m[1]} ", text)
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    return [part for found in _WORD.findall(text) for part in _words_of(found)]


def masked(text: str) -> str:
    """The line as the model sees it; equal for two prints of one message that differ in numbers and names of places."""
    return " ".join(words(text))


@lru_cache(maxsize=8192)
def _grams(word: str) -> tuple[str, ...]:
    if len(word) < 4 or _MARKED.fullmatch(word):
        return ()
    padded = f"<{word}>"
    return tuple(f"c:{padded[i : i + n]}" for n in GRAMS for i in range(len(padded) - n + 1))


def features(text: str) -> list[str]:
    """`w:` words, `b:` neighbours, `c:` character n-grams of words, in the order of the line."""
    found = words(text)
    out = [f"w:{word}" for word in found]
    out += [f"b:{a} {b}" for a, b in pairwise(found)]
    for word in found:
        out += _grams(word)
    return out
