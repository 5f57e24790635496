"""Anchors, engines and hit lines: both engines give the same lines on any block."""

from __future__ import annotations

import pickle
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.errors import EngineError
from classifiers.knowledge import load_ruleset
from classifiers.knowledge.healthy import healthy_text
from classifiers.matching import MARK, hit_lines, make_engine, parse_anchor
from classifiers.matching.anchors import derive, literal_length
from classifiers.matching.backtracking import can_match_line_end, degree, problems
from classifiers.matching.examples import examples
from classifiers.matching.hyperscan_engine import HyperscanEngine
from classifiers.matching.lines import line_bounds

RULES = load_ruleset()
FAST = make_engine(RULES, "hyperscan", marks=(b"NVRM: Xid (", b"a mark of ours"))
SLOW = make_engine(RULES, "re2", marks=(b"NVRM: Xid (", b"a mark of ours"))
SAMPLES = [s for r in RULES.rules.values() for s in (*r.must_match, *r.must_not_match)]


def by_hand(block: bytes) -> list[tuple[int, int, tuple[str, ...]]]:
    """Hit lines found with Python's `re`, anchor by anchor: slow and plain."""
    out = []
    start = 0
    for line in re.split(rb"[\n\r]", block):
        ids: set[str] = set()
        for anchor, users in RULES.anchors:
            if anchor.compiled().search(line):
                ids.update(users)
        if b"a mark of ours" in line or b"NVRM: Xid (" in line:
            ids.add(MARK)
        if ids:
            out.append((start, start + len(line), tuple(sorted(ids))))
        start += len(line) + 1
    return out


pieces = st.one_of(
    st.sampled_from(SAMPLES).map(str.encode),
    st.sampled_from([a.text.encode() for a, _ in RULES.anchors if a.kind != "regex"]),
    st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"", b"\0", b"\xff\xfe", "é█".encode(), b"a mark of ours"]),
    st.binary(max_size=12),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, max_size=10).map(b"".join))
def test_engines_agree_on_any_block(block: bytes) -> None:
    fast = hit_lines(FAST, block)
    assert fast == hit_lines(SLOW, memoryview(bytearray(block)))
    assert fast == by_hand(block)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(SAMPLES).map(str.encode), min_size=1, max_size=6), st.data())
def test_cut_at_a_line_end_changes_nothing(samples: list[bytes], data: st.DataObject) -> None:
    """Blocks that are cut between lines give the lines of the whole."""
    whole = b"\n".join(samples) + b"\n"
    ends = [i + 1 for i, b in enumerate(whole) if b == 10]
    cut = data.draw(st.sampled_from(ends))
    first = hit_lines(FAST, whole[:cut])
    second = [(a + cut, b + cut, ids) for a, b, ids in hit_lines(FAST, whole[cut:])]
    assert hit_lines(FAST, whole) == first + second


def test_samples_in_healthy_text_are_all_found() -> None:
    healthy = healthy_text(1 << 19).splitlines()
    lines = [part for i, sample in enumerate(SAMPLES) for part in (healthy[i], sample.encode())]
    block = b"\n".join(lines)
    fast = hit_lines(FAST, block)
    assert fast == hit_lines(SLOW, block)
    wanted = {sample.encode() for r in RULES.rules.values() for sample in r.must_match}
    assert wanted <= {block[start:stop] for start, stop, _ in fast}


def test_carriage_return_ends_a_line() -> None:
    block = b"10%|#  |\rNVRM: Xid (PCI:0000:4d:00): 79, x\r20%|## |"
    ((start, stop, ids),) = hit_lines(FAST, block)
    assert block[start:stop] == b"NVRM: Xid (PCI:0000:4d:00): 79, x"
    assert MARK in ids
    assert "nv_xid" in ids


def test_marks_are_told_from_rules() -> None:
    assert hit_lines(FAST, b"here is a mark of ours\n") == [(0, 22, (MARK,))]
    assert hit_lines(FAST, b"") == []


def test_line_bounds() -> None:
    data = b"one\r\ntwo\nthree"
    assert line_bounds(data, 3) == (0, 3)
    assert line_bounds(data, 7) == (5, 8)
    assert line_bounds(data, 14) == (9, 14)


def test_threads_share_an_engine() -> None:
    block = "\n".join(SAMPLES[:200]).encode()
    expected = hit_lines(FAST, block)
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(hit_lines(FAST, block))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


@pytest.mark.parametrize("engine", [FAST, SLOW], ids=["hyperscan", "re2"])
def test_engines_are_not_pickled(engine: object) -> None:
    with pytest.raises(TypeError, match="build it in each worker"):
        pickle.dumps(engine)


