"""The same graph on another runner: submitted to a job server, run by workers of a pool in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

from schemas.facts import merge_facts
from tests.pipeline.beam import made_up
from tests.pipeline.beam.test_facts_graph import TEXT, graph


def test_portable_runner_gives_the_rows_of_fn_api_runner(tmp_path: Path, portable_args: tuple[str, ...]) -> None:
    path = tmp_path / "a.log"
    path.write_text(TEXT)
    here, facts_here = graph([path], tmp_path / "here", 997)
    there, facts_there = graph([path], tmp_path / "there", 997, args=portable_args, runner="PortableRunner")
    assert facts_there == facts_here == merge_facts([made_up.facts_of(path, 0, path.stat().st_size)])
    assert there.rows == here.rows
    assert [r.range_id for r in there.receipts] == [r.range_id for r in here.receipts]


def test_the_scan_runs_in_the_pool(tmp_path: Path, portable_args: tuple[str, ...]) -> None:
    path = tmp_path / "a.log"
    path.write_text(TEXT)
    _, facts = graph(
        [path], tmp_path / "there", 997, scan=made_up.make_tell, args=portable_args, runner="PortableRunner"
    )
    pids = {q.offset for q in facts.quarantine}
    assert pids
    assert os.getpid() not in pids
