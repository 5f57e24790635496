"""Whole sites that are written piece by piece under the eyes of a watcher: at the end the rows of one ingest."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pipeline.shipping import iso
from tests.pipeline.tiny_sites import SITES, Site
from tests.pipeline.watch.site import Folder


def _replay(folder: Folder, files: Mapping[str, bytes], seed: int, pieces: int) -> None:
    """Writes the files in random pieces and polls now and then, rotating plain logs under way."""
    chance = random.Random(seed)
    left = {name: data for name, data in files.items() if data}
    sizes = {name: len(data) // pieces + 1 for name, data in left.items()}
    numbers: dict[str, int] = {}
    with folder.watching() as watcher:
        while left:
            name = chance.choice(sorted(left))
            n = chance.randint(1, 2 * sizes[name])
            folder.write(name, left[name][:n])
            left[name] = left[name][n:]
            if not left[name]:
                del left[name]
                if name.endswith("kern.log") and chance.random() < 0.5:
                    numbers[name] = 1
                    folder.rename(name, f"{name}.1")
                    if chance.random() < 0.5:
                        folder.pack(f"{name}.1")
            if chance.random() < 0.5:
                folder.now += chance.choice([0.0, 3.0, 11.0])
                folder.poll(watcher)


@pytest.mark.parametrize("name", sorted(SITES))
def test_a_tiny_site(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path)
    files = {path: text.encode() for path, text in SITES[name](Site()).items()}
    _replay(folder, files, seed=len(name), pieces=4)
    folder.finish()
    watched = folder.rows()
    assert any(row["incident"] for row in watched["incidents"])
    assert watched == folder.ingested()
    stored, scanned = folder.stored(), folder.scanned()
    assert stored["progress"] == scanned["progress"]
    assert stored["fragments"] == scanned["fragments"]


def test_the_example_site(tmp_path: Path, repository: Path) -> None:
    files = {}
    with tarfile.open(repository / "examples" / "example-site.tar.gz") as archive:
        for member in archive.getmembers():
            body = archive.extractfile(member)
            if body is not None:
                files[member.name] = body.read()
    folder = Folder(tmp_path)
    _replay(folder, files, seed=3, pieces=3)
    folder.finish()
    assert folder.rows() == folder.ingested()


def test_a_shipped_log_with_streams_of_pods(tmp_path: Path) -> None:
    lines = []
    for n in range(3000):
        text = f"step {n} loss 1.25" if n % 50 else f"RuntimeError: CUDA error: device-side assert triggered ({n})"
        record = {
            "date": 1772618400 + n,
            "time": iso((1772618400 + n) * 1_000_000),
            "log": f"{text}\n",
            "stream": "stderr",
            "kubernetes": {
                "pod_name": f"train-{n % 3}",
                "namespace_name": "train",
                "host": f"node{n % 3}",
                "container_name": "main",
            },
        }
        lines.append(json.dumps(record) + "\n")
    folder = Folder(tmp_path)
    _replay(folder, {"fluent.json": "".join(lines).encode()}, seed=1, pieces=12)
    with folder.watching() as watcher:
        folder.poll(watcher, hurry=True)
    stored, scanned = folder.stored(), folder.scanned()
    assert len(stored["sources"]) == 4
    assert len(stored["signals"]) > 10
    for kind, facts in scanned.items():
        assert stored[kind] == facts, kind
