"""A log that is loaded while it is written: a line cut by its end leaves nothing behind once the rest is there."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pipeline.scanning.scan import scan_paths
from schemas.facts import Facts, merge_facts
from schemas.settings import Settings
from tests.pipeline.loading import EXAMPLES, load, same, site, url
from tests.pipeline.tiny_sites import SITES, Files, write

NAMES = sorted(SITES)
few = hypothesis_settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
many = hypothesis_settings(few, max_examples=EXAMPLES * 10)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        load(url(folder), folder, site(name))
        out[name] = same(url(folder))
    return out


def _cut(files: Files, share: float) -> Files:
    """Every log but the scheduler's records, cut anywhere behind its first line."""
    return {
        p: t if p.startswith("slurm/") else t[: max(t.index("\n") + 1, int(len(t) * share))] for p, t in files.items()
    }


@few
@given(name=st.sampled_from(NAMES), share=st.floats(0.0, 1.0), backwards=st.booleans())
def test_a_prefix_then_the_whole_is_the_whole(
    name: str, share: float, backwards: bool, plain: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    views = [_cut(site(name), share), site(name)]
    for files in reversed(views) if backwards else views:
        load(url(folder), folder, files)
    assert same(url(folder)) == plain[name]


KERN = "".join(
    f"2026-03-04T10:0{m}:00.000000+00:00 tula1 kernel: {text}\n"
    for m, text in enumerate(
        [
            "audit: type=1400 audit(1): apparmor allowed pid=1000",
            "NVRM: Xid (PCI:0000:4d:00): 79, pid=1234, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:4d:00): 119, pid=4321, Timeout after 6s of waiting for RPC response",
        ]
    )
)
JOB = "".join(
    f"[2026-03-04 10:{m:02d}:00] {text}\n"
    for m, text in enumerate(
        [
            "SLURM_JOB_ID=510177 world_size=64",
            *(f"iteration {n:8d}/ 1000 | elapsed time per iteration (ms): 20000.0" for n in range(980, 1001)),
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB",
        ]
    )
)


def _facts(folder: Path, text: str, path: str) -> Facts:
    root = write({path: text}, folder / "logs")
    return scan_paths([root], Settings())


@many
@given(text=st.sampled_from([("k/kern.log", KERN), ("jobs/510177/train.log", JOB)]), data=st.data())
def test_signals_progress_and_marks_of_any_prefixes(
    text: tuple[str, str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, whole = text
    low = whole.index("\n") + 1
    cuts = data.draw(st.lists(st.integers(low, len(whole)), min_size=1, max_size=3))
    views = [_facts(tmp_path_factory.mktemp("v"), whole[:n], path) for n in (*cuts, len(whole))]
    (only,) = [merge_facts(views[-1:])]
    for order in permutations(views):
        got = merge_facts(order)
        nested = merge_facts([order[0], merge_facts([merge_facts(order[1:]), order[0]])])
        assert got == nested
        assert got.signals == only.signals
        assert got.progress == only.progress
        (mine,), (wanted,) = got.sources, only.sources
        assert replace(mine, ranges=(), mtime_us=None) == replace(wanted, ranges=(), mtime_us=None)


def test_a_last_line_without_end_counts_while_nothing_follows(tmp_path: Path) -> None:
    cut = KERN[: KERN.index(" 119") + 4]
    facts = _facts(tmp_path, cut, "k/kern.log")
    assert sorted((dict(s.fields)["xid"], s.torn) for s in facts.signals) == [("119", len(cut)), ("79", -1)]
