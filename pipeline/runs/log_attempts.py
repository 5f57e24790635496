"""Parts of several logs of one job as attempts: which ran at the same time, which record they belong to. Pure.

`align` puts the parts of logs that ran side by side (stdout and stderr, ranks, nodes) together; `spread` gives the
parts of a job's logs to the attempts that its scheduler knows, by time, else in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pipeline.joining.events import ClockLike
from pipeline.runs.attempts import Mark, Part
from pipeline.runs.job_records import JobRecord
from schemas.facts import Stamp

#: How far a part may begin before or end after the times of the record that it belongs to, microseconds.
SLACK_US = 5 * 60 * 1_000_000


@dataclass(slots=True)
class LogAttempt:
    """Parts of different sources that are one attempt."""

    parts: list[Part] = field(default_factory=list)

    @property
    def ended(self) -> tuple[str, Mark | None]:
        """How it ended, over all its logs: MLPerf's end, a restart, then a failure before a mere word of success."""
        for part in self.parts:
            if part.end_mark is not None and "mlperf" in part.end_mark.tags:
                return part.ended, part.end_mark
        for wanted in ("restart", "planned", "failure", "success", "end"):
            for part in self.parts:
                if part.ended == wanted:
                    return part.ended, part.end_mark
        return "", None

    def marks(self, kind: str) -> list[tuple[Part, Mark]]:
        return [(part, m) for part in self.parts for m in part.marks if m.kind == kind]

    @property
    def key(self) -> tuple[str, int]:
        """Source and first byte of the attempt: the smallest source id among those with the most parts."""
        lead = min(self.parts, key=lambda p: p.source_id)
        return lead.source_id, lead.low


def utc(stamp: Stamp, clock: ClockLike | None) -> int | None:
    """A stamp in UTC microseconds, None without a clock that can tell."""
    if clock is None or stamp.kind == "none":
        return None
    return clock.utc(stamp)[0]


def part_span(
    part: Part, clocks: Mapping[str, ClockLike], whole: Mapping[str, tuple[int, int] | None]
) -> tuple[int, int] | None:
    """First and last time of a part: from its marks, and from the source's stamps where the part reaches its ends."""
    clock = clocks.get(part.source_id)
    times = [t for s in part.stamps if (t := utc(s, clock)) is not None]
    sp = whole.get(part.source_id)
    if sp is not None and part.low == 0:
        times.append(sp[0])
    if sp is not None and part.high < 0:
        times.append(sp[1])
    return (min(times), max(times)) if times else None


def align(per_source: Mapping[str, Sequence[Part]], clocks: Mapping[str, ClockLike]) -> list[LogAttempt]:
    """Attempts over logs that ran side by side.

    The log with the most parts leads; logs with as many parts go along with it; a log with fewer parts is cut at the
    same times where it has stamps, else it belongs to the last attempt as a whole.
    """
    if not per_source:
        return []
    order = sorted(per_source, key=lambda s: (-len(per_source[s]), -sum(len(p.marks) for p in per_source[s]), s))
    lead = per_source[order[0]]
    attempts = [LogAttempt([p]) for p in lead]
    for source in order[1:]:
        parts = per_source[source]
        if len(parts) < len(lead):
            parts = _cut_by_time(parts, lead, clocks)
        offset = len(lead) - len(parts)
        for i, part in enumerate(parts):
            attempts[i + offset].parts.append(part)
    return attempts


def _cut_by_time(parts: Sequence[Part], lead: Sequence[Part], clocks: Mapping[str, ClockLike]) -> Sequence[Part]:
    """One log's parts cut again at the ends of the leading log's attempts, where its own stamps allow."""
    if len(parts) != 1:
        return parts
    clock, lead_clock = clocks.get(parts[0].source_id), clocks.get(lead[0].source_id)
    borders = [utc(p.end_mark.stamp, lead_clock) if p.end_mark else None for p in lead[:-1]]
    timed = [(m.offset, t) for m in parts[0].marks if (t := utc(m.stamp, clock)) is not None]
    if not timed or any(b is None for b in borders):
        return parts
    cuts = []
    for border in borders:
        later = [offset for offset, t in timed if border is not None and t > border]
        cuts.append(min(later) if later else timed[-1][0] + 1)
    edges = [0, *sorted(cuts), -1]
    out = []
    whole = parts[0]
    for low, high in pairwise(edges):
        marks = [m for m in whole.marks if low <= m.offset and (high < 0 or m.offset < high)]
        out.append(Part(whole.source_id, low, high, marks))
    out[-1].ended, out[-1].end_mark = whole.ended, whole.end_mark
    return out


def spread(
    logs: Sequence[tuple[str, Sequence[Part]]],
    records: Sequence[JobRecord],
    clocks: Mapping[str, ClockLike],
    whole: Mapping[str, tuple[int, int] | None],
) -> dict[int, dict[str, list[Part]]]:
    """Record index -> source -> parts. logs: (source, its parts) in the order in which the logs ran.

    A part goes to the record whose times hold most of it; without times, parts (or logs with one part each) go in
    order where there are as many as records, else to the last record.
    """
    out: dict[int, dict[str, list[Part]]] = {i: {} for i in range(len(records))}
    single = [source for source, parts in logs if len(parts) == 1]
    for source, parts in logs:
        for i, part in enumerate(parts):
            at = _by_time(part_span(part, clocks, whole), records)
            if at is None and len(parts) == len(records):
                at = i
            elif at is None and len(single) == len(logs) == len(records):
                at = single.index(source)
            out[len(records) - 1 if at is None else at].setdefault(source, []).append(part)
    return out


def _by_time(sp: tuple[int, int] | None, records: Sequence[JobRecord]) -> int | None:
    if len(records) == 1:
        return 0
    if sp is None or all(r.start_us is None for r in records):
        return None
    best: tuple[int, int] | None = None
    for i, r in enumerate(records):
        if r.start_us is None:
            continue
        following = [x.start_us for x in records[i + 1 :] if x.start_us is not None]
        high = r.end_us if r.end_us is not None else (following[0] if following else max(sp[1], r.start_us))
        overlap = min(sp[1], high + SLACK_US) - max(sp[0], r.start_us - SLACK_US)
        if overlap >= 0 and (best is None or overlap >= best[0]):
            best = (overlap, i)
    return None if best is None else best[1]
