"""Reading rule files: one TOML file a rule, checked field by field.

Parsing some three hundred TOML files takes longer than a small diagnosis, so the rules are also kept as one packed
JSON document: beside the files (written by `classifiers.lock.update_lock`), else in the user's cache. A pack is used
only if its stamp equals the digest of the files' contents, so a pack can be missing or old but never wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from classifiers.api import CausalLink, Rule
from classifiers.errors import RuleError

ROOT = Path(__file__).parent
RULES = ROOT / "rules"
TABLES = ROOT / "tables"
PACK = ROOT / "rules.pack.json"

_TUPLES = ("anchors", "key", "must_match", "must_not_match", "families")
_REQUIRED = (
    "family",
    "component",
    "role",
    "severity",
    "fatal",
    "anchors",
    "pattern",
    "meaning",
    "source",
    "must_match",
)
_KNOWN = {f.name for f in fields(Rule)}


def rule_files(root: Path = RULES) -> list[Path]:
    """All rule files below `root`, sorted by path."""
    found = []
    for folder, dirs, names in os.walk(root):
        dirs.sort()
        found += [Path(folder, name) for name in names if name.endswith(".toml")]
    return sorted(found)


def contents(root: Path = RULES) -> dict[str, bytes]:
    """The bytes of every rule file by its path relative to `root`, with `/`."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in rule_files(root)}


def stamp(files: Mapping[str, bytes]) -> str:
    """Digest of names and contents of all rule files; line ends do not count."""
    h = hashlib.sha256()
    for name, data in sorted(files.items()):
        data = data.replace(b"\r\n", b"\n")
        h.update(f"{name}\0{len(data)}\0".encode())
        h.update(data)
    return h.hexdigest()


def parse_rule(name: str, data: bytes) -> dict[str, Any]:
    """The plain dict of one rule file, with defaults filled in; `RuleError` names file and field."""
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
        raise RuleError(name, f"not a TOML document: {err}") from err
    stem = name.rsplit("/", 1)[-1].removesuffix(".toml")
    raw.setdefault("id", stem)
    if raw["id"] != stem:
        raise RuleError(name, f"id {raw['id']!r} differs from the file's name")
    for field in _REQUIRED:
        if field not in raw:
            raise RuleError(name, f"field {field!r} is missing")
    for field in raw:
        if field not in _KNOWN:
            raise RuleError(name, f"unknown field {field!r}; known are {', '.join(sorted(_KNOWN))}")
    for field in (*_TUPLES, "tags"):
        value = raw.setdefault(field, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise RuleError(name, f"field {field!r} must be a list of strings, not {value!r}")
    raw.setdefault("signal", stem)
    raw.setdefault("alt", None)
    raw.setdefault("action", "none")
    raw.setdefault("action_source", "")
    for link in raw.get("links", ()):
        if set(link) - {"effect"} != {"cause", "where", "within_s", "source"}:
            raise RuleError(name, f"a link needs cause, where, within_s, source, and may have effect: {link!r}")
    return raw


def build_rule(raw: Mapping[str, Any]) -> Rule:
    """The rule that a plain dict (of a file or of the pack) describes."""
    args = dict(raw)
    for field in _TUPLES:
        args[field] = tuple(args.get(field, ()))
    args["tags"] = frozenset(args.get("tags", ()))
    args["links"] = tuple(CausalLink(**link) for link in args.get("links", ()))
    return Rule(**args)


def read_rules(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Plain dicts of all files, sorted by id; two files with one id are an error."""
    seen: dict[str, str] = {}
    out = []
    for name, data in sorted(files.items()):
        raw = parse_rule(name, data)
        if raw["id"] in seen:
            raise RuleError(name, f"rule id {raw['id']!r} is already taken by {seen[raw['id']]}")
        seen[raw["id"]] = name
        out.append(raw)
    return sorted(out, key=lambda r: str(r["id"]))


def pack(files: Mapping[str, bytes], rows: Iterable[Mapping[str, Any]]) -> str:
    """The packed document of these rules."""
    document = {"stamp": stamp(files), "rules": list(rows)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"


def read_pack(path: Path, expected: str) -> list[dict[str, Any]] | None:
    """The rules of a pack, or None where it is missing, damaged or of other files."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    # The stamp is the last key of the sorted document: look before parsing half a megabyte.
    if f'"stamp":"{expected}"' not in text[-200:]:
        return None
    try:
        rows = json.loads(text)["rules"]
    except (ValueError, KeyError):
        return None
    return rows if isinstance(rows, list) else None


def cache_dir() -> Path:
    """Where things that can be made again are kept: the user's cache folder, `faultbeam` below it."""
    try:
        from platformdirs import user_cache_dir
    except ImportError:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(base) / "faultbeam"
    return Path(user_cache_dir("faultbeam", appauthor=False))


def write_quietly(path: Path, data: bytes) -> None:
    """Write a cache file whole or not at all; a cache that cannot be written is no error."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        return


def load_rows(root: Path = RULES) -> tuple[list[dict[str, Any]], str]:
    """Plain dicts of all rules below `root` and their stamp: from a pack where one is in step, else from the files."""
    files = contents(root)
    digest = stamp(files)
    cached = cache_dir() / f"rules-{digest[:16]}.json"
    for path in (root.parent / PACK.name, cached):
        rows = read_pack(path, digest)
        if rows is not None:
            return rows, digest
    rows = read_rules(files)
    write_quietly(cached, pack(files, rows).encode())
    return rows, digest
