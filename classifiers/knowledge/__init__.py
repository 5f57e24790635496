"""Knowledge as data: rule files, code tables, and the rule set made of them.

`load_ruleset()` is the way in. To add a signal, add one TOML file below `rules/` (see docs) and run
`faultbeam rules lint`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from classifiers.knowledge.files import ROOT, RULES, build_rule, load_rows
from classifiers.knowledge.ruleset import RulesetImpl

__all__ = ["RulesetImpl", "load_ruleset"]


def lock_number(root: Path = ROOT) -> int:
    """The number of the knowledge's state as locked; 0 where there is no lock."""
    try:
        return int(json.loads((root / "rules.lock.json").read_text(encoding="utf-8"))["number"])
    except FileNotFoundError:
        return 0


@cache
def load_ruleset(root: Path = RULES) -> RulesetImpl:
    """All rules below `root`, built once a process. Raises `RuleError` naming file and field of a bad rule file."""
    rows, stamp = load_rows(root)
    return RulesetImpl((build_rule(row) for row in rows), lock_number(root.parent), stamp)
