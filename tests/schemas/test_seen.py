"""Lines of a stream count once, however they are cut, repeated and ordered."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from schemas.facts import CELL, Facts, SignalFact, Stamp, merge_facts, merge_signals, with_seen

addresses = st.lists(st.integers(0, 40).map(lambda n: n * 20_000), max_size=12)


def portion(lines: list[int], text: str = "Xid") -> SignalFact:
    """A signal of these lines; a line's stamp and rank follow from its address, as in a real log."""
    at = sorted(lines) or [0]
    stamps = [Stamp("utc", 60_000_000 + a // 10_000) for a in at]
    base = SignalFact(
        "sig", "s1", "rule", "code=94", "node1", "Xid <n>", "utc:1", stamps[0], at[0], None, stamps[-1], at[-1], text,
        (), tuple(sorted((s.us, a, a % 7) for s, a in zip(stamps, at, strict=True))),
    )  # fmt: skip
    return with_seen(merge_signals(base, base), lines)


@given(st.lists(addresses.filter(bool), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_union_of_portions_counts_each_line_once(parts: list[list[int]], rng: object) -> None:
    facts = [portion(lines) for lines in parts]
    again = [*facts, *facts[:2]]
    rng.shuffle(again)  # type: ignore[attr-defined]
    merged = reduce(merge_signals, again)
    every = {a for lines in parts for a in lines}
    assert merged.seen == tuple(sorted(every))
    assert merged.count == len(every)
    assert merged == reduce(merge_signals, facts)
    assert merged == merge_signals(merged, merged)


@given(addresses, addresses, addresses)
def test_merging_is_associative_and_commutative(a: list[int], b: list[int], c: list[int]) -> None:
    x, y, z = (portion(lines) for lines in (a, b, c))
    assert merge_signals(merge_signals(x, y), z) == merge_signals(x, merge_signals(y, z))
    assert merge_signals(x, y) == merge_signals(y, x)


@given(addresses.filter(bool), addresses.filter(bool))
def test_counts_stay_where_the_lines_are_forgotten(a: list[int], b: list[int]) -> None:
    """A fact without its lines still bounds the count from below, and never adds lines up twice."""
    whole = merge_signals(portion(a), portion(b))
    forgotten = replace(portion(a), seen=())
    merged = merge_signals(forgotten, portion(b))
    assert dict(merged.counts) == {
        cell: max(dict(portion(a).counts).get(cell, 0), dict(portion(b).counts).get(cell, 0))
        for cell in {x // CELL for x in (*a, *b)}
    }
    assert merged.count <= whole.count
    assert merge_signals(merged, portion(a)).count == whole.count


@given(st.lists(addresses.filter(bool), min_size=1, max_size=4))
def test_facts_as_a_whole_merge_alike(parts: list[list[int]]) -> None:
    every = merge_facts(Facts(signals=(portion(lines),)) for lines in parts)
    one = merge_facts([Facts(signals=(portion([a for lines in parts for a in lines]),))])
    assert every == one
