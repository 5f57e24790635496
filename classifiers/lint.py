"""Lints: what a rule must hold before it may be shipped. Small classes, each with a severity and its meaning.

`lint_ruleset()` runs all of them over all rules and returns what they found; `faultbeam rules lint` prints it. An
`error` fails the command, a `warning` does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from classifiers.api import Rule
from classifiers.errors import RuleError
from classifiers.knowledge.files import RULES, build_rule, contents, parse_rule
from classifiers.knowledge.healthy import healthy_text
from classifiers.lock import check_lock
from classifiers.matching.acceptance import all_accepted, refusals
from classifiers.matching.anchors import MIN_BYTES, literal_length, parse_anchor
from classifiers.matching.backtracking import can_match_line_end, problems
from classifiers.matching.examples import examples
from schemas.taxonomy import DECIDING_WORDS, components

#: Tags with a meaning to the pipeline or the engine.
KNOWN_TAGS = frozenset(
    {
        "start",
        "success",
        "end",
        "planned_end",
        "repeats",
        "restart",
        "ckpt_begin",
        "ckpt_saved",
        "ckpt_load",
        "resume",
        "teardown",
        "timeout",
        "advice",
        "oom",
        "exit_code",
        "nodefail",
        "boot",
        "planned_boot",
        "unclean",
        "driver_frame",
        "driver_load",
        "recovered",
        "cancel",
        "preempt",
        "recorder",
        "reset_reason",
        "time_limit",
        "maintenance",
        "traceback",
        "exception",
        "init",
        "corrected",
        "generic",
        "power",
        "port",
        "flap",
        "crash",
        "gpu_lost",
        "process_hit",
        "cuda",
        "mlperf",
        "soft",
        "weak_unit",
        "peer",
        "switch",
        "exited",  # a launcher names the process that died first
        "root_cause",  # heading of a block of fields on that process
        "block",  # a field of such a block: each value is an event of its own
    }
)
ROLES = frozenset({"cause", "symptom", "either", "context"})
SEVERITIES = frozenset({"critical", "error", "warning", "info", "varies"})
ACTIONS = frozenset(
    {
        "restart_job",
        "exclude_host",
        "reset_gpu",
        "reboot_host",
        "drain_host",
        "replace_part",
        "notify_owner",
        "collect_evidence",
        "none",
    }
)
PLACES = frozenset({"same_device", "same_host", "nvlink_peer", "job"})
#: An anchor that hits once or more a MB of healthy text slows every scan.
HOT_PER_MB = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. rule: its id, or the file where there is no rule yet, or "" for the whole set."""

    lint: str
    severity: str
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.rule or 'rule set'}: {self.what} [{self.lint}]"


class RuleLint:
    """A lint that looks at one rule at a time. meaning: what it protects, in one sentence."""

    name: ClassVar[str]
    severity: ClassVar[str] = "error"
    meaning: ClassVar[str]

    def check(self, rule: Rule) -> Iterable[str]:
        raise NotImplementedError

    def run(self, rules: Sequence[Rule]) -> Iterator[Finding]:
        for rule in rules:
            for what in self.check(rule):
                yield Finding(self.name, self.severity, rule.id, what)


class PatternCompiles(RuleLint):
    """The pattern is a Python regex whose key groups exist."""

    name = "pattern"
    meaning = "a pattern must compile, and every key must be one of its named groups"

    def check(self, rule: Rule) -> Iterable[str]:
        try:
            groups = re.compile(rule.pattern).groupindex
        except re.error as err:
            yield f"pattern does not compile: {err}"
            return
        for key in rule.key:
            if key not in groups:
                yield f"key {key!r} is not a named group of the pattern ({', '.join(groups) or 'it has none'})"


class Backtracking(RuleLint):
    """Log text is hostile: no pattern may take more than quadratic time."""

    name = "backtracking"
    meaning = "a pattern may not backtrack exponentially or use what automata cannot do"

    def check(self, rule: Rule) -> Iterable[str]:
        for what in _if_compiles(rule.pattern, problems):
            yield f"pattern {what}"


class EnginesAccept(RuleLint):
    """Both engines take the pattern, so that it could move into the scan and means the same everywhere."""

    name = "engines"
    meaning = "re2 and Hyperscan must accept every pattern and anchor"

    def run(self, rules: Sequence[Rule]) -> Iterator[Finding]:
        every = [text for rule in rules for text in self._texts(rule)]
        if not all_accepted(every):  # one compilation for all; rule by rule only to name the guilty one
            yield from super().run(rules)

    def check(self, rule: Rule) -> Iterable[str]:
        for text in self._texts(rule):
            yield from refusals(text)

    @staticmethod
    def _texts(rule: Rule) -> list[str]:
        return [rule.pattern, *(parse_anchor(a).regex for a in rule.anchors)]


