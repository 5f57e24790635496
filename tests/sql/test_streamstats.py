"""Rows of a stream's workers."""

from __future__ import annotations

import pytest

from sql.store import Store
from sql.streamstats import PAST, fold_stats, read_stats, write_stats


def _read(store: Store, cluster: str) -> dict[str, str]:
    with store.reading() as connection:
        return read_stats(connection, cluster)


def test_a_worker_replaces_its_own_row_only(store: Store) -> None:
    write_stats(store, "c", "a", "1")
    write_stats(store, "c", "b", "2")
    write_stats(store, "c", "a", "3")
    assert _read(store, "c") == {"a": "3", "b": "2"}


@pytest.mark.parametrize("other", ["c:x", "c%", "c_", "C", ""])
def test_clusters_with_names_alike_are_kept_apart(store: Store, other: str) -> None:
    write_stats(store, "c", "a", "1")
    write_stats(store, other, "a", "2")
    assert _read(store, "c") == {"a": "1"}
    assert _read(store, other) == {"a": "2"}


def test_folding_replaces_rows_by_one(store: Store) -> None:
    for worker in "abc":
        write_stats(store, "c", worker, worker)
    fold_stats(store, "c", lambda rows: (["a", "b"], rows["a"] + rows["b"]))
    assert _read(store, "c") == {"c": "c", PAST: "ab"}
    fold_stats(store, "c", lambda rows: None)
    assert _read(store, "c") == {"c": "c", PAST: "ab"}
