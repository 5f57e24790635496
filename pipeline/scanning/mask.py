"""Masking: secrets out of everything that is stored or hashed, and varying parts out of texts that are folded.

`secrets(text)` replaces credentials by `<secret>`. A cheap look for words that go with credentials comes first; most
log lines end there. All patterns are linear. `template(text)` replaces what varies from one print of a message to the
next (addresses, numbers, ids, stamps), so that a storm of one message is one signal; both are deterministic.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache

SECRET = "<secret>"

#: One of these is in every text, in lower case, that a pattern below can match.
_TRIGGERS = (
    "key", "token", "pass", "secret", "auth", "pwd", "bearer", "credential", "://", "cookie", "basic ", "hf_", "eyj",
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat", "glpat-", "xox", "sk-", "akia", "asia", "aiza", "nvapi-",
    "npm_", "pypi-", "dop_v1", "sig=", "sig:", "signature", "x-amz-",
)  # fmt: skip

_TOKENS = re.compile(
    r"\b(?:"
    r"hf_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|sk-(?:[a-z]{2,8}-){0,2}[A-Za-z0-9_-]{20,}"
    r"|A[KS]IA[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{30,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r")"
)
_PRIVATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----.{0,8000}?(?:-----END [A-Z0-9 ]{0,40}-----|$)", re.S
)
_URL = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)([^\s/@:\"'<>]{0,200}):([^\s/@\"'<>]{1,400})@")
_URL_TOKEN = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]{1,20}://)([^\s/@:\"'<>]{16,400})@")
_HEADER = re.compile(r"(?i)(\b(?:bearer|basic)\s{1,4})([A-Za-z0-9._~+/=-]{8,4000})")
_COOKIE = re.compile(r"(?i)(\b(?:set-)?cookie\s?:\s?)([^\r\n]{4,4000})")
# a name that says what its value is: masked whatever the value looks like
_NAMED = re.compile(
    r"(?i)(?P<name>[A-Za-z0-9_.-]{0,60}(?:passw(?:or)?d|passwd|pwd|passphrase|secret(?:[_-]?(?:access[_-]?)?key)?|secret[_-]?token"
    r"|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|auth[_-]?token|access[_-]?token|session[_-]?token|refresh[_-]?token"
    r"|hub[_-]?token|hf[_-]?token|_token|_pass|private[_-]?key|client[_-]?secret|credentials?|x-amz-signature|x-amz-security-token"
    r"|authorization)[\"']{0,2})(?P<sep>\s{0,2}(?:=>|[=:])\s{0,2}|\s{1,2})(?P<quote>[\"']?)(?P<value>[^\s\"',;&}\])<>]{4,4000})"
)
_SHORT_FLAG = re.compile(r"(?i)(--?(?:token|pass|auth|key)[= ]{1,2})([^\s\"',;&]{6,4000})")
_KEYED = re.compile(
    r"(?i)(?P<name>\b[\w.-]{0,40}(?:key|token|sig|signature|auth)[\"']?\s?[=:]\s?[\"']?)(?P<value>[A-Za-z0-9+/_=.-]{16,4000})"
)

#: Words that follow "token", "secret" or "password" in prose and are no value.
_PROSE_TEXT = (
    "the a an is was not for from has have with and or of in to at by are were be been must should could can cannot "
    "expired invalid missing required error failed file path name type count length size limit found none null true "
    "false authentication authenticator provider manager server error: mismatch rejected refused denied"
)
_PROSE = frozenset(_PROSE_TEXT.split())
_ENTROPY_BITS = 3.2
#: A dotted name, a path or a stamp: words and numbers, never mixed, joined by signs.
_NAME = re.compile(
    r"[._/-]?(?:[A-Za-z]{1,40}\d{0,3}|\d{1,40})(?:[._/:-]{1,2}(?:[A-Za-z]{1,40}\d{0,3}|\d{1,40})){0,60}[._/-]?"
)


def _entropy(value: str) -> float:
    counts, total = Counter(value), len(value)
    return -sum(n / total * math.log2(n / total) for n in counts.values())


def _named(match: re.Match[str]) -> str:
    value, sep = match["value"], match["sep"]
    if SECRET.startswith("<" + value) or value.lower().rstrip(".:") in _PROSE or value.startswith(("<", "$", "*")):
        return match[0]
    if not sep.strip():
        # `--api-key X` and `API_KEY X`: only options and shouted names take a value without a sign
        name = match["name"]
        option = name.startswith("-") or (name.isupper() and "_" in name)
        if not option or value.startswith("-"):
            return match[0]
    elif re.fullmatch(r"[0-9.]{1,8}|/[\w./-]{1,200}", value):
        return match[0]  # a count (`max_token=4096`) or a path, not a credential
    return f"{match['name']}{sep}{match['quote']}{SECRET}"


def _keyed(match: re.Match[str]) -> str:
    value = match["value"]
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    if not mixed or value.startswith(("0x", "/", "GPU-", "MIG-")) or _entropy(value) < _ENTROPY_BITS:
        return match[0]
    if _NAME.fullmatch(value):
        return match[0]
    return f"{match['name']}{SECRET}"


def secrets(text: str) -> str:
    """The text with credentials replaced by `<secret>`; the text itself where there are none."""
    low = text.lower()
    if not any(word in low for word in _TRIGGERS):
        return text
    if "-----BEGIN" in text:
        text = _PRIVATE.sub(SECRET, text)
    text = _TOKENS.sub(SECRET, text)
    if "://" in text:
        text = _URL.sub(rf"\1\2:{SECRET}@", text)
        text = _URL_TOKEN.sub(rf"\1{SECRET}@", text)
    text = _HEADER.sub(_header, text)
    text = _COOKIE.sub(rf"\1{SECRET}", text)
    text = _NAMED.sub(_named, text)
    text = _SHORT_FLAG.sub(_flag, text)
    return _KEYED.sub(_keyed, text)


def _header(match: re.Match[str]) -> str:
    value = match[2]
    plain = value.isalpha() and value.islower()
    return match[0] if plain else f"{match[1]}{SECRET}"


def _flag(match: re.Match[str]) -> str:
    return match[0] if match[2].startswith(("<", "/", "-")) else f"{match[1]}{SECRET}"


_VARYING = re.compile(
    r"(?P<uuid>\b(?:GPU-|MIG-)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b)"
    r"|(?P<stamp>\b\d{4}-\d\d-\d\d(?:[T_]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?\b)"
    r"|(?P<pci>\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?\b(?![:0-9a-fA-F]))"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b)"
    r"|(?P<hex>0[xX][0-9a-fA-F]+|\b(?=[a-f]{0,31}\d)[0-9a-f]{12,64}\b)"
    r"|(?P<num>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
)
_MARKS = {"uuid": "<uuid>", "stamp": "<time>", "pci": "<pci>", "ip": "<ip>", "hex": "<hex>", "num": "#"}
#: A template longer than this is cut: what differs behind it is not a different message.
TEMPLATE = 300


_DIGIT = re.compile(r"\d")


def _mark(match: re.Match[str]) -> str:
    return _MARKS[match.lastgroup or "num"]


@lru_cache(maxsize=8192)
def _word(word: str) -> str:
    return _VARYING.sub(_mark, word)


def template(text: str) -> str:
    """A text without what varies between two prints of the same message, white space folded, at most 300 characters."""
    words = text[: 4 * TEMPLATE].split()
    # all that varies has a digit; most words have none
    return " ".join([_word(word) if _DIGIT.search(word) else word for word in words])[:TEMPLATE]