class Anchors(RuleLint):
    """Anchors are long enough, stay on one line and belong to the rule's own samples."""

    name = "anchors"
    meaning = "a rule needs anchors of 6 bytes or more, and each sample must contain one"

    def check(self, rule: Rule) -> Iterable[str]:
        if not rule.anchors:
            yield "has no anchor: no engine would ever find it"
        for written in rule.anchors:
            anchor = parse_anchor(written)
            try:
                size = literal_length(anchor)
            except re.error as err:
                yield f"anchor {written!r} does not compile: {err}"
                continue
            if size < MIN_BYTES:
                yield f"anchor {written!r} is {size} bytes, fewer than {MIN_BYTES}"
            if can_match_line_end(anchor.regex):
                yield f"anchor {written!r} can match a line end or look at one: write [^\\n\\r ...] and [ \\t]"
            if anchor.kind == "regex" and any(problems(anchor.text)):
                yield f"anchor {written!r} {problems(anchor.text)[0]}"
        anchors = [parse_anchor(a) for a in rule.anchors]
        for sample in rule.must_match:
            try:
                if not any(a.occurs_in(sample) for a in anchors):
                    yield f"no anchor occurs in the sample {sample[:100]!r}"
            except re.error:
                return


class UnusedAnchors(RuleLint):
    """An anchor that no sample shows is an anchor that nobody tested."""

    name = "unshown-anchor"
    severity = "warning"
    meaning = "each anchor should occur in a sample"

    def check(self, rule: Rule) -> Iterable[str]:
        for written in rule.anchors:
            anchor = parse_anchor(written)
            try:
                shown = any(anchor.occurs_in(sample) for sample in rule.must_match)
            except re.error:
                continue
            if not shown:
                yield f"anchor {written!r} occurs in no sample"


class UncoveredWays(RuleLint):
    """A way through the pattern without an anchor is a line that no scan finds."""

    name = "uncovered-way"
    severity = "warning"
    meaning = "each alternative of a pattern should contain an anchor"

    def check(self, rule: Rule) -> Iterable[str]:
        anchors = [parse_anchor(a) for a in rule.anchors]
        try:
            ways = examples(rule.pattern)
            bare = [way for way in ways if not any(a.occurs_in(way) for a in anchors)]
        except re.error:
            return
        if bare:
            yield f"{len(bare)} of {len(ways)} ways through the pattern have no anchor, as {bare[0][:80]!r}"


class Samples(RuleLint):
    """A rule shows what it matches and, where something is near, what it does not."""

    name = "samples"
    meaning = "must_match has at least one line and matches; must_not_match does not"

    def check(self, rule: Rule) -> Iterable[str]:
        if not rule.must_match:
            yield "has no must_match sample"
        try:
            pattern = re.compile(rule.pattern)
        except re.error:
            return
        for sample in rule.must_match:
            if not pattern.search(sample):
                yield f"does not match its sample {sample[:120]!r}"
        for sample in rule.must_not_match:
            if pattern.search(sample):
                yield f"matches {sample[:120]!r}, which must_not_match lists"


class Vocabulary(RuleLint):
    """Every word of a closed list is one of that list."""

    name = "vocabulary"
    meaning = "components, roles, severities, tags, actions and places come from closed lists"

    def check(self, rule: Rule) -> Iterable[str]:
        known = components()
        if rule.component not in known and rule.component not in DECIDING_WORDS:
            yield f"component {rule.component!r} is neither a taxonomy id nor a deciding word"
        if rule.alt is not None and rule.alt not in known:
            yield f"alternative {rule.alt!r} is not a taxonomy id"
        for field, value, allowed in (
            ("role", rule.role, ROLES),
            ("severity", rule.severity, SEVERITIES),
            ("fatal", rule.fatal, {"y", "maybe", "n"}),
            ("maturity", rule.maturity, {"stable", "incubating", "retired"}),
            ("strength", rule.strength, {"strong", "weak"}),
            ("action", rule.action, ACTIONS),
        ):
            if value not in allowed:
                yield f"{field} {value!r} is not one of {', '.join(sorted(allowed))}"
        for tag in sorted(rule.tags - KNOWN_TAGS):
            yield f"tag {tag!r} is unknown; known are {', '.join(sorted(KNOWN_TAGS))}"
        for link in rule.links:
            if link.where not in PLACES:
                yield f"link to {link.cause!r} has place {link.where!r}, not one of {', '.join(sorted(PLACES))}"
            if not link.source or link.within_s <= 0:
                yield f"link to {link.cause!r} needs a source and a positive within_s"


