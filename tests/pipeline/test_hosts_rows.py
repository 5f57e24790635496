"""Rows of hosts: what logs say of a host does not depend on which of them was loaded first."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from sqlalchemy import select

from sql import models
from sql.store import open_store
from tests.pipeline.loading import load, url
from tests.pipeline.tiny_sites import Files


def _driver(version: str, day: int) -> str:
    head = f"2026-03-{day:02d}T08:00:00.000000+00:00 pine4 kernel: "
    return (
        f"{head}NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}  Thu Jan 1 00:00:00 UTC 2026\n"
        f"{head}audit: type=1400 audit(1): apparmor allowed pid=1000\n"
    )


LOGS: Files = {
    "a/kern.log": _driver("550.54.15", 3),
    "b/kern.log": _driver("535.104.05", 9),
    "c/kern.log": _driver("570.86.10", 6),
}


def hosts(warehouse: str) -> list[dict[str, object]]:
    with open_store(warehouse) as store, store.reading() as connection:
        return [dict(row) for row in connection.execute(select(models.hosts)).mappings()]


@pytest.mark.parametrize("order", list(permutations(sorted(LOGS))), ids="-".join)
def test_the_driver_is_that_of_the_latest_log(order: tuple[str, ...], tmp_path: Path) -> None:
    for path in order:
        load(url(tmp_path), tmp_path, {path: LOGS[path]})
    (row,) = hosts(url(tmp_path))
    assert (row["host"], row["driver_version"]) == ("pine4", "535.104.05")
    load(url(tmp_path, "whole"), tmp_path, LOGS)
    assert hosts(url(tmp_path, "whole")) == [row]


def test_what_else_is_known_of_a_host_stays(tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, {"a/kern.log": LOGS["a/kern.log"]})
    with open_store(url(tmp_path)) as store:
        store.upsert_hosts("default", [{"host": "pine4", "rack": "r7"}, {"host": "other1", "rack": "r8"}])
    load(url(tmp_path), tmp_path, {"b/kern.log": LOGS["b/kern.log"]})
    found = {row["host"]: (row["rack"], row["driver_version"]) for row in hosts(url(tmp_path))}
    assert found == {"pine4": ("r7", "535.104.05"), "other1": ("r8", None)}
