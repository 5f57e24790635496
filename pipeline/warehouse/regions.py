"""Where and when something happened that may change which host has which fault episode. Plain data.

A region is a stretch of time on one host, or on all of them (`anywhere`); times are microseconds UTC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same times without overlaps, in order."""
    out: list[Span] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1]:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


class Regions:
    """Stretches of time by host. sources: whose signals without a clock are touched as well."""

    def __init__(self) -> None:
        self.by_host: dict[str, list[Span]] = defaultdict(list)
        self.anywhere: list[Span] = []
        self.sources: set[str] = set()

    def add(self, host: str, low: int, high: int) -> None:
        """One more stretch on a host; "" for signals of no known host."""
        self.by_host[host].append((low, high))

    def add_anywhere(self, low: int, high: int) -> None:
        """One more stretch on whatever host."""
        self.anywhere.append((low, high))

    def tidy(self) -> None:
        """Join overlapping stretches."""
        for host, spans in self.by_host.items():
            self.by_host[host] = merged(spans)
        self.anywhere = merged(self.anywhere)

    def meets(self, host: str, span: Span, gap: int) -> bool:
        """Whether what was at this time on this host, or silence of `gap` beside it, meets a region."""
        low, high = span[0] - gap, span[1] + gap
        return any(a <= high and b >= low for a, b in self.by_host.get(host, ())) or any(
            a <= high and b >= low for a, b in self.anywhere
        )

    def spans(self) -> list[Span]:
        """All stretches, of whatever host, without overlaps."""
        return merged([*self.anywhere, *(s for spans in self.by_host.values() for s in spans)])
