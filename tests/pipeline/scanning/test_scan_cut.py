"""The cut into ranges, repetition, order and growth never show in the facts."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.scanning import window
from pipeline.scanning.scan import scan_range
from pipeline.sources import Range
from schemas.facts import CELL, merge_facts
from tests.pipeline.scan_support import SETTINGS, engine, job_log, ruleset, scan_cut, source_of, syslog, whole

TEXTS = {
    "syslog": lambda: syslog(1, 4500, 0.02, storm=600, hosts=("gx-01", "gx-02")),
    "job": lambda: job_log(2, 6000, 0.03),
    "job with carriage returns": lambda: job_log(3, 6000, 0.03, end="\r"),
    "crlf": lambda: syslog(4, 4000, 0.02).replace(b"\n", b"\r\n"),
    "nul runs": lambda: b"\n".join(
        line + (b"\0" * 700 if i % 97 == 0 else b"") for i, line in enumerate(syslog(5, 4000, 0.02).split(b"\n"))
    ),
    "mixed encodings": lambda: "\n".join(
        line + (" größer" if i % 3 else " ok") for i, line in enumerate(syslog(6, 4000, 0.02).decode().split("\n"))
    ).encode("latin-1"),
    "no end": lambda: job_log(7, 5000, 0.02)[:-1],
}


@pytest.fixture(scope="module", params=sorted(TEXTS))
def case(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "one.log"
    path.write_bytes(TEXTS[request.param]())
    source = source_of(path)
    assert (source.size or 0) > 4 * CELL
    return source, whole(scan_cut(source))


def test_there_is_something_to_compare(case):
    _, facts = case
    assert len(facts.signals) > 20
    assert facts.sources[0].lines
    assert bool(facts.progress) == (facts.sources[0].family == "job")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_gives_the_same_facts(case, data):
    source, expected = case
    cells = st.integers(1, source.size // CELL)
    borders = data.draw(st.sets(cells, max_size=6))
    assert whole(scan_cut(source, [b * CELL for b in borders])) == expected


def test_every_cell_a_range(case):
    source, expected = case
    assert whole(scan_cut(source, range(CELL, source.size, CELL))) == expected


def test_repeated_and_shuffled_ranges_change_nothing(case):
    source, expected = case
    parts = [
        scan_range(Range(source, at, min(at + 2 * CELL, source.size)), ruleset(), engine(), SETTINGS)
        for at in range(0, source.size, 2 * CELL)
    ]
    random.Random(1).shuffle(parts)
    assert whole(merge_facts([*parts, *parts[:3]])) == expected


def test_overlapping_cuts_change_nothing(case):
    source, expected = case
    both = merge_facts([scan_cut(source, [2 * CELL]), scan_cut(source, [CELL, 3 * CELL])])
    assert whole(both) == expected


def test_both_engines_give_equal_facts(case):
    source, _ = case
    assert scan_cut(source, (), "re2") == scan_cut(source, (), "hyperscan")


@pytest.mark.parametrize("kind", ["syslog", "job"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_file_that_grew_ends_as_the_whole(tmp_path, kind, share):
    text = TEXTS[kind]()
    path = tmp_path / "grows.log"
    cut = text.index(b"\n", int(len(text) * share)) + 1
    path.write_bytes(text[:cut])
    early = scan_cut(source_of(path))
    path.write_bytes(text)
    late = scan_cut(source_of(path))
    assert early.sources[0].source_id == late.sources[0].source_id
    merged = merge_facts([early, late])
    assert merged.signals == late.signals
    assert [replace(s, ranges=(), mtime_us=0) for s in merged.sources] == [
        replace(s, ranges=(), mtime_us=0) for s in late.sources
    ]
    assert merge_facts([late, early]) == merged


@pytest.mark.parametrize("seed", range(6))
def test_long_lines_are_cut_at_the_same_places(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(window, "CAP", 2 * CELL)
    rng = random.Random(seed)
    pieces = []
    for block in range(8):
        pieces.append(syslog(seed * 10 + block, 150, 0.2))
        long = b"x" * rng.randrange(CELL // 2, 6 * CELL)
        at = rng.randrange(len(long))
        pieces.append(long[:at] + b" NVRM: Xid (PCI:0000:4d:00): 79, GPU has fallen off the bus. " + long[at:] + b"\n")
    path = tmp_path / "long.log"
    path.write_bytes(b"".join(pieces))
    source = source_of(path)
    expected = whole(scan_cut(source))
    assert any(s.rule == "nv_xid" for s in expected.signals)
    for every in (1, 2, 3, 7):
        assert whole(scan_cut(source, range(every * CELL, source.size, every * CELL))) == expected


def test_bytes_are_all_accounted_for(case):
    source, facts = case
    assert facts.sources[0].size == source.size
    assert not facts.quarantine


def test_line_numbers_are_those_of_the_file(tmp_path):
    text = syslog(9, 4000, 0.02)
    path = tmp_path / "numbers.log"
    path.write_bytes(text)
    facts = scan_cut(source_of(path), [CELL, 3 * CELL])
    assert facts.sources[0].lines == text.count(b"\n")
    for signal in facts.signals:
        assert signal.first_line == text.count(b"\n", 0, signal.first_offset) + 1
