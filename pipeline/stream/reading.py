"""A batch of messages to facts: literals of all rules are looked for in the joined bytes, and only hits are decoded.

    scan of the joined values -> messages with hits -> lines and documents -> rules -> facts by source

The facts of any messages, in whatever batches, order and repetition, merge into the same rows. What is read besides
hits (`sampling`) adds the times that a log covers, names and training progress. Every message falls into exactly one
class of the account.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from classifiers.matching import MARK
from pipeline.formats.base import registry
from pipeline.formats.shippers import HIDDEN
from pipeline.runs.progress import read_cell
from pipeline.scanning.fold import Fold, Lines, Signal
from pipeline.scanning.mask import secrets
from pipeline.scanning.shipped import escaped_literals
from pipeline.scanning.texts import Texts
from pipeline.stream.documents import read_document
from pipeline.stream.messages import Document, Line, Message, Poison, Reading, poison, read
from pipeline.stream.sampling import Sampler
from pipeline.stream.sources import Source, Sources
from schemas.facts import CELL, Facts, ProgressFact, Quarantine, SignalFact, merge_facts
from schemas.identity import short_host

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import BlockEngine
    from schemas.settings import Settings

#: What tells documents from shippers' lines in the joined bytes: a message with one of these is always read.
DOCUMENTS: tuple[bytes, ...] = (
    b'"resourceLogs"', b'"resource_logs"', b'"streams"', b'"involvedObject"', b'"regarding"', b'"containerStatuses"',
    b'"nodeInfo"', b'"firstTimestamp"', b'"job_id"', b'"job_state"', b'"apiVersion"', b'"jobs":',
)  # fmt: skip
_NO_LINES = Lines()


@dataclass(slots=True)
class Account:
    """Messages by what became of them; each is counted once."""

    noise: int = 0
    signals: int = 0
    unparsed: int = 0
    documents: int = 0
    dead: int = 0
    empty: int = 0

    @property
    def messages(self) -> int:
        return sum(getattr(self, f.name) for f in fields(self))

    def items(self) -> list[tuple[str, int]]:
        """(what became of them, messages)."""
        return [(f.name, getattr(self, f.name)) for f in fields(self)]

    def add(self, other: Account) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


@dataclass(frozen=True, slots=True)
class Dead:
    """A message that nothing can be made of."""

    message: Message
    reason: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a batch gave. keys: for each source in the facts, what its decisions are gathered by (`wake_key`)."""

    facts: Facts
    accounts: dict[str, Account]  # by topic
    dead: tuple[Dead, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def account(self) -> Account:
        """Of all topics together."""
        total = Account()
        for account in self.accounts.values():
            total.add(account)
        return total


def stream_engine(ruleset: RulesetImpl, settings: Settings) -> BlockEngine:
    """The engine for a rule set, the marks of all formats, and what tells documents."""
    from classifiers.matching import make_engine

    marks = {mark for fmt in registry().values() for mark in getattr(fmt, "marks", ())}
    return make_engine(ruleset, settings.engine, sorted({*marks, *escaped_literals(ruleset), *DOCUMENTS}))


class _Gathering:
    """What a batch says of one source: signals, and lines that may tell of progress. The rest is its context's."""

    __slots__ = ("fold", "lines", "seen", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.fold = Fold(source.origin.source_id)
        self.seen: dict[Signal, set[int]] = defaultdict(set)
        self.lines: dict[int, Line] = {}

    def frame(self, line: Line, message: Message) -> None:
        """Takes in what the frame says of the source, and the line for progress."""
        source = self.source
        source.context.frame(line.address // CELL, line.address, line.frame)
        if source.origin.stream.progress:
            self.lines[line.address] = line
        if message.time_us is not None and message.time_us > source.mtime_us:
            source.mtime_us = message.time_us

    def progress(self) -> Iterable[ProgressFact]:
        cells: dict[int, list[tuple[int, str]]] = defaultdict(list)
        frames = {}
        for address, line in sorted(self.lines.items()):
            cells[address // CELL].append((address, line.frame.text))
            frames[line.frame.text] = line.frame
        for cell, lines in cells.items():
            fact = read_cell(self.source.origin.source_id, cell, lines, frames.__getitem__, portion=True)
            if fact is not None:
                yield fact

    def signals(self) -> tuple[SignalFact, ...]:
        for signal in self.seen:
            self.source.context.stamp(signal.first)
            self.source.context.stamp(signal.last)
        return tuple(self.fold.fact(signal, tuple(sorted(seen))) for signal, seen in self.seen.items())


class Reader:
    """Reads batches one after the other; one for each worker thread. It remembers what it has said of sources."""

    def __init__(self, ruleset: RulesetImpl, engine: BlockEngine) -> None:
        self._ruleset, self._engine = ruleset, engine
        self._texts = Texts(ruleset)
        escaped = escaped_literals(ruleset)
        self._hidden = (*HIDDEN, *escaped)
        self._sampler = Sampler()
        self._sources = Sources()

    def scan(self, messages: Sequence[Message], now: float) -> Scanned:
        """Facts of a batch. now: seconds of a clock that never falls; it rules only how much besides hits is read."""
        hits = self._hits(messages)
        accounts: dict[str, Account] = defaultdict(Account)
        dead: list[Dead] = []
        sources: dict[str, _Gathering] = {}
        parts: list[Facts] = []
        quiet: list[int] = []
        for index, message in enumerate(messages):
            value, found = message.value, hits.get(index)
            if found is None and value and (not message.headers or "format" not in message.headers):
                # by far the most: a record of a shipper without a hit
                if (value.startswith(b"{") and value.endswith(b"}")) or (bad := poison(value)) is None:
                    quiet.append(index)
                else:
                    self._dead(message, bad, accounts[message.topic], dead)
                continue
            account = accounts[message.topic]
            if not value:
                account.empty += 1
                continue
            said = read(message, [at for at, _ in found] if found else None)
            if (lines := self._lines_of(message, said, account, dead, parts)) is not None:
                self._lines(message, lines, found or (), sources, account)
        chosen = self._sampler.choose(messages, quiet, now)
        for index in chosen:
            message = messages[index]
            account = accounts[message.topic]
            if (lines := self._lines_of(message, read(message), account, dead, parts)) is not None:
                account.noise += 1
                for line in lines:
                    self._gathering(sources, line).frame(line, message)
        if len(chosen) < len(quiet):
            for topic, n in Counter(messages[index].topic for index in quiet).items():
                accounts[topic].noise += n
            for index in chosen:
                accounts[messages[index].topic].noise -= 1
        for gathering in sources.values():
            signals = gathering.signals()
            parts.append(Facts(signals=signals))
            parts.append(self._sources.said(gathering.source, tuple(gathering.progress()), now, urgent=bool(signals)))
        return self._scanned(merge_facts([*parts, _quarantined(dead)]), dict(accounts), tuple(dead))

    def due(self, now: float) -> Scanned:
        """What has waited long enough to be written."""
        return self._scanned(self._sources.due(now), {}, ())

    def forget(self) -> None:
        """Have everything said again: what was said may not have arrived."""
        self._sources = Sources()

    def rest(self) -> Scanned:
        """All that waits."""
        return self._scanned(self._sources.due(None), {}, ())

    def _scanned(self, facts: Facts, accounts: dict[str, Account], dead: tuple[Dead, ...]) -> Scanned:
        touched = {
            f.source_id for part in (facts.sources, facts.signals, facts.progress, facts.fragments) for f in part
        }
        keys = {source_id: self._sources.key(source_id) for source_id in touched}
        for fragment in facts.fragments:
            keys[fragment.source_id] = f"job:{fragment.job_id}"
        return Scanned(facts, accounts, dead, keys)

    def _hits(self, messages: Sequence[Message]) -> dict[int, list[tuple[int, tuple[str, ...]]]]:
        """Message index -> (offset in its value, rule ids) of its hits, in order."""
        begins, at = [], 0
        for message in messages:
            begins.append(at)
            at += len(message.value or b"") + 1
        joined = b"\n".join(message.value or b"" for message in messages)
        found: dict[int, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
        for end, anchor in sorted((end, anchor) for anchor, end in self._engine.scan(memoryview(joined))):
            index = bisect_right(begins, end - 1) - 1
            found[index].append((end - 1 - begins[index], self._engine.rule_ids[anchor]))
        return found

    def _lines_of(
        self,
        message: Message,
        said: Reading,
        account: Account,
        dead: list[Dead],
        parts: list[Facts],
    ) -> Sequence[Line] | None:
        """The lines that a message holds; None where it holds none, and what it was instead is noted."""
        if isinstance(said, Poison):
            self._dead(message, said, account, dead)
            return None
        if isinstance(said, Document):
            parts.append(read_document(said, message, self._ruleset))
            account.documents += 1
            return None
        return said

    def _lines(
        self,
        message: Message,
        lines: Sequence[Line],
        hits: Sequence[tuple[int, tuple[str, ...]]],
        sources: dict[str, _Gathering],
        account: Account,
    ) -> None:
        value = message.value or b""
        whole = {name for _, ids in hits for name in ids}
        counted = unparsed = False
        split = len(lines) > 1 and lines[-1].begin > 0
        for n, line in enumerate(lines):
            names = whole
            if split:
                end = lines[n + 1].begin if n + 1 < len(lines) else len(value)
                names = {name for at, ids in hits if line.begin <= at < end for name in ids}
            gathering = self._gathering(sources, line)
            gathering.frame(line, message)
            if not names:
                continue
            matched, parsed = self._line(value, line, tuple(sorted(names)), gathering)
            counted |= matched
            unparsed |= not parsed
        if counted:
            account.signals += 1
        elif unparsed:
            account.unparsed += 1
        else:
            account.noise += 1

    def _line(self, value: bytes, line: Line, names: tuple[str, ...], gathering: _Gathering) -> tuple[bool, bool]:
        """(whether a rule matched, whether the line was understood) of one line with hits."""
        frame, family = line.frame, line.origin.stream.family
        hidden = MARK in names and any(mark in value for mark in self._hidden)
        if MARK in names:
            told = line.marks(frame.text)
            gathering.source.context.mark({name: secrets(text) for name, text in told.items()})
        if names == (MARK,) and not hidden:
            return False, True
        matches, _ = self._texts.match(frame.text, family, names, hidden=hidden)
        if not matches:
            return False, names == (MARK,) and frame.ok
        host = short_host(frame.host) if frame.host else ""
        for signal in gathering.fold.add(matches, host, frame.rank, frame.stamp, line.address, _NO_LINES):
            gathering.seen[signal].add(line.address)
        return True, frame.ok

    def _gathering(self, sources: dict[str, _Gathering], line: Line) -> _Gathering:
        known = sources.get(line.origin.source_id)
        if known is None:
            known = sources[line.origin.source_id] = _Gathering(self._sources.of(line.origin))
        return known

    @staticmethod
    def _dead(message: Message, bad: Poison, account: Account, dead: list[Dead]) -> None:
        account.dead += 1
        dead.append(Dead(message, bad.reason))


def _quarantined(dead: Collection[Dead]) -> Facts:
    return Facts(
        quarantine=tuple(
            Quarantine(f"{d.message.topic}/{d.message.partition}", "", d.message.offset, len(d.message.value or b""),
                       d.reason)
            for d in dead
        )
    )  # fmt: skip
