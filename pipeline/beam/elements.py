"""Facts as elements: `("kind:id", (kind, parts, payload))`, and how the elements of one key become one.

`parts` counts how many emitted elements a merged one stands for, so that a sink can prove that none was lost. The
merge rules are those of `schemas.facts`; an element that met no other is never decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pipeline.beam.coders import pack, unpack
from pipeline.beam.errors import CodingError
from schemas.facts import (
    Facts,
    ProgressFact,
    Quarantine,
    RunFragment,
    SignalFact,
    SourceFact,
    merge_fragments,
    merge_progress,
    merge_signals,
    merge_sources,
)
from schemas.identity import digest

Value = tuple[str, int, bytes]
Element = tuple[str, Value]

SOURCE, SIGNAL, PROGRESS, FRAGMENT, QUARANTINE, RECEIPT = (
    "source",
    "signal",
    "progress",
    "fragment",
    "quarantine",
    "receipt",
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one range gave: bytes read, CPU seconds, elements emitted by kind (without the receipt itself)."""

    range_id: str
    bytes: int
    seconds: float
    emitted: tuple[tuple[str, int], ...]


def _merge_receipts(a: Receipt, b: Receipt) -> Receipt:
    return max(a, b, key=repr)


def _merge_quarantine(a: Quarantine, b: Quarantine) -> Quarantine:
    return min(a, b, key=repr)


_KINDS: dict[str, tuple[type, Callable[[Any, Any], Any]]] = {
    SOURCE: (SourceFact, merge_sources),
    SIGNAL: (SignalFact, merge_signals),
    PROGRESS: (ProgressFact, merge_progress),
    FRAGMENT: (RunFragment, merge_fragments),
    QUARANTINE: (Quarantine, _merge_quarantine),
    RECEIPT: (Receipt, _merge_receipts),
}


def element(kind: str, key: str, fact: object) -> Element:
    """One emitted element of one fact."""
    return f"{kind}:{key}", (kind, 1, pack(fact))


def fact_elements(facts: Facts) -> Iterator[Element]:
    """One element for each fact; their number depends on signals, never on lines."""
    for src in facts.sources:
        yield element(SOURCE, src.source_id, src)
    for sig in facts.signals:
        yield element(SIGNAL, sig.signal_id, sig)
    for prog in facts.progress:
        yield element(PROGRESS, f"{prog.source_id}:{prog.cell}", prog)
    for frag in facts.fragments:
        yield element(FRAGMENT, digest(*frag.key), frag)
    for bad in facts.quarantine:
        yield element(QUARANTINE, digest(bad.path, bad.source_id, bad.offset, bad.length, bad.reason), bad)


def decode(kind: str, payload: bytes) -> Any:  # noqa: ANN401 - one of the fact types
    """The fact of an element. Raises CodingError for an unknown kind."""
    if kind not in _KINDS:
        raise CodingError(f"unknown element kind {kind!r}; known are {', '.join(_KINDS)}")
    return unpack(_KINDS[kind][0], payload)


def merge_values(values: Iterable[Value]) -> Value:
    """All values of one key as one. Values must not be empty."""
    got = list(values)
    if len(got) == 1:
        return got[0]
    kind = got[0][0]
    parts = sum(n for _, n, _ in got)
    payloads = sorted({p for _, _, p in got})
    if len(payloads) == 1:
        return kind, parts, payloads[0]
    merge = _KINDS[kind][1]
    return kind, parts, pack(reduce(merge, (decode(kind, p) for p in payloads)))


def collect(rows: Iterable[tuple[str, bytes]]) -> Facts:
    """Facts of (kind, payload) rows in the order given; receipts are left out."""
    found: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    for kind, payload in rows:
        found[kind].append(decode(kind, payload))
    return Facts(
        sources=tuple(found[SOURCE]),
        signals=tuple(found[SIGNAL]),
        progress=tuple(found[PROGRESS]),
        fragments=tuple(found[FRAGMENT]),
        quarantine=tuple(found[QUARANTINE]),
    )
