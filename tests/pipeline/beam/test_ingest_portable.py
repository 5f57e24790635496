"""The whole ingest on PortableRunner: job server and workers in processes of their own, shards on a shared folder."""

from __future__ import annotations

from pathlib import Path

from schemas.settings import Settings
from tests.pipeline.loading import load, same, site, url


def test_portable_ingest_gives_the_rows_of_a_local_one(tmp_path: Path, portable_args: tuple[str, ...]) -> None:
    files = site("hbm", noise_lines=1500)
    settings = Settings(range_bytes=65536)
    load(url(tmp_path, "here"), tmp_path, files, settings)
    shared = tmp_path / "shared"
    shared.mkdir()
    args = (*portable_args, f"--temp_location={shared}")
    there = load(url(tmp_path, "there"), tmp_path, files, settings, args, runner="PortableRunner")
    assert there.ranges > there.sources
    assert same(url(tmp_path, "there")) == same(url(tmp_path, "here"))
    assert not list(shared.iterdir()), "shards are removed when they are loaded"
