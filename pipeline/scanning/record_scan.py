"""Reading record formats: the whole member is handed to the format, texts inside its records to the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.formats.base import RecordFormat
from pipeline.scanning.fold import Fold, Lines, prepare
from pipeline.scanning.mask import secrets
from pipeline.sources import Source, Stream, read_exactly
from schemas.facts import Facts, SourceFact, Stamp, merge_facts
from schemas.identity import short_host

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl

#: Longest text of a record that is matched, characters.
_TEXT = 16_384


class _Line(Lines):
    """The line number that a record format gave for the text in hand."""

    number: int | None = None

    def at(self, offset: int) -> int | None:  # noqa: ARG002
        return self.number


class Matcher:
    """See `pipeline.formats.base.LineMatcher`. Keeps all that it matched, so that repeats are counted."""

    def __init__(self, source_id: str, family: str, ruleset: RulesetImpl) -> None:
        self._source_id, self._family, self._ruleset = source_id, family, ruleset
        self.fold = Fold(source_id)
        self._offsets: set[int] = set()
        self._line = _Line()
        self.streams: dict[str, Matcher] = {}

    def stream(self, source_id: str, family: str) -> Matcher:
        """The matcher of one stream of a shipped document; what it matches is kept with the rest."""
        inner = self.streams.get(source_id)
        if inner is None:
            inner = self.streams[source_id] = Matcher(source_id, family, self._ruleset)
            inner._offsets = self._offsets  # lines with signals are counted once, for the document
        return inner

    @property
    def signal_lines(self) -> int:
        """Records or lines that matched a rule."""
        return len(self._offsets)

    def __call__(
        self, text: str, *, offset: int, line: int | None, stamp: Stamp, host: str = "", rank: int | None = None
    ) -> Facts:
        text = secrets(text[:_TEXT].replace("\0", ""))
        found = self._ruleset.match(text, self._family)
        if not found:
            return Facts()
        self._offsets.add(offset)
        self._line.number = line
        signals = self.fold.add(prepare(text, found), short_host(host) if host else "", rank, stamp, offset, self._line)
        return Facts(signals=tuple(self.fold.fact(signal) for signal in signals))


def parse_records(
    source: Source, fmt: RecordFormat, stream: Stream, ruleset: RulesetImpl, known: SourceFact, limit: int
) -> Facts:
    """Facts of a member of a record format; `known` is its row without content.

    A member above `limit` bytes is not parsed. Whatever a format raises is recorded: this is a quarantine boundary.
    """
    data = read_exactly(stream, limit + 1)
    if len(data) > limit:
        size = len(data)
        waste = memoryview(bytearray(1 << 18))
        while n := stream.readinto(waste):
            size += n
        reason = f"{fmt.name} larger than {limit} bytes: split it"
        row = replace(known, family=fmt.family, size=size, note=reason, ranges=((0, size, 0, 0, 0),))
        return Facts(sources=(row,), quarantine=(source.quarantine(0, size, reason),))
    match = Matcher(source.source_id, fmt.family, ruleset)
    info = replace(source.info(), size=len(data))
    torn = () if stream.damage is None else (source.quarantine(len(data), 0, stream.damage),)
    try:
        parsed = fmt.parse(data, info, match)
    except Exception as err:  # noqa: BLE001 - the quarantine boundary: one bad member must not stop the rest
        reason = f"{fmt.name} could not be parsed: {type(err).__name__}: {err}"[:300]
        parsed = Facts(quarantine=(source.quarantine(0, len(data), reason),))
    lines = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    own = [s for s in parsed.sources if s.source_id == source.source_id]
    row = replace(
        known, family=fmt.family, size=len(data), lines=lines, signal_lines=match.signal_lines,
    )  # fmt: skip
    for said in own:
        row = _joined(row, said)
    row = replace(row, ranges=((0, len(data), row.lines or 0, row.signal_lines, row.unparsed_lines),))
    others = tuple(s for s in parsed.sources if s.source_id != source.source_id)
    return merge_facts(
        [
            replace(parsed, sources=others),
            Facts(sources=(row,), signals=match.fold.facts(), quarantine=torn),
            *(Facts(signals=inner.fold.facts()) for inner in match.streams.values()),
        ]
    )


def _joined(row: SourceFact, said: SourceFact) -> SourceFact:
    """The scanner's row with what the format said of the source."""
    return replace(
        row,
        host=said.host or row.host,
        spans=said.spans,
        clocks=said.clocks,
        names=said.names,
        job_ids=tuple(sorted({*row.job_ids, *said.job_ids})),
        rank_hosts=said.rank_hosts,
        facts=tuple(sorted({*row.facts, *said.facts})),
        lines=said.lines if said.lines is not None else row.lines,
        signal_lines=max(said.signal_lines, row.signal_lines),
        unparsed_lines=said.unparsed_lines,
        note=said.note,
    )
