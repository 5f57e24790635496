"""The interfaces between knowledge, engines and whoever scans: a rule, what matching gives, what a hit means."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class CausalLink:
    """`cause` explains the rule's signal when it was seen on `where` at most `within_s` seconds earlier."""

    cause: str  # signal name or glob: `xid.48`, `pcie.aer*`
    where: str  # same_device | same_host | nvlink_peer | job
    within_s: float
    source: str
    effect: str = "*"  # glob: which of the rule's own signals it explains (`xid.79` of all Xids)


@dataclass(frozen=True, slots=True)
class Rule:
    """One piece of knowledge: how a line looks, what it says, what follows.

    anchors: literals (6 bytes or more) or short bounded regexes, one of which every matching line contains.
    pattern: a `re` in the common subset (no look-around, no back-reference), with named groups.
    key: names of the groups that are identity (device, host, job, code), in the order of the file.
    component: taxonomy id or deciding word. role: cause | symptom | either | context. fatal: y | maybe | n.
    strength: `strong` names a signal; `weak` marks a generic failure line (traceback end, exit code).
    maturity: stable | incubating | retired. families: formats' families that it applies to, () for all.
    """

    id: str
    signal: str
    family: str
    component: str
    alt: str | None
    role: str
    severity: str
    fatal: str
    anchors: tuple[str, ...]
    pattern: str
    key: tuple[str, ...]
    meaning: str
    action: str
    action_source: str
    source: str
    maturity: str = "stable"
    strength: str = "strong"
    verified: bool = True
    tags: frozenset[str] = frozenset()
    links: tuple[CausalLink, ...] = ()
    must_match: tuple[str, ...] = ()
    must_not_match: tuple[str, ...] = ()
    notes: str = ""
    families: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one hit says once tables are looked up: a pure function of rule and fields.

    component is a taxonomy id wherever the fields decide; a deciding word only where the engine needs more
    (`by_log`, `host_unknown`, `sdc_or_software`, `symptom_only`, `informational`, `host_boot`, `clock`, `storage`).
    signal: `xid.94`, `sxid.12028`, `exit.137`, `nccl.ib_completion.12`, else the rule's signal.
    device: normalised, "" if none: `pci:0000:4d:00`, `gpu:3`, `nic:mlx5_4`, `disk:nvme2`, `cpu:57`, `dimm:B2`,
    `switch:nvswitch1`, `link:28`. back: signal that the line itself names as its cause (`xid.149` for Xid 45).
    """

    signal: str
    component: str
    alt: str | None
    role: str
    severity: str
    fatal: str
    device: str
    action: str
    action_source: str
    meaning: str
    cause: str  # the free `cause` string of a decision, `xid.94`, `cuda_oom`
    back: str | None = None
    strength: str = "strong"
    maturity: str = "stable"
    tags: frozenset[str] = frozenset()
    links: tuple[CausalLink, ...] = ()


class Engine(Protocol):
    """Finds the lines of a block that may carry a signal. Both engines give equal candidates' records."""

    name: str

    def scan(self, block: memoryview) -> Iterator[tuple[int, int]]:
        """(anchor id, end offset in the block) of every anchor hit, in any order."""


class Ruleset(Protocol):
    """All rules in use. Built once by `classifiers.knowledge.load_ruleset()`."""

    number: int
    rules: Mapping[str, Rule]

    def match(
        self, text: str, family: str, candidates: Collection[str] | None = None
    ) -> list[tuple[Rule, dict[str, str]]]:
        """Rules whose pattern matches the framed text, most specific first, and their non-empty named groups.

        candidates: ids of the rules whose anchors were found on the line (`hit_lines`); None looks them up here.
        """

    def meaning(self, rule_id: str, fields: Mapping[str, str]) -> Meaning:
        """What a hit means (tables looked up). Unknown codes get an honest `unknown`-role meaning, never an error."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model says of a failure excerpt.

    component, cause: its first choice, `unknown` where the lines say nothing. confidence: calibrated probability of
    the component. alternatives: other components with theirs, largest first. line: index of the text that spoke most.
    """

    component: str
    cause: str
    confidence: float
    alternatives: tuple[tuple[str, float], ...]
    line: int


class Scorer(Protocol):
    """A model that the arbiter may ask. Pure: equal texts, equal opinion."""

    @property
    def version(self) -> str:
        """Number of the model, as decisions store it."""

    @property
    def prior(self) -> Mapping[str, float]:
        """Shares of components among people's labels; empty where it was trained without any."""

    def opinion(self, texts: Sequence[str]) -> Opinion | None:
        """What the lines (in order of time) say; None for no line."""


class Ranker(Protocol):
    """A model that ranks candidate causes by the shape of their evidence. Pure."""

    @property
    def version(self) -> str:
        """Number of the model, as decisions store it after the text model's."""

    def probabilities(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """For each candidate of one subject (its features in order), that it is the cause; they sum to 1 at most."""
