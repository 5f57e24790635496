"""The lock of the knowledge: a number that rises with every change, and version and digest of each rule and table.

Stored decisions carry the number, so the rule versions that made them can always be named. `update_lock()` is run
after every change of rules or tables (`faultbeam rules lint --fix`); a stale lock fails the lint.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from classifiers.errors import RuleError
from classifiers.knowledge.files import PACK, ROOT, contents, pack, read_pack, read_rules, stamp

LOCK = "rules.lock.json"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def _tables(root: Path) -> dict[str, str]:
    return {p.name: _sha(p.read_bytes()) for p in sorted((root / "tables").glob("*.tsv"))}


def read_lock(root: Path = ROOT) -> dict[str, Any]:
    """The lock as a dict: `number`, `rules` {id: {version, sha256}}, `tables` {name: sha256}; empty if missing."""
    path = root / LOCK
    try:
        lock = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"number": 0, "rules": {}, "tables": {}}
    except ValueError as err:
        raise RuleError(str(path), f"not JSON ({err}); delete it and run update_lock()") from err
    if not isinstance(lock, dict) or not isinstance(lock.get("number"), int):
        raise RuleError(str(path), "has no number; delete it and run update_lock()")
    return lock


def check_lock(root: Path = ROOT) -> list[str]:
    """What the lock and the files disagree on, one sentence each; [] where the lock holds."""
    lock = read_lock(root)
    files = contents(root / "rules")
    problems = []
    now = {name.rsplit("/", 1)[-1].removesuffix(".toml"): _sha(data) for name, data in files.items()}
    locked = {rule: entry["sha256"] for rule, entry in lock["rules"].items()}
    problems += [f"rule {rule} is not in the lock" for rule in sorted(now.keys() - locked.keys())]
    problems += [f"rule {rule} is in the lock, but its file is gone" for rule in sorted(locked.keys() - now.keys())]
    problems += [
        f"rule {rule} changed since it was locked" for rule in sorted(now) if locked.get(rule, now[rule]) != now[rule]
    ]
    tables = _tables(root)
    problems += [
        f"table {name} differs from the lock"
        for name in sorted(tables.keys() | lock["tables"].keys())
        if tables.get(name) != lock["tables"].get(name)
    ]
    if read_pack(root / PACK.name, stamp(files)) is None:
        problems.append(f"{PACK.name} is not in step with the rule files")
    return problems


def update_lock(root: Path = ROOT) -> int:
    """Write lock and pack for the files as they are; returns the number, raised by one if anything changed."""
    lock = read_lock(root)
    files = contents(root / "rules")
    rows = read_rules(files)
    rules: dict[str, dict[str, Any]] = {}
    for name, data in files.items():
        rule = name.rsplit("/", 1)[-1].removesuffix(".toml")
        before = lock["rules"].get(rule)
        sha = _sha(data)
        version = 1 if before is None else int(before["version"]) + (before["sha256"] != sha)
        rules[rule] = {"version": version, "sha256": sha}
    tables = _tables(root)
    changed = rules != lock["rules"] or tables != lock["tables"]
    number = int(lock["number"]) + (1 if changed else 0)
    document = {"number": number, "rules": dict(sorted(rules.items())), "tables": tables}
    (root / PACK.name).write_text(pack(files, rows), encoding="utf-8")
    (root / LOCK).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return number
