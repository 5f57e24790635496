"""Kernel, syslog and journal formats: sample pairs found by name, real logs, joins, hostile input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import Frame, LineFormat, SourceInfo, registry, sniff
from pipeline.formats.base import HEAD
from pipeline.formats.kernel_text import MARKS, prompt_host
from schemas.facts import Stamp
from tests.pipeline.formats.framing import Before, frames, lines_of, match_xid, read_sample

SAMPLES = Path(__file__).parent / "samples"
OURS = sorted(name for name in registry() if re.match(r"dmesg\.|kmsg|syslog\.|journal\.", name))
PAIRS = sorted(p for name in OURS for p in (SAMPLES / name).glob("*.in"))
LINE_FORMATS = [f for name in OURS if isinstance(f := registry()[name], LineFormat)]

#: What the kernel and syslog files of the shared cases are, by folder.
CASE_FORMATS = {
    "h001": "dmesg.raw", "h002": "journal.short", "h003": "dmesg.ctime", "h006": "syslog.rfc3164",
    "h011": "dmesg.reltime", "h014": "syslog.iso", "h018": "syslog.rfc3164", "h019": "dmesg.raw",
    "h024": "syslog.iso", "h025": "syslog.rfc3164", "h029": "syslog.rfc3164", "h033": "syslog.rfc3164",
    "h034": "syslog.rfc3164", "h035": "dmesg.ctime", "h037": "dmesg.raw", "h039": "dmesg.raw",
    "h040": "syslog.rfc3164", "h041": "dmesg.ctime", "h042": "dmesg.iso", "h043": "dmesg.raw",
    "h045": "syslog.rfc3164", "h047": "dmesg.raw", "h048": "dmesg.raw", "h049": "dmesg.raw", "h054": "dmesg.raw",
    "h055": "dmesg.ctime", "h058": "dmesg.ctime", "h069": "dmesg.raw", "j012": "dmesg.raw", "j062": "dmesg.raw",
    "j064": "dmesg.raw",
}  # fmt: skip


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample(path: Path):
    expected = json.loads(path.with_suffix(".json").read_text())
    assert read_sample(path.parent.name, path.read_bytes()) == expected


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_sample_is_recognised_by_its_content(path: Path):
    found = sniff(path.read_bytes(), "some/file.txt")
    if path.parent.name == "journal.short_iso":
        assert found is registry()["journal.short_iso"]
    assert found is not None
    assert found.name == path.parent.name


def test_every_format_has_samples():
    assert {p.parent.name for p in PAIRS} == set(OURS)


@pytest.mark.parametrize("fmt", LINE_FORMATS, ids=lambda f: f.name)
def test_marks_are_long_enough_to_be_anchors(fmt: LineFormat):
    assert all(len(mark) >= 6 for mark in fmt.marks)
    assert set(MARKS) <= set(fmt.marks)


def test_shared_cases_sniff_to_their_format(shared_cases: Path):
    seen = {}
    for path in sorted(shared_cases.glob("*/*.log")):
        if re.match(r"dmesg|kern|syslog|journal", path.name):
            found = sniff(path.read_bytes()[:HEAD], path.name)
            seen.setdefault(path.parent.name[:4], set()).add(found.name if found else None)
    assert seen == {case: {name} for case, name in CASE_FORMATS.items()}


def test_shared_case_lines_are_framed(shared_cases: Path):
    """Every line of the kernel logs of the shared cases has a frame, comments and prompts aside."""
    bad = []
    for path in sorted(shared_cases.glob("*/*.log")):
        if re.match(r"dmesg|kern|syslog|journal", path.name):
            data = path.read_bytes()
            fmt = sniff(data[:HEAD], path.name)
            bad += [(path.parent.name, line) for _, line, frame in frames(fmt, data) if not frame.ok]
            stamped = [frame.stamp.kind != "none" for _, _, frame in frames(fmt, data)]
            assert sum(stamped) >= len(stamped) - 2, path
    assert bad == []


REAL = [
    ("lnav_samples/logfile_syslog.0", "syslog.rfc3164"),
    ("lnav_samples/logfile_syslog.3", "syslog.rfc3164"),
    ("lnav_samples/logfile_syslog_fr.0", "syslog.rfc3164"),
    ("lnav_samples/logfile_syslog_with_header.0", "syslog.rfc3164"),
    ("lnav_samples/logfile_syslog_with_mixed_times.0", "syslog.rfc3164"),
    ("lnav_samples/logfile_journald.json", "journal.json"),
    ("lnav_samples/logfile_with_zones.0", "syslog.rfc5424"),
    ("gpud_testdata/components/accelerator/nvidia/nccl/testdata/dmesg.decode.iso.log", "dmesg.iso"),
    ("gpud_testdata/components/accelerator/nvidia/xid/testdata/dmesg-with-xid-119.log", "dmesg.ctime"),
    ("gpud_testdata/pkg/pstore/testdata/dmesg-erst.txt", "dmesg.raw"),
    ("gpud_testdata/pkg/kmsg/testdata/kmsg.1.log", "kmsg"),
    ("gpud_testdata/pkg/kmsg/testdata/kmsg.2.peermem.log", "kmsg"),
    ("amd_node_scraper/dmesg_sample.log", "dmesg.iso"),
    ("jc_fixtures/generic/syslog-3164.out", "syslog.rfc3164"),
    ("jc_fixtures/generic/syslog-5424.out", "syslog.rfc5424"),
]


@pytest.mark.parametrize(("name", "expected"), REAL)
def test_logs_of_other_projects_sniff_and_frame(shared_data: Path, name: str, expected: str):
    data = (shared_data / name).read_bytes()
    fmt = sniff(data[:HEAD], name)
    assert fmt is not None
    assert fmt.name == expected
    assert isinstance(fmt, LineFormat)
    framed = [frame for _, _, frame in frames(fmt, data)]
    assert sum(frame.ok and frame.stamp.kind != "none" for frame in framed) > 0.5 * len(framed)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("root@gw-node4:~# dmesg -T |grep NVRM", "gw-node4"),
        ("[ops@gpu-3.cluster.example ~]$ sudo dmesg", "gpu-3"),
        ("(base) ana@lab7:/var/log$ journalctl -k", "lab7"),
        ("$ dmesg -T", ""),
        ("# journalctl -k -b", ""),
        ("NVRM: Xid (PCI:0000:01:00): 79 mail root@example.org: # of errors", None),
        ("[    1.0] text", None),
    ],
)
def test_shell_prompts_name_the_host(line: str, host: str | None):
    assert prompt_host(line) == host


def test_split_message_needs_one_host_and_one_second():
    fmt = registry()["syslog.rfc3164"]
    first = "May  7 06:46:40 a kernel: NVRM: The NVIDIA GPU 0000:9d:00.0"
    second = "May  7 06:46:40 a kernel: NVRM: (PCI ID: 10de:2330) installed in this system has"
    third = "May  7 06:46:40 a kernel: NVRM: fallen off the bus and is not responding to commands."
    alone = "NVRM: fallen off the bus and is not responding to commands."

    def text(*lines: str) -> str:
        return fmt.frame(lines[-1], Before(list(lines), len(lines) - 1)).text

    assert "0000:9d:00.0" in text(first, second, third)
    assert text(first, second.replace(" a ", " b "), third.replace(" a ", " b ")) == text(second, third)
    assert "0000:9d" not in text(first.replace(":40", ":10"), second.replace(":40", ":10"), third)
    assert text(third) == alone
    # Messages of other daemons in between do not part it; the records of another message do.
    assert "0000:9d:00.0" in text(first, "May  7 06:46:40 a sshd[1]: x", second, third)
    other = "May  7 06:46:40 a kernel: NVRM: Xid (PCI:0000:01:00): 48"
    assert text(first, second, other, third) == alone


@given(st.lists(st.integers(min_value=0, max_value=40_000_000), min_size=1, max_size=40))
def test_relative_times_add_up_to_the_last_minute(steps: list[int]):
    fmt = registry()["dmesg.reltime"]
    lines = ["[Mar 1 00:00] first", *(f"[{f'+{us // 10**6}.{us % 10**6:06d}':>11}] x" for us in steps)]
    frame = fmt.frame(lines[-1], Before(lines, len(lines) - 1))
    start = 60 * 86_400 * 10**6  # 1 March of a leap year
    assert frame.stamp == Stamp("noyear", start + sum(steps))
    assert fmt.frame(lines[-1], Before(lines[1:], len(lines) - 2)).stamp.kind == "none"


@given(
    st.sampled_from(LINE_FORMATS),
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.from_regex(r"\[ *\d{1,12}\.\d{6}\].{0,20}", fullmatch=True),
            st.from_regex(r"(<\d{1,4}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.]{1,9} k.{0,20}", fullmatch=True),
            st.from_regex(r"\{\"__REALTIME_TIMESTAMP\":[\[\]0-9\"]{0,20}\}", fullmatch=True),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_framing_never_raises(fmt: LineFormat, lines: list[str]):
    for n, line in enumerate(lines):
        frame = fmt.frame(line, Before(lines, n))
        assert isinstance(frame, Frame)
        assert "\n" not in frame.text
        fmt.mark(line, frame)


@pytest.mark.parametrize(
    "line",
    [
        "a" * 200_000,
        "[" * 100_000,
        "kern" * 50_000,
        "<34>1 2026-03-03T04:31:07Z h a p m " + '[x y="' * 20_000,
        "May  7 06:46:40 h message repeated 3 times: [" + "[ " * 50_000,
        '{"__CURSOR":' + "[" * 100_000,
        "MESSAGE=" + "x" * 200_000,
        "#033[" * 40_000,
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_are_cheap(line: str):
    """Linear patterns only: the slowest of these takes milliseconds, and a quadratic one would take minutes."""
    for fmt in LINE_FORMATS:
        assert fmt.sniff(line.encode()[:HEAD], "x") <= 1.0
        fmt.frame(line, Before([line[:50]] * 30, 30))


@given(st.binary(max_size=300))
def test_record_formats_survive_any_bytes(data: bytes):
    for name in ("dmesg.json", "journal.json_pretty"):
        info = SourceInfo("s", "a", "r", len(data), None)
        facts = registry()[name].parse(b'{"dmesg":[' + data, info, match_xid)
        assert len(facts.sources) == 1


def test_head_cut_inside_a_line_does_not_change_the_format():
    path = SAMPLES / "syslog.rfc3164" / "kernel_and_daemons.in"
    line = lines_of(path.read_bytes())[1] + "\n"
    data = (line * (HEAD // len(line) + 10)).encode()
    assert sniff(data[:HEAD], "x").name == "syslog.rfc3164"
