"""Failure lines that no rule explains, grouped by template, as drafts of rules.

A line counts if only a generic failure rule (last line of a traceback, `Error:`, exit code) marked it. A draft is a
rule file in the form of the knowledge: the pattern is the template with its varying parts widened, the anchor its
longest fixed part. It is incubating, and a person has to say what it means before it acts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from classifiers.api import Ruleset, Scorer
from pipeline.scanning.mask import template
from schemas.facts import SignalFact
from schemas.taxonomy import is_named

#: Texts shown of a group.
EXAMPLES = 3
#: Characters of a template that become the pattern: what stands behind them is detail.
_PATTERN = 160
_MIN_ANCHOR = 6
_WIDE = {
    "#": r"(?:#|\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,10})?)",
    "<uuid>": r"[\w-]{1,50}",
    "<time>": r"[\dT:., +Z_-]{1,40}",
    "<pci>": r"[0-9a-fA-F:.]{1,20}",
    "<ip>": r"[0-9.:]{1,24}",
    "<hex>": r"(?:0[xX])?[0-9a-fA-F]{1,64}",
}
_VARYING = re.compile("|".join(re.escape(mark) for mark in _WIDE))
_SPECIAL = re.compile(r"([\\.^$*+?{}\[\]|()])")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One group of unexplained lines. count: prints; sources: inputs that hold it.

    component, confidence: what the text model makes of it, "" where it does not know.
    """

    template: str
    count: int
    sources: int
    rules: tuple[str, ...]  # the generic rules that marked it
    examples: tuple[str, ...]
    component: str
    confidence: float

    @property
    def id(self) -> str:
        """A name for the rule: its first telling words."""
        found = re.findall(r"[a-z]{3,}", re.sub(r"([a-z])([A-Z])", r"\1_\2", self.template).lower())
        return "_".join(found[:5])[:48].strip("_") or "unnamed"


def suggest(
    signals: Iterable[SignalFact], ruleset: Ruleset, scorer: Scorer | None = None, least: int = 1
) -> list[Suggestion]:
    """Groups of unexplained failure lines, most prints first. Heads of tracebacks and bare exit codes are left out.

    least: prints that a group must have.
    """
    groups: dict[str, list[SignalFact]] = defaultdict(list)
    for fact in signals:
        rule = ruleset.rules.get(fact.rule)
        if rule is None or rule.strength != "weak" or {"traceback", "exit_code"} & rule.tags:
            continue
        groups[template(fact.text)].append(fact)
    out = []
    for name, facts in groups.items():
        count = _prints(facts)
        if count < least or len(re.sub(r"[^A-Za-z]", "", name)) < _MIN_ANCHOR:
            continue
        texts = tuple(sorted({f.text for f in facts}))[:EXAMPLES]
        opinion = scorer.opinion(texts[:1]) if scorer is not None else None
        known = opinion is not None and is_named(opinion.component)
        out.append(
            Suggestion(
                template=name,
                count=count,
                sources=len({f.source_id for f in facts}),
                rules=tuple(sorted({f.rule for f in facts})),
                examples=texts,
                component=opinion.component if opinion is not None and known else "",
                confidence=opinion.confidence if opinion is not None and known else 0.0,
            )
        )
    return sorted(out, key=lambda s: (-s.count, -s.sources, s.template))


def _prints(facts: Iterable[SignalFact]) -> int:
    """Two generic rules may mark one line: the larger count of a source, summed over sources."""
    by_source: dict[tuple[str, str], int] = defaultdict(int)
    for fact in facts:
        by_source[(fact.source_id, fact.rule)] += fact.count
    best: Mapping[str, int] = {s: max(n for (t, _), n in by_source.items() if t == s) for s, _ in by_source}
    return sum(best.values())


def pattern_of(name: str) -> str:
    """A pattern in the common subset that matches every text of a template (white space as single blanks)."""
    cut = name if len(name) <= _PATTERN else name[:_PATTERN].rsplit(" ", 1)[0]
    out, last = [], 0
    for mark in _VARYING.finditer(cut):
        out += [_SPECIAL.sub(r"\\\1", cut[last : mark.start()]), _WIDE[mark[0]]]
        last = mark.end()
    out.append(_SPECIAL.sub(r"\\\1", cut[last:]))
    return "".join(out).strip()


def draft(suggestion: Suggestion) -> str:
    """The text of a rule file, to be completed by a person."""
    fixed = [part.strip() for part in _VARYING.split(suggestion.template[:_PATTERN])]
    pattern = re.compile(pattern_of(suggestion.template))
    anchor = max(fixed, key=len)
    samples = [e for e in suggestion.examples if pattern.search(e) and anchor in e]
    component = suggestion.component or "by_log"
    hint = (
        f"the text model reads it as {component} ({suggestion.confidence:.2f})" if suggestion.component else "unknown"
    )
    lines = [
        f"id = {_text(suggestion.id)}",
        'family = "job"',
        f"component = {_text(component)}",
        'role = "either"',
        'severity = "error"',
        'fatal = "maybe"',
        f"anchors = [{_text(anchor)}]",
        f"pattern = '''{pattern.pattern}'''",
        "key = []",
        'meaning = "SAY WHAT IT MEANS"',
        'action = "collect_evidence"',
        'action_source = "draft"',
        'source = "SAY WHERE THE WORDING COMES FROM"',
        'maturity = "incubating"',
        "verified = false",
        f"must_match = [{', '.join(_text(s) for s in samples)}]",
        f"notes = {_text(f'draft: {suggestion.count} prints in {suggestion.sources} inputs; {hint}')}",
    ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A TOML basic string."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
