"""Episodes of hosts on which a changed run lived: what it trained after them clears them (`pipeline.joining.lives`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pipeline.joining.lives import life
from schemas.subject import JobRun

Span = tuple[int, int]


def episodes_lived_through(
    changed: Iterable[JobRun],
    episodes: Mapping[str, tuple[str, Span | None]],
    add: Callable[[str, int, int], None],
) -> None:
    """Note the episodes that lie in the life of a changed run, on one of its hosts; on any where it names none."""
    lives = [(span, frozenset(run.nodes)) for run in changed if (span := life(run)) is not None]
    if not lives:
        return
    low, high = min(span[0] for span, _ in lives), max(span[1] for span, _ in lives)
    for host, span in episodes.values():
        if span is None or span[1] < low or span[0] > high:
            continue
        if any(a <= span[1] and span[0] <= b and (not nodes or host in nodes) for (a, b), nodes in lives):
            add(host, *span)
