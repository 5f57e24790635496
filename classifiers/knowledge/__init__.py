"""Knowledge as data: rule files, code tables, and the rule set made of them.

`load_ruleset()` is the way in. To add a signal, add one TOML file below `rules/` (see docs) and run
`faultbeam rules lint`.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from classifiers.errors import RuleError
from classifiers.knowledge.files import ROOT, RULES, build_rule, load_rows
from classifiers.knowledge.plugins import plugin_roots
from classifiers.knowledge.ruleset import RulesetImpl

__all__ = ["RulesetImpl", "load_ruleset", "ruleset_number"]


def lock_number(root: Path = ROOT) -> int:
    """The number of the knowledge's state as locked; 0 where there is no lock."""
    try:
        return int(json.loads((root / "rules.lock.json").read_text(encoding="utf-8"))["number"])
    except FileNotFoundError:
        return 0


def ruleset_number() -> int:
    """The number of all knowledge in use: that of the built-in rules and those of plugins, added up."""
    return lock_number() + sum(lock_number(place) for _, place in _locked_plugins())


def _locked_plugins() -> list[tuple[str, Path]]:
    """Plugins and their folders. RuleError where a lock is not in step: then the number would not say which rules."""
    from classifiers.lock import check_lock  # it reads files of this package

    found = plugin_roots()
    for plugin, place in found:
        for problem in check_lock(place):
            raise RuleError(plugin, f"{problem}: run `faultbeam rules lock --knowledge {place}`")
    return found


@cache
def load_ruleset(root: Path = RULES) -> RulesetImpl:
    """All rules below `root`, built once a process. Raises `RuleError` naming file and field of a bad rule file.

    The built-in knowledge is joined by that of plugins (see `plugins`).
    """
    rows, stamp = load_rows(root)
    number = lock_number(root.parent)
    if root != RULES:
        return RulesetImpl((build_rule(row) for row in rows), number, stamp)
    rows, stamps = list(rows), [stamp]
    taken = {str(row["id"]) for row in rows}
    for plugin, place in _locked_plugins():
        more, its_stamp = load_rows(place / "rules")
        for row in more:
            if row["id"] in taken:
                raise RuleError(plugin, f"rule id {row['id']!r} is already taken; give it another one")
            taken.add(str(row["id"]))
        rows.extend(more)
        stamps.append(its_stamp)
        number += lock_number(place)
    # the stamp names compiled engines: without plugins it is that of the files alone
    joined = stamp if len(stamps) == 1 else hashlib.sha256("\0".join(stamps).encode()).hexdigest()
    return RulesetImpl((build_rule(row) for row in rows), number, joined)
