"""What one message is, whoever wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.stream.messages import (
    ENDS,
    LARGEST_JSON,
    LINES,
    LONGEST_LINE,
    RECORDS,
    Document,
    Line,
    Message,
    Poison,
    poison,
    read,
)
from schemas.facts import Stamp

AT = 1_772_500_000_000_000
XID = "NVRM: Xid (PCI:0000:4d:00): 79, pid=1, GPU has fallen off the bus."


def message(value: bytes | dict[str, Any], number: int = 7, partition: int = 2, **headers: str) -> Message:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Message("logs", partition, number, AT, raw, headers)


def one(m: Message) -> Line:
    found = read(m)
    assert not isinstance(found, Poison | Document)
    assert len(found) == 1
    return found[0]


FILEBEAT = {
    "@timestamp": "2026-03-03T01:00:00.5Z",
    "agent": {"type": "filebeat"},
    "host": {"name": "gn07.lan"},
    "log": {"file": {"path": "/var/log/kern.log"}, "offset": 4096},
    "message": f"Mar  3 01:00:00 gn07 kernel: [   99.500000] {XID}",
}


def test_a_line_of_filebeat_has_its_place_in_the_file_for_an_address() -> None:
    line = one(message(FILEBEAT))
    assert line.address == 4096
    assert line.frame.host == "gn07"
    assert line.frame.stamp == Stamp("utc", 1_772_499_600_500_000)
    assert line.frame.text == XID
    assert (line.origin.kafka, line.origin.path) == (False, "logs!hosts/gn07/var/log/kern.log")


def test_a_line_that_comes_twice_over_two_partitions_is_one_line() -> None:
    first, again = one(message(FILEBEAT, 7, 0)), one(message(FILEBEAT, 900, 5))
    assert (first.address, first.origin.source_id) == (again.address, again.origin.source_id)


def test_a_rotated_file_of_the_same_path_is_another_source() -> None:
    def of(inode: str) -> dict[str, Any]:
        log = {"file": {"path": "/var/log/kern.log", "inode": inode}, "offset": 0}
        return {**FILEBEAT, "log": log}

    assert one(message(of("11"))).origin.source_id != one(message(of("12"))).origin.source_id


def test_without_a_place_the_address_is_made_of_the_offset_and_the_partition_counts() -> None:
    bare = {**FILEBEAT, "log": {"file": {"path": "/var/log/kern.log"}}}
    line, other = one(message(bare, 7, 2)), one(message(bare, 7, 3))
    assert line.address == 7 * LINES
    assert (line.origin.kafka, line.origin.path) == (True, "logs/2!hosts/gn07/var/log/kern.log")
    assert line.origin.source_id != other.origin.source_id


def test_a_place_without_a_host_names_no_file() -> None:
    nobody = {**FILEBEAT, "host": {}}
    assert one(message({**nobody, "message": "step 1 loss 2.0"})).origin.kafka


@pytest.mark.parametrize(
    ("record", "key", "family"),
    [
        (
            {"message": XID, "timestamp": "2026-03-03T01:00:00Z", "source_type": "kmsg", "host": "gn07"},
            "hosts/gn07/journal",
            "journal",
        ),
        (
            {"log": "loss 2.1\n", "date": 1772499600.5, "kubernetes": {"pod_name": "fit-0", "namespace_name": "ml"}},
            "pods/ml_fit-0/container/0.log",
            "job",
        ),
        ({"log": "loss 2.1\n", "stream": "stdout", "time": "2026-03-03T01:00:00Z"}, "output.log", "job"),
        (
            {"labels": {"node_name": "gn07", "filename": "/var/log/syslog"}, "line": "a", "timestamp": "1772499600"},
            "hosts/gn07/var/log/syslog",
            "syslog",
        ),
    ],
    ids=["vector", "fluent bit", "docker", "logcli"],
)  # fmt: skip
def test_shippers_are_told_apart_by_their_members(record: dict[str, Any], key: str, family: str) -> None:
    line = one(message(record))
    assert line.origin.stream.key.startswith(key.removesuffix("/0.log").removesuffix("/container"))
    assert line.origin.stream.family == family
    assert line.frame.stamp.kind == "utc"


def test_the_stamp_of_the_broker_is_the_last_resort() -> None:
    assert one(message(b"loss is nan", host="gn07", source="train.log")).frame.stamp == Stamp("utc", AT)
    own = one(message(b"2026-03-03T01:00:00+00:00 loss is nan", host="gn07", source="train.log"))
    assert own.frame.stamp == Stamp("utc", 1_772_499_600_000_000)


def test_an_uptime_and_the_stamp_of_the_broker_are_two_clocks() -> None:
    line = one(message(f"[   99.500000] {XID}".encode(), host="gn07", source="dmesg", format="dmesg.raw"))
    assert line.frame.clock == ("utc", 99_500_000, AT)


def test_raw_lines_with_headers() -> None:
    line = one(message(b"x y z", host="gn07.lan", source="/jobs/slurm-4711.out", offset="100"))
    assert line.origin.stream.key == "hosts/gn07/jobs/slurm-4711.out"
    assert line.origin.stream.job_ids == ("4711",)
    assert (line.address, line.origin.kafka) == (100, False)


def test_lines_of_one_text_have_an_address_each() -> None:
    found = read(message(b"one\ntwo\r\nthree", host="gn07", source="train.log", offset="50"))
    assert not isinstance(found, Poison | Document)
    assert [(x.frame.text, x.address) for x in found] == [("one", 50), ("two", 54), ("three", 59)]
    bare = read(message(b"one\ntwo", 3))
    assert not isinstance(bare, Poison | Document)
    assert [x.address for x in bare] == [3 * LINES, 3 * LINES + 1]


def test_only_the_wanted_lines_of_a_text_are_framed() -> None:
    value = b"zero\none\ntwo\nthree\n"
    found = read(message(value, 1), [value.index(b"ne"), value.index(b"hree"), value.index(b"ree")])
    assert not isinstance(found, Poison | Document)
    assert [(x.frame.text, x.address - LINES) for x in found] == [("one", 1), ("three", 3)]


def test_of_a_long_text_without_hits_some_lines_at_its_ends_are_read() -> None:
    value = b"".join(b"line %d\n" % n for n in range(500_000))
    found = read(message(value, host="gn07", source="train.log", offset="0"))
    assert not isinstance(found, Poison | Document)
    assert [x.frame.text for x in found[:2]] == ["line 0", "line 1"]
    assert found[-1].frame.text == "line 499999"
    assert len(found) == 2 * ENDS
    assert all(value[x.address :].startswith(x.frame.text.encode() + b"\n") for x in found)


@pytest.mark.parametrize("at", [0, 30, 40_000, 5_000_000, 9_999_900])
def test_of_a_long_line_the_surroundings_of_a_hit_are_read(at: int) -> None:
    value = bytearray(b"y" * 10_000_000)
    value[at : at + len(XID)] = XID.encode()
    found = read(message(bytes(value), host="gn07", source="a.log"), [at + 5])
    assert not isinstance(found, Poison | Document)
    assert len(found) == 1
    assert XID in found[0].frame.text
    assert len(found[0].frame.text) <= LONGEST_LINE


def test_a_line_format_that_a_header_names() -> None:
    text = b"[2026-03-03T01:00:00.000] error: Nodes gn07 not responding"
    line = one(message(text, source="slurmctld.log", format="slurm_daemon", host="ctl"))
    assert (line.origin.stream.family, line.origin.stream.key) == ("scheduler", "hosts/ctl/slurmctld.log")
    assert line.frame.text == "error: Nodes gn07 not responding"


def test_documents() -> None:
    event = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}}
    found = read(message({**event, "reason": "OOMKilling", "message": "x", "firstTimestamp": "2026-03-03T01:00:00Z"}))
    assert isinstance(found, Document)
    assert (found.fmt.name, found.address) == ("k8s.json", 7 * RECORDS)
    rows = read(message(b"JobID|State|Start|End\n1|FAILED|2026-03-03T01:00:00|2026-03-03T02:00:00\n", format="sacct"))
    assert isinstance(rows, Document)
    assert rows.fmt.name == "sacct"


def test_lines_of_an_otlp_document_are_lines_of_their_streams() -> None:
    def resource(host: str, *texts: str) -> dict[str, Any]:
        records = [{"timeUnixNano": "1772499600000000000", "body": {"stringValue": t}} for t in texts]
        where = [
            {"key": "host.name", "value": {"stringValue": host}},
            {"key": "log.file.path", "value": {"stringValue": "/var/log/kern.log"}},
        ]
        return {"resource": {"attributes": where}, "scopeLogs": [{"logRecords": records}]}

    found = read(message({"resourceLogs": [resource("gn01", "a", "b"), resource("gn02", "c")]}))
    assert not isinstance(found, Poison | Document)
    assert [(x.frame.host, x.address - 7 * RECORDS) for x in found] == [("gn01", 0), ("gn01", 1), ("gn02", 2)]


def test_several_records_in_one_message() -> None:
    records = [{**FILEBEAT, "message": f"kernel: [{n}.000000] x"} for n in range(3)]
    bare = [{**r, "log": {"file": {"path": "/var/log/kern.log"}}} for r in records]
    for value in (
        "\n".join(json.dumps(r) for r in bare) + "\n",
        json.dumps(bare),
    ):
        found = read(message(value.encode(), 5))
        assert not isinstance(found, Poison | Document)
        assert [x.address - 5 * LINES for x in found] == [0, 1, 2]
        assert {x.origin.stream.key for x in found} == {"hosts/gn07/var/log/kern.log"}
    placed = read(message("\n".join(json.dumps(r) for r in records).encode()))
    assert not isinstance(placed, Poison | Document)
    assert [x.address for x in placed] == [4096] * 3
    assert isinstance(read(message(json.dumps([*records, {"a": 1}]).encode())), Poison)
    assert isinstance(read(message((json.dumps(records[0]) + '\n{"a": 1}').encode())), Poison)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"message": "cut', "torn JSON"),
        (b'{"a": }', "not JSON"),
        (b'{"a": 1, "b": 2}', "JSON of no known kind: a, b"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x01\x02\x03", "not text"),
        (b'{"x": "' + b"y" * LARGEST_JSON + b'"}', "more than"),
        (b'{"x":' * 3000 + b"1" + b"}" * 3000, "not JSON"),
    ],
    ids=["torn", "syntax", "unknown", "compressed", "large", "deep"],
)
def test_poison_says_why(value: bytes, reason: str) -> None:
    found = read(message(value))
    assert isinstance(found, Poison)
    assert reason in found.reason


def test_what_can_be_told_without_decoding() -> None:
    assert poison(b"plain text") is None
    assert poison(b'{"a": 1}') is None
    assert poison(b' {"a": 1} \n') is None
    assert poison(b"   {torn") is not None
    assert poison("Zeile mit Ümlaut\ttab\x1b[31m".encode()) is None
