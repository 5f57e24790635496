"""JSON read item by item: shapes, offsets, cuts and damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records.json_items import Broken, Item, iter_items

KEYS = frozenset({"items", "jobs"})


def read(data: bytes) -> tuple[list[Any], list[Broken]]:
    found = list(iter_items(data, KEYS))
    return [x.value for x in found if isinstance(x, Item)], [x for x in found if isinstance(x, Broken)]


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b'{"kind":"List","items":[{"a":1},{"b":2}]}', [{"a": 1}, {"b": 2}]),
        (b'{"a":1}\n{"b":2}\n', [{"a": 1}, {"b": 2}]),
        (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}]),
        (b'[{"a":1},{"b":2}]', [{"a": 1}, {"b": 2}]),
        (b'\xef\xbb\xbf{"items": [ ] , "x": 1}', []),
        (b'{"jobs":[{"a":1}],"items":[{"b":2}]}', [{"a": 1}, {"b": 2}]),
        (b'{"items":{"a":1}}', [{"items": {"a": 1}}]),
        (b"", []),
        (b"7 null", []),
        (b"[]", []),
    ],
)
def test_shapes(data: bytes, values: list[Any]):
    assert read(data) == (values, [])


def test_the_members_before_a_list_are_its_head():
    (item,) = iter_items(b'{"kind":"PodList","metadata":{"x":1},"items":[{"a":1}],"tail":2}', KEYS)
    assert isinstance(item, Item)
    assert item.head["kind"] == "PodList"
    assert "metadata" not in item.head


RECORD = st.dictionaries(st.text(max_size=6), st.text(max_size=12) | st.integers(), max_size=4)


@given(st.lists(RECORD, min_size=1, max_size=6), st.sampled_from([None, 1]), st.booleans(), st.data())
def test_a_cut_costs_only_the_record_it_hits(
    records: list[Any], indent: int | None, ascii_only: bool, data: st.DataObject
):
    text = json.dumps({"kind": "List", "items": records}, indent=indent, ensure_ascii=ascii_only)
    raw = text.encode("utf-8", "surrogatepass")
    spans = [(x.offset, x.offset + x.length) for x in iter_items(raw, KEYS) if isinstance(x, Item)]
    assert [json.loads(raw[a:b].decode("utf-8", "surrogatepass")) for a, b in spans] == records
    cut = data.draw(st.integers(0, len(raw) - 1))
    values, broken = read(raw[:cut])
    assert values == records[: sum(b <= cut for _, b in spans)]
    assert sum(b.length for b in broken) <= cut
    if cut:
        assert broken[-1].offset + broken[-1].length == cut


def test_a_broken_line_is_skipped_and_the_next_documents_read():
    values, broken = read(b'{"a":1}\n{"b":2\n{"c":3}\nrubbish\n{"d":4}\n')
    assert values == [{"a": 1}, {"c": 3}, {"d": 4}]
    assert [(b.offset, b.length) for b in broken] == [(8, 7), (23, 8)]


def test_deep_nesting_is_damage_not_a_crash():
    values, broken = read(b'{"items":[' + b"[" * 100_000)
    assert values == []
    assert len(broken) == 1
