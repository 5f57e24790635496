"""Payloads: equal values give equal bytes, and what is read back equals what was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.beam.coders import pack, unpack
from pipeline.beam.errors import CodingError
from pipeline.sources.model import Codec, Range, Slice, Source
from schemas.facts import Facts, ProgressFact, Quarantine, RunFragment, SignalFact, SourceFact, Stamp
from schemas.subject import Decision, Subject

TYPES = [SourceFact, SignalFact, ProgressFact, RunFragment, Quarantine]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(TYPES).flatmap(st.from_type))
def test_facts_survive(fact: object) -> None:
    data = pack(fact)
    again = unpack(type(fact), data)
    assert again == fact
    assert pack(again) == data


@settings(max_examples=15, deadline=None)
@given(st.from_type(Facts))
def test_nested_facts_survive(facts: Facts) -> None:
    assert pack(unpack(Facts, pack(facts))) == pack(facts)  # bytes, for NaN is not equal to itself


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([Subject, Decision]).flatmap(lambda t: st.builds(t)))
def test_subjects_and_decisions_survive(value: object) -> None:
    assert pack(unpack(type(value), pack(value))) == pack(value)  # bytes, for NaN is not equal to itself


def test_lone_surrogates_and_separators_survive() -> None:
    stamp = Stamp("utc", -1, True)
    signal = SignalFact("i", "s", "r", "", "h", "t\n\udc80,]", "b", stamp, 0, None, stamp, 0, '"\u2028"', (("a", "b"),))
    assert unpack(SignalFact, pack(signal)) == signal
    assert b"\n" not in pack(signal)


@dataclass(frozen=True)
class _Odd:
    path: Path
    raw: bytes
    names: frozenset[str] = frozenset()
    table: dict[str, tuple[int, ...]] = field(default_factory=dict)


def test_paths_bytes_sets_and_dicts_survive_in_one_order() -> None:
    one = _Odd(Path("/a/b"), b"\x00\xff", frozenset("xyz"), {"b": (1,), "a": ()})
    two = _Odd(Path("/a/b"), b"\x00\xff", frozenset("zyx"), {"a": (), "b": (1,)})
    assert unpack(_Odd, pack(one)) == one
    assert pack(one) == pack(two)


def test_one_of_several_dataclasses_survives() -> None:
    range_ = Range(Source("id", "/p", (Slice(1, 2), Codec("gzip")), "a!b", "b", "root", "", None, 3, None), 0, None)
    assert unpack(Range, pack(range_)) == range_


def test_a_type_without_a_coder_is_refused_by_name() -> None:
    @dataclass
    class Bad:
        x: complex

    with pytest.raises(CodingError, match="complex"):
        pack(Bad(1j))


def test_bytes_of_another_type_are_refused() -> None:
    with pytest.raises(CodingError, match="same version"):
        unpack(Quarantine, pack(Stamp("none", 0)))
