"""What one hit means: a pure function of rule and fields, with the code tables looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from classifiers.api import Meaning, Rule

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl


def decode(_ruleset: RulesetImpl, rule: Rule, _fields: Mapping[str, str]) -> Meaning:
    """The meaning of one hit of `rule` with these named groups."""
    return Meaning(
        signal=rule.signal,
        component=rule.component,
        alt=rule.alt,
        role=rule.role,
        severity=rule.severity,
        fatal=rule.fatal,
        device="",
        action=rule.action,
        action_source=rule.action_source,
        meaning=rule.meaning,
        cause=rule.signal,
        strength=rule.strength,
        maturity=rule.maturity,
        tags=rule.tags,
        links=rule.links,
    )
