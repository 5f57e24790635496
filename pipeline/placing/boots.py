"""When did the machine boot? Anchors that tie uptime stamps to UTC.

Evidence: lines that carry both clocks, `Linux version` lines with a wall stamp, boot times that a scheduler prints; of
the source itself, or of another source of the same host. Estimates of one boot differ by drift and by late arrival, so
they are gathered by boot, and a log is tied to the boot that its stamps fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.placing.clock import DAY, DRIFT, SECOND

#: Estimates of one boot lie this close, plus drift; a machine does not boot twice in that time.
_SAME_BOOT_US = 120 * SECOND
_MOST_ANCHORS = 4_096


class Estimate(NamedTuple):
    """mono_us and utc_us of one moment. own: read off the source itself. origin: in words. doubt_s: seconds."""

    mono: int
    utc: int
    own: bool
    origin: str
    doubt_s: float

    @property
    def boot(self) -> int:
        return self.utc - self.mono


def gather(estimates: Sequence[Estimate]) -> list[list[Estimate]]:
    """Estimates by boot, earliest boot first, each group by uptime."""
    groups: list[list[Estimate]] = []
    for estimate in sorted(set(estimates), key=lambda e: (e.boot, e)):
        slack = _SAME_BOOT_US + DRIFT * estimate.mono
        if groups and estimate.boot - groups[-1][-1].boot <= slack:
            groups[-1].append(estimate)
        else:
            groups.append([estimate])
    return [sorted(group) for group in groups]


def anchor(
    span: tuple[int, int] | None,
    estimates: Sequence[Estimate],
    mtime_us: int | None,
    dated: Sequence[tuple[int, int]],
) -> tuple[tuple[tuple[int, int], ...], float, str | None]:
    """(anchors, doubt in seconds, assumption) for a source whose uptimes span `span`; no anchors where nothing fits.

    A boot fits if the log's last uptime lies before the next known boot and before the file was written. Among those
    that fit, the source's own pairs come first, then the boot that puts the log on the dated intervals of its root,
    then the latest.
    """
    groups = gather(estimates)
    if not groups or span is None:
        return (), 0.0, None
    starts = [max(e.boot for e in group) for group in groups]
    ranked = []
    for i, group in enumerate(groups):
        low, high = starts[i] + span[0], starts[i] + span[1]
        after = starts[i + 1] if i + 1 < len(groups) else None
        cut = after is not None and high > after + _SAME_BOOT_US
        late = mtime_us is not None and high > mtime_us + DAY
        own = any(e.own for e in group)
        if (cut or late) and not own:
            continue
        gap = min((max(0, a - high, low - b) for a, b in dated), default=0)
        ranked.append(((not own, gap, -starts[i]), i, group))
    if not ranked:
        return (), 0.0, None
    _, _, group = min(ranked, key=lambda r: r[:2])
    best = min(e.doubt_s for e in group)
    kept = [e for e in group if e.doubt_s <= best + 5.0]
    anchors = sorted({(e.mono, e.utc) for e in kept})
    step = -(-len(anchors) // _MOST_ANCHORS)
    why = None if any(e.own for e in kept) else f"boot time from {min(e.origin for e in kept)}"
    if why is not None and len(ranked) > 1:
        why = f"{why}, one of {len(ranked)} boots that fit"
    return tuple(anchors[::step]), best, why
