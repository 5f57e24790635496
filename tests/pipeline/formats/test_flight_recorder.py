"""Reading one flight recorder dump: what is kept, and that nothing but plain data is ever loaded."""

from __future__ import annotations

import collections
import io
import os
import pickle
import pickletools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import sniff
from pipeline.formats.base import SourceInfo
from pipeline.formats.flight_recorder import _PLAIN, FORMATS, PlainUnpickler, RefusedError, rank_of
from tests.pipeline.dumps import as_json, as_pickle, healthy
from tests.pipeline.formats.framing import match_xid

FMT = FORMATS[0]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


def parse(data: bytes, path: str = "nccl_trace_rank_3"):
    return FMT.parse(data, SourceInfo("s", path, "r", len(data), None), match_xid)


@pytest.mark.parametrize(
    ("name", "rank", "host"),
    [
        ("a/nccl_trace_rank_12", 12, ""), ("gpu-17.cluster_rank_3", 3, "gpu-17.cluster"), ("x/_dump_9.json", 9, ""),
        ("x.tar.gz!d/node-1_rank_0.pkl", 0, "node-1"), ("trace_rank7", 7, ""), ("global_rank_5.json", 5, ""),
    ],
)  # fmt: skip
def test_rank_and_host_of_a_name(name: str, rank: int, host: str):
    assert rank_of(name) == (rank, host)


@pytest.mark.parametrize("name", ["dump.json", "kern.log", "pods.json", "rank.txt"])
def test_names_without_a_rank(name: str):
    assert rank_of(name) is None


@pytest.mark.parametrize("encode", [as_pickle, as_json])
def test_both_encodings_say_the_same(encode):
    world = healthy()
    world.run("0", done=False)
    data = encode(world.dump(3))
    found = sniff(data[:65536], "whatever.bin")
    assert found is FMT
    (source,) = parse(data).sources
    facts = set(source.facts)
    assert {"fr.rank=3", "fr.version=2.10", "fr.entries=13", "fr.last=0|7|7|6", "fr.group=1|TENSOR|0-3"} <= facts
    assert any(f.startswith("fr.op=0|7|all_reduce|1024x8|1024x8|BFloat16|scheduled|") for f in facts)
    assert any(f.startswith("fr.took=1|") for f in facts)
    assert source.spans[0][0] == "utc"


@pytest.mark.parametrize("protocol", range(2, 6))
@given(value=PLAIN)
def test_plain_data_of_any_protocol_loads(protocol: int, value):
    assert PlainUnpickler(io.BytesIO(pickle.dumps(value, protocol))).load() == value


@pytest.mark.parametrize("protocol", [4, 5])
def test_bytes_and_sets_load(protocol: int):
    value = [b"x" * 300, {1, 2}, frozenset("ab"), b""]
    assert PlainUnpickler(io.BytesIO(pickle.dumps(value, protocol))).load() == value


class Evil:
    def __reduce__(self):
        return (os.system, ("echo no > /tmp/never",))


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "value", [Evil(), collections.OrderedDict(a=1), {"entries": [Evil()]}, Path("/"), bytearray(b"x")]
)
def test_anything_else_is_refused_with_a_reason(protocol: int, value):
    data = pickle.dumps(value, protocol)
    with pytest.raises(RefusedError):
        PlainUnpickler(io.BytesIO(data)).load()
    (torn,) = parse(data).quarantine
    # without the head of a binary pickle it is no pickle to us, and no JSON either
    assert ("refused" if protocol >= 2 else "torn") in torn.reason


def test_only_instructions_that_build_plain_data_are_known():
    names = {op.name for op in pickletools.opcodes if ord(op.code) in _PLAIN}
    bad = ("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4",
           "PERSID", "BINPERSID", "BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER")  # fmt: skip
    assert not names & set(bad)
    assert len(names) + len(bad) == len(pickletools.opcodes)


@given(st.binary(max_size=400))
def test_any_bytes_parse_or_are_quarantined(data: bytes):
    for head in (b"", b"\x80\x02", b'{"pg_config": '):
        (source,) = parse(head + data).sources
        assert source.size == len(head + data)


@given(st.data())
def test_a_cut_or_flipped_dump_never_raises(data):
    raw = bytearray(as_pickle(healthy(4, 2).dump(1)))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(1, len(raw)))
    (source,) = parse(bytes(raw[:cut])).sources
    assert "fr.rank=3" in source.facts


@pytest.mark.parametrize(
    "doc", ["[]", "3", '{"entries": 3, "pg_config": []}', '{"entries": [1, null, {}], "pg_status": {}}']
)
def test_odd_documents(doc: str):
    (source,) = parse(doc.encode()).sources
    assert "fr.rank=3" in source.facts
