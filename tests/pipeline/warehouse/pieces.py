"""Facts cut into random pieces, as a stream brings them: some signals now, a longer view of a source later."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from schemas.facts import Facts, SourceFact, Stamp


def partial_view(source: SourceFact, upto: float, rng: random.Random) -> SourceFact:
    """A source as it was when the stream had come to this share of it."""
    spans = tuple((kind, low, low + int((high - low) * upto)) for kind, low, high in source.spans)
    keep = [fact for fact in source.facts if rng.random() < 0.3 + upto]
    names = tuple((name, max(1, int(n * upto))) for name, n in source.names)
    return replace(
        source,
        size=int(source.size * upto),
        spans=spans,
        facts=tuple(keep),
        names=names,
        lines=None if source.lines is None else int(source.lines * upto),
        signal_lines=int(source.signal_lines * upto),
        unparsed_lines=int(source.unparsed_lines * upto),
        ranges=(),
    )


def _when(stamp: Stamp, source: SourceFact) -> float:
    """Where in its source a stamp stands, 0 to 1."""
    for kind, low, high in source.spans:
        if kind == stamp.kind and high > low:
            return (stamp.us - low) / (high - low)
    return 1.0


def pieces(facts: Facts, n: int, rng: random.Random, late: float) -> Iterator[Facts]:
    """The facts in `n` pieces, roughly by the time of their source; `late`: share of those that come at any time.

    All pieces together say what `facts` says.
    """
    sources = {s.source_id: s for s in facts.sources}
    places: dict[int, dict[str, list[object]]] = {i: {"s": [], "p": [], "f": []} for i in range(n)}
    start = {sid: rng.random() * 0.7 for sid in sources}

    def put(kind: str, fact: object, source_id: str, at: float) -> None:
        whole = start[source_id] + (1 - start[source_id]) * at
        index = rng.randrange(n) if rng.random() < late else min(n - 1, int(whole * n))
        places[index][kind].append(fact)

    for signal in facts.signals:
        put("s", signal, signal.source_id, _when(signal.first, sources[signal.source_id]))
    for fact in facts.progress:
        put("p", fact, fact.source_id, _when(fact.last, sources[fact.source_id]))
    for fragment in facts.fragments:
        put("f", fragment, fragment.source_id, rng.random())
    done: set[str] = set()
    for i in range(n):
        mine = places[i]
        ids = {f.source_id for kind in mine.values() for f in kind}  # type: ignore[attr-defined]
        views = []
        for sid in sorted(ids):
            share = max(0.0, min(1.0, ((i + 1) / n - start[sid]) / (1 - start[sid])))
            if rng.random() < 0.2:
                share = 1.0
                done.add(sid)
            views.append(sources[sid] if share >= 1.0 else partial_view(sources[sid], share, rng))
            if share >= 1.0:
                done.add(sid)
        if i == n - 1:
            views.extend(sources[sid] for sid in sorted(sources.keys() - done))
        yield Facts(tuple(views), tuple(mine["s"]), tuple(mine["p"]), tuple(mine["f"]))  # type: ignore[arg-type]
