"""All rules in use: matching a framed text, and what a match means."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from classifiers.api import Meaning, Rule
from classifiers.matching.anchors import Anchor, parse_anchor

if TYPE_CHECKING:
    from classifiers.matching.re2_engine import Re2Engine


def _rank(rule: Rule) -> int:
    """0 for a rule that names a signal, 1 for a `generic` one (any Xid, any NCCL error), 2 for a weak failure line."""
    if rule.strength == "weak":
        return 2
    return 1 if "generic" in rule.tags else 0


def specificity(rule: Rule) -> tuple[int, int, str]:
    """Sort key, most specific first: by rank, then the longer pattern."""
    return (_rank(rule), -len(rule.pattern), rule.id)


#: From so many texts on, building an automaton over all anchors (about 60 ms) pays.
MANY_TEXTS = 300


class RulesetImpl:
    """Implements `classifiers.api.Ruleset`. Immutable after construction; patterns are compiled when first needed.

    number: of the lock file; it names the state of the knowledge that made a decision.
    stamp: digest of the rule files' contents (key of caches).
    """

    def __init__(self, rules: Iterable[Rule], number: int, stamp: str) -> None:
        ordered = sorted((r for r in rules if r.maturity != "retired"), key=specificity)
        self.number = number
        self.stamp = stamp
        self.rules: Mapping[str, Rule] = {r.id: r for r in ordered}
        self._order = {r.id: i for i, r in enumerate(ordered)}
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._asked = 0
        self._set: Re2Engine | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_set": None, "_asked": 0}  # native memory stays behind

    @cached_property
    def anchors(self) -> tuple[tuple[Anchor, tuple[str, ...]], ...]:
        """Every distinct anchor with the ids of the rules that use it, sorted by how it is written."""
        users: dict[str, list[str]] = {}
        for rule in self.rules.values():
            for written in rule.anchors:
                users.setdefault(written, []).append(rule.id)
        return tuple((parse_anchor(written), tuple(ids)) for written, ids in sorted(users.items()))

    @cached_property
    def _finders(
        self,
    ) -> tuple[dict[str, tuple[str, ...]], list[tuple[str, tuple[str, ...]]], list[Anchor], list[tuple[str, ...]]]:
        literal = {a.text: ids for a, ids in self.anchors if a.kind == "literal"}
        nocase = [(a.text.lower(), ids) for a, ids in self.anchors if a.kind == "nocase"]
        regex = [(a, ids) for a, ids in self.anchors if a.kind == "regex"]
        return literal, nocase, [a for a, _ in regex], [ids for _, ids in regex]

    @cached_property
    def _regex_anchors(self) -> list[re.Pattern[str]]:
        return [re.compile(a.text) for a in self._finders[2]]

    def candidates(self, text: str) -> set[str]:
        """Ids of the rules one of whose anchors is in the text.

        The first texts are searched anchor by anchor; a process that asks often gets one automaton for all of them.
        """
        if self._set is not None:
            return self._set.rules_on(text)
        self._asked += 1
        if self._asked > MANY_TEXTS:
            self._set = self._automaton()
        literal, nocase, _, regex_ids = self._finders
        found: set[str] = set()
        for needle, ids in literal.items():
            if needle in text:
                found.update(ids)
        if nocase:
            lower = text.lower()
            for needle, ids in nocase:
                if needle in lower:
                    found.update(ids)
        for pattern, ids in zip(self._regex_anchors, regex_ids, strict=True):
            if pattern.search(text):
                found.update(ids)
        return found

    def _automaton(self) -> Re2Engine | None:
        from classifiers.matching.engines import anchor_table

        try:
            from classifiers.matching.re2_engine import Re2Engine
        except ImportError:
            return None
        return Re2Engine(anchor_table(self, ()))

    def pattern(self, rule_id: str) -> re.Pattern[str]:
        """The compiled pattern of a rule."""
        compiled = self._compiled.get(rule_id)
        if compiled is None:
            compiled = self._compiled[rule_id] = re.compile(self.rules[rule_id].pattern)
        return compiled

    def match(
        self, text: str, family: str, candidates: Collection[str] | None = None
    ) -> list[tuple[Rule, dict[str, str]]]:
        """Rules whose pattern matches the framed text, most specific first, and their non-empty named groups.

        candidates: ids of the rules whose anchors the engine found on the line (`hit_lines`); without them the
        anchors are looked up here. A line that a specific rule explains is not given to generic or weak rules.
        """
        ids = self.candidates(text) if candidates is None else candidates
        found: list[tuple[Rule, dict[str, str]]] = []
        order = self._order
        for rule_id in sorted((i for i in ids if i in order), key=order.__getitem__):
            rule = self.rules[rule_id]
            if rule.families and family not in rule.families:
                continue
            if found and _rank(rule) > _rank(found[0][0]):
                break  # the line is explained by something that says more
            hit = self.pattern(rule_id).search(text)
            if hit is not None:
                found.append((rule, {name: value for name, value in hit.groupdict().items() if value}))
        return found

    def meaning(self, rule_id: str, fields: Mapping[str, str]) -> Meaning:
        """What a hit means (tables looked up). Unknown codes get an honest meaning, never an error."""
        from classifiers.decode import decode

        return decode(self, self.rules[rule_id], fields)
