"""What one hit means: a pure function of rule and fields, with the code tables looked up.

A rule's component is a taxonomy id or a deciding word. Words that the fields alone can resolve (`by_xid`,
`by_exitcode`, `by_cuda_error`, `by_event`, `by_group`, `by_nested`) are resolved here; what needs other signals
(`by_log`, `host_unknown`, `sdc_or_software`, `storage` ...) goes on to the engine as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from classifiers.api import Meaning, Rule
from classifiers.decode_codes import cuda_meaning, exit_meaning, ib_event_meaning, ib_meaning
from classifiers.decode_xid import sxid_meaning, xid_meaning
from classifiers.devices import device

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl

#: Words inside a line that name the class of a record whose kind is in a group (CPER sections, AER severities ...).
_SECTIONS = (
    ("memory", "host.memory"),
    ("pcie", "host.pcie"),
    ("processor", "host.cpu"),
)
_CORRECTED = re.compile(r"(?i)^(?:correct(?:ed|able)|info)")
_UNCORRECTED = re.compile(r"(?i)^(?:uncorrect|fatal|recoverable)")


def decode(ruleset: RulesetImpl, rule: Rule, fields: Mapping[str, str], depth: int = 0) -> Meaning:
    """The meaning of one hit of `rule` with these named groups."""
    base = Meaning(
        signal=rule.signal,
        component=rule.component,
        alt=rule.alt,
        role=rule.role,
        severity="warning" if rule.severity == "varies" else rule.severity,
        fatal=rule.fatal,
        device=device(fields),
        action=rule.action,
        action_source=rule.action_source,
        meaning=rule.meaning,
        cause=rule.signal,
        strength=rule.strength,
        maturity=rule.maturity,
        tags=rule.tags,
        links=rule.links,
    )
    if rule.component == "by_nested":
        return _nested(ruleset, base, fields, depth)
    refine = _BY_WORD.get(rule.component)
    out = refine(base, fields) if refine else base
    if rule.component not in _BY_WORD:
        out = _by_code(out, fields)
    coded = out.signal != rule.signal  # a code table has already taken the severity into account
    if rule.severity == "varies" and not coded:
        out = _by_severity(out, fields)
    return out


def _by_code(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    """Rules of a fixed component that still carry a code: SXid, RDMA status."""
    if fields.get("sxid"):
        return sxid_meaning(base, fields)
    if base.signal == "nccl.ib_completion":
        return ib_meaning(base, fields)
    return base


def _by_group(base: Meaning, fields: Mapping[str, str]) -> Meaning:
    kind = (fields.get("type") or "").lower()
    for word, component in _SECTIONS:
        if word in kind:
            return replace(base, component=component)
    return replace(base, component="by_log", role="symptom")


def _by_severity(out: Meaning, fields: Mapping[str, str]) -> Meaning:
    """`varies`: the word on the line says whether hardware put it right."""
    word = fields.get("sev") or fields.get("type") or ""
    if _CORRECTED.match(word):
        return replace(out, severity="warning", fatal="n", tags=out.tags | {"corrected"}, role="symptom")
    if _UNCORRECTED.match(word):
        nonfatal = "non-fatal" in word.lower() or "recoverable" in word.lower()
        return replace(
            out, severity="error" if nonfatal else "critical", fatal="maybe" if nonfatal else "y", role="cause"
        )
    return out


def _nested(ruleset: RulesetImpl, base: Meaning, fields: Mapping[str, str], depth: int) -> Meaning:
    """Classify the text inside: the same rules once more, on the inner text only."""
    text = fields.get("e") or fields.get("msg") or fields.get("t") or ""
    if text and depth < 2:
        for rule, inner in ruleset.match(text, "job"):
            if rule.component == "by_nested" and rule.id == base.signal:
                continue
            meaning = decode(ruleset, rule, inner, depth + 1)
            if meaning.component == "informational":
                continue
            return replace(
                meaning,
                device=meaning.device or base.device,
                tags=(meaning.tags | base.tags) - {"advice"},
                strength=base.strength,
                meaning=f"{base.meaning}: {meaning.meaning}",
            )
    return replace(base, component="by_log", role="symptom")


_BY_WORD: dict[str, Callable[[Meaning, Mapping[str, str]], Meaning]] = {
    "by_xid": xid_meaning,
    "by_exitcode": exit_meaning,
    "by_cuda_error": cuda_meaning,
    "by_event": ib_event_meaning,
    "by_group": _by_group,
}