def test_compiled_database_is_cached_and_a_damaged_one_made_again(tmp_path: Path) -> None:
    table = [("abcdefg", ("x",))]
    HyperscanEngine(table, tmp_path)
    (cached,) = tmp_path.glob("*.hsdb")
    good = cached.read_bytes()
    cached.write_bytes(good[: len(good) // 2])
    engine = HyperscanEngine(table, tmp_path)
    assert hit_lines(engine, b"..abcdefg..") == [(0, 11, ("x",))]
    assert cached.read_bytes() == good


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(EngineError, match="auto, hyperscan or re2"):
        make_engine(RULES, "grep")


def test_rules_without_anchors_give_an_engine_that_finds_nothing() -> None:
    class Empty:
        anchors = ()

    for name in ("hyperscan", "re2"):
        assert hit_lines(make_engine(Empty(), name), b"NVRM: Xid (PCI:0000:4d:00): 79\n") == []


@pytest.mark.parametrize(
    ("pattern", "anchors"),
    [
        (r"NVRM: Xid \((?:PCI:)?(?P<bdf>[0-9a-f:]+)\)", ["NVRM: Xid ("]),
        (r"(?:first choice|second choice) \d+", ["first choice ", "second choice "]),
        (r"(?i)No space left", ["i:no space left"]),
        (r"[Ff]ailed to train \d+ links", ["Failed to train ", "failed to train "]),
        (r"(?:long enough)?x\d+", []),
        (r"\d+ ab \w+", []),
        (r"(?:loop )+end of it", ["end of it"]),
    ],
)
def test_anchors_follow_from_patterns(pattern: str, anchors: list[str]) -> None:
    assert derive(pattern) == anchors


def test_kinds_of_anchors() -> None:
    assert parse_anchor("a.b(c").regex == r"a\.b\(c"
    assert parse_anchor("i:No Space").occurs_in("no SPACE left")
    assert parse_anchor(r"re:ab{2,4}c").occurs_in("xabbbc")
    assert literal_length(parse_anchor(r"re:ab{2,4}c")) == 4
    assert literal_length(parse_anchor("é")) == 2


@pytest.mark.parametrize("rule", RULES.rules.values(), ids=lambda r: r.id)
def test_engines_agree_on_made_up_lines(rule) -> None:
    """One line for each way through the pattern: both engines see the same anchors in it."""
    made = [text for text in examples(rule.pattern, 64) if "\n" not in text]
    assert all(re.search(rule.pattern, text) for text in made)
    assert hit_lines(FAST, "\n".join(made).encode()) == hit_lines(SLOW, "\n".join(made).encode())


def test_examples_show_each_alternative() -> None:
    assert examples(r"(?:ab|cd)?e\d{2,4}f") == ["e00f", "abe00f", "cde00f"]
    assert examples(r"^x[^\d ]+$") == ["xa"]
    assert len(examples("|".join(f"word{i}" for i in range(300)))) == 300


@pytest.mark.parametrize(
    "pattern",
    [r"(?:a+)+b", r"(?:a|aa)*b", r"(?:\w+\s*)*:", r"(?:.*,)*x", r"(?:a{1,9})*b", r"a*a*a*b", r".*x.*y.*z", r"(?:x*)*"],
)
def test_bad_patterns_are_seen(pattern: str) -> None:
    assert problems(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:\w+:)+ x",
        r"(?:a|b)*c",
        r"[^:]+(?::[^:]+)*: x",
        r".*x.*",
        r"a+b+c+d",
        r"(?:\[[^\]]{1,9}\] ?)*x",
        r"\d+ \w+ \S+$",
    ],
)
def test_good_patterns_pass(pattern: str) -> None:
    assert problems(pattern) == []


def test_degree_counts_competing_repeats() -> None:
    assert degree(r"x.*y.*z") == 2
    assert degree(r"[a-c]+[x-z]+q") == 1
    assert degree(r"literal") == 0
    assert degree(r"x.*") == 0


@pytest.mark.parametrize(("regex", "can"), [(r"a\sb", True), (r"[^x]", True), (r"a.b", True), (r"[^\n\rx]\d\w", False),
                                            (r"^ab", True), (r"ab$", True), (r"[ \t]{1,8}x", False)])  # fmt: skip
def test_line_ends_in_anchors(regex: str, can: bool) -> None:
    assert can_match_line_end(regex) is can


@pytest.mark.shared
def test_anchor_rate_on_healthy_runs(shared_data: Path) -> None:
    """Under one hit a MB on the runs of other people that went well, up to their `run_stop`.

    The marks of starts and ends are left out: a file of 200 KB has one of each by its nature.
    """
    import gzip

    folder = shared_data / "mlperf_bulk"
    boundary = {"start", "end", "success", "init", "resume", "ckpt_load", "ckpt_saved", "ckpt_begin", "planned_end"}
    engine = make_engine(RULES)
    size = hits = 0
    worst: dict[str, int] = {}
    for path in sorted(folder.glob("*.gz")):
        data = gzip.decompress(path.read_bytes())
        stop = data.find(b"run_stop")
        data = data[: stop if stop >= 0 else len(data)]
        size += len(data)
        for _, _, ids in hit_lines(engine, data):
            loud = [i for i in ids if not RULES.rules[i].tags & boundary]
            hits += bool(loud)
            for rule_id in loud:
                worst[rule_id] = worst.get(rule_id, 0) + 1
    assert size > 50e6
    assert hits / (size / 1e6) < 1, sorted(worst.items(), key=lambda w: -w[1])[:8]
