"""Which lines of a stream each signal has counted: sets of addresses, kept by cell beside the signal.

A signal of a stream comes in portions, in any order and perhaps again. Its lines are told apart by their addresses
(`SignalFact.seen`); of each cell the set is kept here, so that a load reads and writes only the cells that it meets,
however many lines the signal has. `signals.counts` holds the sizes, which stay when a set is forgotten.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, delete, text

from schemas.facts import CELL, SignalFact
from sql.dialect import batches, driver_many, upsert
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
    new: dict[Key, set[int]] = defaultdict(set)
    for signal in signals:
        for address in signal.seen:
            new[signal.signal_id, address // CELL].add(address)
    sizes: dict[Key, int] = {}
    columns = ("cluster", "signal_id", "cell", "lines", "changed_us")
    write = driver_many(connection, upsert(signal_lines, connection.dialect.name), columns)
    for keys in batches(sorted(new), _KEYS):
        known = _known(connection, cluster, keys)
        rows = []
        for key in keys:
            old = known.get(key, set())
            union = old | new[key]
            sizes[key] = len(union)
            if len(union) > len(old):
                values = (cluster, *key, pack_lines(union), now_us)
                rows.append(dict(zip(columns, values, strict=True)))
        if rows:
            write(rows)
    return tuple(_counted(signal, sizes) if signal.seen else signal for signal in signals)


def _counted(signal: SignalFact, sizes: dict[Key, int]) -> SignalFact:
    counts = dict(signal.counts)
    for cell in {address // CELL for address in signal.seen}:
        counts[cell] = max(counts.get(cell, 0), sizes[signal.signal_id, cell])
    return replace(signal, counts=tuple(sorted(counts.items())), seen=())


#: Exactly these rows, in one statement however many they are.
_OF_KEYS = {
    "postgresql": (
        "SELECT l.signal_id, l.cell, l.lines FROM unnest(CAST(:ids AS text[]), CAST(:cells AS bigint[])) AS k (id, at) "
        "JOIN signal_lines AS l ON l.signal_id = k.id AND l.cell = k.at WHERE l.cluster = :cluster"
    ),
    "sqlite": (
        # CROSS: the keys come first, else SQLite reads the whole cluster for each of them
        "SELECT l.signal_id, l.cell, l.lines FROM json_each(:keys) AS k CROSS JOIN signal_lines AS l "
        "ON l.cluster = :cluster AND l.signal_id = json_extract(k.value, '$[0]') "
        "AND l.cell = json_extract(k.value, '$[1]')"
    ),
}


def _known(connection: Connection, cluster: str, keys: Sequence[Key]) -> dict[Key, set[int]]:
    """The sets of these keys, as far as there are any."""
    values: dict[str, object] = {"cluster": cluster}
    if connection.dialect.name == "postgresql":
        values.update(ids=[key[0] for key in keys], cells=[key[1] for key in keys])
    else:
        values["keys"] = json.dumps(keys)
    rows = connection.execute(text(_OF_KEYS[connection.dialect.name]), values)
    return {(signal_id, cell): unpack_lines(data, cell) for signal_id, cell, data in rows}


def forget_lines(connection: Connection, cluster: str, before_us: int) -> int:
    """Forget the sets that nothing was added to since this wall-clock time; returns how many. Counts stay.

    A line that comes again later than this no longer counts twice either: of a cell the larger count holds.
    """
    table = signal_lines
    return connection.execute(delete(table).where(table.c.cluster == cluster, table.c.changed_us < before_us)).rowcount