class Sources(RuleLint):
    """Knowledge without a source cannot be reviewed."""

    name = "source"
    meaning = "a rule names its source, its meaning, and the source of its action"

    def check(self, rule: Rule) -> Iterable[str]:
        if not rule.source.strip():
            yield "names no source"
        if not rule.meaning.strip():
            yield "has no meaning"
        if rule.action != "none" and not rule.action_source.strip():
            yield f"action {rule.action!r} has no source"


class HotAnchors:
    """Anchors that hit healthy text cost speed in every scan."""

    name = "hot-anchor"
    severity = "error"
    meaning = "an anchor may hit healthy text less than once a MB"

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def run(self, rules: Sequence[Rule]) -> Iterator[Finding]:
        rates = anchor_rates(rules, _healthy(self.folder))
        for rule in rules:
            for written in rule.anchors:
                if rates.get(written, 0.0) >= HOT_PER_MB:
                    what = f"anchor {written!r} hits {rates[written]:.1f} times a MB of healthy text"
                    yield Finding(self.name, self.severity, rule.id, what)


class Duplicates:
    """Two rules with one id, or with one pattern, are one rule."""

    name = "duplicate"
    severity = "error"
    meaning = "rule ids and patterns are unique"

    def run(self, rules: Sequence[Rule]) -> Iterator[Finding]:
        for rule_id, n in Counter(r.id for r in rules).items():
            if n > 1:
                yield Finding(self.name, self.severity, rule_id, f"the id is used by {n} files")
        first: dict[str, str] = {}
        for rule in rules:
            other = first.setdefault(rule.pattern, rule.id)
            if other != rule.id:
                yield Finding(self.name, self.severity, rule.id, f"has the pattern of rule {other}")


RULE_LINTS: tuple[RuleLint, ...] = (
    PatternCompiles(),
    Backtracking(),
    EnginesAccept(),
    Anchors(),
    UnusedAnchors(),
    UncoveredWays(),
    Samples(),
    Vocabulary(),
    Sources(),
)


def _if_compiles(pattern: str, check: Callable[[str], list[str]]) -> list[str]:
    try:
        return check(pattern)
    except re.error:
        return []  # reported by PatternCompiles


def _healthy(folder: Path | None) -> Iterator[bytes]:
    yield healthy_text()
    if folder is None:
        return
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        yield path.read_bytes()


def anchor_rates(rules: Sequence[Rule], texts: Iterable[bytes]) -> dict[str, float]:
    """Hits a MB of every anchor (as written) on these texts. Lines are counted once an anchor."""
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import make_engine

    ruleset = RulesetImpl({r.id: r for r in rules}.values(), 0, "")
    engine = make_engine(ruleset)
    hits: Counter[int] = Counter()
    size = 0
    for text in texts:
        size += len(text)
        # A regex reports every end it finds: count its line once.
        hits.update(anchor for anchor, _ in {(a, text.find(b"\n", end)) for a, end in engine.scan(memoryview(text))})
    return {a.written: hits[i] / (size / 1e6) for i, (a, _) in enumerate(ruleset.anchors)} if size else {}


def lint_rules(rules: Sequence[Rule], healthy: Path | None = None, hot: bool = True) -> list[Finding]:
    """All lints over these rules. healthy: a folder of further healthy text; hot: whether to measure anchors."""
    found = [finding for lint in RULE_LINTS for finding in lint.run(rules)]
    found += Duplicates().run(rules)
    if hot and not any(f.lint in {"anchors", "engines"} for f in found):
        found += HotAnchors(healthy).run(rules)
    return sorted(found, key=lambda f: (f.severity, f.rule, f.lint, f.what))


def lint_ruleset(root: Path = RULES, healthy: Path | None = None, lock: bool = True) -> list[Finding]:
    """All lints over the rule files below `root`, errors first; [] where all is well.

    healthy: a folder of healthy logs to measure anchors on, besides the made-up ones. lock: whether a lock that is not
    in step is an error too.
    """
    rules: list[Rule] = []
    found: list[Finding] = []
    for name, data in contents(root).items():
        try:
            rules.append(build_rule(parse_rule(name, data)))
        except RuleError as err:
            found.append(Finding("file", "error", name, err.what))
    found += lint_rules(rules, healthy)
    if lock:
        found += [Finding("lock", "error", "", f"{what}: run update_lock()") for what in check_lock(root.parent)]
    return sorted(found, key=lambda f: (f.severity, f.rule, f.lint, f.what))
