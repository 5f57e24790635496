"""Which lines of a stream each signal has counted: sets of addresses, kept by cell beside the signal.

A signal of a stream comes in portions, in any order and perhaps again. Its lines are told apart by their addresses
(`SignalFact.seen`); of each cell the set is kept here, so that a load reads and writes only the cells that it meets,
however many lines the signal has. `signals.counts` holds the sizes, which stay when a set is forgotten.
"""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from schemas.facts import CELL, SignalFact
from sql.dialect import batches, upsert
from sql.models import signal_lines

#: (signal id, cell): the key of one set.
Key = tuple[str, int]
_KEYS = 2_000


def pack_lines(addresses: Iterable[int]) -> bytes:
    """Addresses of one cell as two bytes each: their places in the cell, sorted, least byte first."""
    places = array("H", sorted({address % CELL for address in addresses}))
    if sys.byteorder == "big":
        places.byteswap()
    return places.tobytes()


def unpack_lines(data: bytes, cell: int) -> set[int]:
    """The addresses that `pack_lines` wrote."""
    places = array("H")
    places.frombytes(data)
    if sys.byteorder == "big":
        places.byteswap()
    base = cell * CELL
    return {base + place for place in places}


def count_lines(
    connection: Connection, cluster: str, signals: Sequence[SignalFact], now_us: int
) -> tuple[SignalFact, ...]:
    """The signals with exact counts instead of `seen`, whose lines are kept in the caller's transaction.

    Signals without `seen` stay as they are. The caller holds the locks of the sources.
    """
    if not any(signal.seen for signal in signals):
        return tuple(signals)
    by_source: dict[str, dict[Key, set[int]]] = defaultdict(lambda: defaultdict(set))
    for signal in signals:
        for address in signal.seen:
            by_source[signal.source_id][signal.signal_id, address // CELL].add(address)
    sizes: dict[Key, int] = {}
    statement = upsert(signal_lines, connection.dialect.name)
    for _, new in sorted(by_source.items()):
        known = _known(connection, cluster, new)
        rows = []
        for key in sorted(new):
            old = known.get(key, set())
            union = old | new[key]
            sizes[key] = len(union)
            if len(union) > len(old):
                rows.append(
                    {
                        "cluster": cluster,
                        "signal_id": key[0],
                        "cell": key[1],
                        "lines": pack_lines(union),
                        "changed_us": now_us,
                    }
                )
        for chunk in batches(rows):
            connection.execute(statement, chunk)
    return tuple(_counted(signal, sizes) if signal.seen else signal for signal in signals)


def _counted(signal: SignalFact, sizes: dict[Key, int]) -> SignalFact:
    counts = dict(signal.counts)
    for cell in {address // CELL for address in signal.seen}:
        counts[cell] = max(counts.get(cell, 0), sizes[signal.signal_id, cell])
    return replace(signal, counts=tuple(sorted(counts.items())), seen=())


def _known(connection: Connection, cluster: str, keys: Collection[Key]) -> dict[Key, set[int]]:
    """The sets of these keys, and perhaps others between them: lines of one source come in order, mostly."""
    table = signal_lines.c
    cells = [cell for _, cell in keys]
    found: dict[Key, set[int]] = {}
    for ids in batches(sorted({signal_id for signal_id, _ in keys}), _KEYS):
        query = select(table.signal_id, table.cell, table.lines).where(
            table.cluster == cluster, table.signal_id.in_(ids), table.cell.between(min(cells), max(cells))
        )
        for signal_id, cell, data in connection.execute(query):
            if (signal_id, cell) in keys:
                found[signal_id, cell] = unpack_lines(data, cell)
    return found


def forget_lines(connection: Connection, cluster: str, before_us: int) -> int:
    """Forget the sets that nothing was added to since this wall-clock time; returns how many. Counts stay.

    A line that comes again later than this no longer counts twice either: of a cell the larger count holds.
    """
    table = signal_lines
    return connection.execute(delete(table).where(table.c.cluster == cluster, table.c.changed_us < before_us)).rowcount
