"""Messages that are records of their own: job records of a scheduler, objects of Kubernetes, dumps.

A format reads the value as it reads a file. What it finds has offsets in the value; here they become addresses, and
signals count by them. Samples of telemetry are not taken from streams.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.formats.base import SourceInfo
from pipeline.scanning.fold import Fold, Lines, Signal, prepare
from pipeline.scanning.mask import secrets
from pipeline.stream.messages import RECORDS, ROOT, Document, Message
from schemas.facts import NO_STAMP, Facts, Quarantine, Stamp, merge_facts
from schemas.identity import short_host

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl

#: Longest text of a record that is matched, characters.
_TEXT = 16_384
_NO_LINES = Lines()


class _Matcher:
    """See `pipeline.formats.base.LineMatcher`. The n-th place that a format names is the n-th address."""

    def __init__(self, document: Document, ruleset: RulesetImpl, sent: Stamp) -> None:
        self._document, self._ruleset, self._sent = document, ruleset, sent
        self._places: dict[int, int] = {}
        self.fold = Fold(document.source_id)
        self.seen: dict[Signal, set[int]] = defaultdict(set)

    def __call__(
        self, text: str, *, offset: int, line: int | None, stamp: Stamp, host: str = "", rank: int | None = None
    ) -> Facts:
        del line
        text = secrets(text[:_TEXT].replace("\0", ""))
        found = self._ruleset.match(text, self._document.fmt.family)
        if not found:
            return Facts()
        place = self._places.setdefault(offset, len(self._places))
        address = self._document.address + min(place, RECORDS - 1)
        stamp = self._sent if stamp == NO_STAMP else stamp
        host = short_host(host) if host else ""
        signals = self.fold.add(prepare(text, found), host, rank, stamp, address, _NO_LINES)
        for signal in signals:
            self.seen[signal].add(address)
        return Facts(signals=tuple(self.fold.fact(signal) for signal in signals))


def read_document(document: Document, message: Message, ruleset: RulesetImpl) -> Facts:
    """Facts of one document. Whatever a format raises is recorded: this is a quarantine boundary."""
    sent = NO_STAMP if message.time_us is None else Stamp("utc", message.time_us)
    match = _Matcher(document, ruleset, sent)
    info = SourceInfo(document.source_id, document.path, ROOT, len(document.data), message.time_us)
    where = f"{message.topic}/{message.partition}"
    try:
        parsed = document.fmt.parse(document.data, info, match)
    except Exception as err:  # noqa: BLE001 - the quarantine boundary: one bad message must not stop the stream
        reason = f"{document.fmt.name} could not be parsed: {type(err).__name__}: {err}"[:300]
        return Facts(quarantine=(Quarantine(where, "", message.offset, len(document.data), reason),))
    sources = tuple(
        replace(s, size=0, lines=None, signal_lines=0, unparsed_lines=0, ranges=(), note="records of a stream")
        for s in parsed.sources
        if s.source_id == document.source_id
    )
    signals = tuple(match.fold.fact(signal, tuple(sorted(seen))) for signal, seen in match.seen.items())
    fragments = tuple(replace(f, offset=document.address, line=None) for f in parsed.fragments)
    torn = tuple(Quarantine(where, "", message.offset, q.length, q.reason) for q in parsed.quarantine)
    return merge_facts([Facts(sources, signals, (), fragments, torn)])
