"""Stamps: every printed form, its frame, and where the message begins."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import stamps
from pipeline.stamps import find_stamp, parse_field, utc_text
from schemas.facts import NO_STAMP, Stamp

DAY = 86_400_000_000


def us(text: str) -> int:
    """Microseconds of an ISO time, read as UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def noyear(text: str) -> int:
    return us(f"2000-{text}") - us("2000-01-01")


#: (line, kind, microseconds, message). One or more for each form of the table of time stamps.
FORMS = [
    ("[12345.678901] NVRM: x", "mono", 12_345_678_901, "NVRM: x"),
    ("<6>[    1.412797][ T2211] x", "mono", 1_412_797, "x"),
    ("[121671091.528999] x", "mono", 121_671_091_528_999, "x"),
    ("[    1.412797 <    0.021786>] x", "mono", 1_412_797, "x"),
    ("kern  :info  : [    1.412797] x", "mono", 1_412_797, "x"),
    ("6,1234,5678901234,-;NVRM: x", "mono", 5_678_901_234, "NVRM: x"),
    ('         "time":     0.000100,', "mono", 100, None),
    ("[<    0.021786>] x", "none", 0, "x"),
    ("[  +0.080805] x", "none", 0, "x"),
    ("[Mon Nov 30 21:50:11 2026] x", "local", us("2026-11-30T21:50:11"), "x"),
    ("[Fri Mar  3 03:40:54 2023] x", "local", us("2023-03-03T03:40:54"), "x"),
    ("2026-11-30T21:50:11,412797+00:00 x", "utc", us("2026-11-30T21:50:11.412797"), "x"),
    ("[Nov30 21:50] x", "noyear", noyear("11-30T21:50:00"), "x"),
    ("Nov 26 09:36:22 host kernel: x", "noyear", noyear("11-26T09:36:22"), "host kernel: x"),
    ("Mar 03 04:31:07.412345 host kernel: x", "noyear", noyear("03-03T04:31:07.412345"), "host kernel: x"),
    ("Feb 29 01:02:03 host kernel: x", "noyear", noyear("02-29T01:02:03"), "host kernel: x"),
    ("2026-03-03T04:31:07+0000 host kernel: x", "utc", us("2026-03-03T04:31:07"), "host kernel: x"),
    ("2026-03-03T04:31:07.412345-07:00 host k: x", "utc", us("2026-03-03T11:31:07.412345"), "host k: x"),
    ("1772512267.412345 host kernel: x", "utc", us("2026-03-03T04:31:07.412345"), "host kernel: x"),
    ('{"__REALTIME_TIMESTAMP":"1772512267412345"}', "utc", 1_772_512_267_412_345, None),
    ("<34>1 2026-03-03T04:31:07Z host a - - - x", "utc", us("2026-03-03T04:31:07"), "host a - - - x"),
    ("Tue 2026-03-03 04:31:07 UTC host k: x", "utc", us("2026-03-03T04:31:07"), "host k: x"),
    ("Tue 2026-03-03 04:31:07 CST host k: x", "local", us("2026-03-03T04:31:07"), "host k: x"),
    ("[2026-03-03T04:31:07.412] error: x", "local", us("2026-03-03T04:31:07.412"), "error: x"),
    (
        "[2026-03-03 04:12:33] node017:88231:88911 [3] x",
        "local",
        us("2026-03-03T04:12:33"),
        "node017:88231:88911 [3] x",
    ),
    ("[rank3]:[E303 04:22:21.426415540 a.cpp:629] x", "noyear", noyear("03-03T04:22:21.426415"), "a.cpp:629] x"),
    ("[E1218 04:22:21.426415540 a.cpp:629] x", "noyear", noyear("12-18T04:22:21.426415"), "a.cpp:629] x"),
    ("E0303 04:31:07.412345    2211 a.go:2431] x", "noyear", noyear("03-03T04:31:07.412345"), "2211 a.go:2431] x"),
    ("I20260303 04:31:07.412345 1 a.cc:2] x", "local", us("2026-03-03T04:31:07.412345"), "1 a.cc:2] x"),
    ("2026-03-03 04:22:45,123 ERROR x", "local", us("2026-03-03T04:22:45.123"), "ERROR x"),
    ("[2026-03-03 04:22:45,123] torch: [ERROR] x", "local", us("2026-03-03T04:22:45.123"), "torch: [ERROR] x"),
    (" [2026-03-03 04:12:33.123456] iteration 1", "local", us("2026-03-03T04:12:33.123456"), "iteration 1"),
    ("[1772522401.123456] [node017:1:0] x", "utc", us("2026-03-03T07:20:01.123456"), "[node017:1:0] x"),
    ("2026-03-03T04:31:07.412345678Z stderr F x", "utc", us("2026-03-03T04:31:07.412345"), "stderr F x"),
    ('{"log":"x\\n","time":"2026-03-03T04:31:07.4Z"}', "utc", us("2026-03-03T04:31:07.4"), None),
    ("[Mar 03 2026 07:53:55] [ERROR] [tid 841] x", "local", us("2026-03-03T07:53:55"), "[ERROR] [tid 841] x"),
    (" 1a2 | 03/04/2026 | 07:50:01 | PSU | x", "local", us("2026-03-04T07:50:01"), None),
    (" 1a2 | 03/04/26 | 07:50:01 PM UTC | PSU | x", "utc", us("2026-03-04T19:50:01"), None),
    ("2    | Mar-15-2023 | 04:10:02 | PS2 Status | x", "local", us("2023-03-15T04:10:02"), None),
    ("2026-03-03_07:40:00.123+0000: [E] x", "utc", us("2026-03-03T07:40:00.123"), "[E] x"),
    ("Tue Mar  3 07:40:00.123 2026: [E] x", "local", us("2026-03-03T07:40:00.123"), "[E] x"),
    ("Date: Tue Mar  3 07:40:00 AM UTC 2026", "utc", us("2026-03-03T07:40:00"), None),
    ("1772512267.412", "utc", us("2026-03-03T04:31:07.412"), ""),
    ("1772512267412 x", "utc", us("2026-03-03T04:31:07.412"), "x"),
    ("1772512267412345 x", "utc", us("2026-03-03T04:31:07.412345"), "x"),
    ("1772512267412345678 x", "utc", us("2026-03-03T04:31:07.412345"), "x"),
    ("2024/11/26 09:36:21.884712 +0800 INFO x", "utc", us("2024-11-26T01:36:21.884712"), "INFO x"),
    ("12/09 06:49:23 x", "noyear", noyear("12-09T06:49:23"), "x"),
    ("12/09/2023 06:49:23 x", "local", us("2023-12-09T06:49:23"), "x"),
    ("20310423-11:20:12.801 x", "local", us("2031-04-23T11:20:12.801"), "x"),
    ("[15:58:29] x", "time", (15 * 3600 + 58 * 60 + 29) * 10**6, "x"),
    ("Sat Aug  9 10:35:32 2025 x", "local", us("2025-08-09T10:35:32"), "x"),
    ("[Sat Aug 09 10:35:32 2025] x", "local", us("2025-08-09T10:35:32"), "x"),
    ("2016-12-31T23:59:60Z x", "utc", us("2016-12-31T23:59:59.999999"), "x"),
    ("app WARNING (2021-03-15 17:50:23,701) - x", "local", us("2021-03-15T17:50:23.701"), None),
    ("time=2026-02-25T08:26:00Z level=info", "utc", us("2026-02-25T08:26:00"), None),
    ("*** JOB 1 ON n1 CANCELLED AT 2021-03-15T17:50:23 ***", "local", us("2021-03-15T17:50:23"), None),
    ("INFO 06-12 12:34:56 [core.py:1] x", "noyear", noyear("06-12T12:34:56"), None),
    ("Mär 03 04:31:07 host kernel: x", "noyear", noyear("03-03T04:31:07"), "host kernel: x"),
    ("09/Aug/2025:10:35:32 +0200 GET x", "utc", us("2025-08-09T08:35:32"), "GET x"),
]


@pytest.mark.parametrize(("line", "kind", "when", "message"), FORMS, ids=[f[0][:40] for f in FORMS])
def test_forms(line: str, kind: str, when: int, message: str | None):
    """message None: words stand before the stamp, so the whole line is the message."""
    found = find_stamp(line)
    assert found is not None
    assert found[0] == Stamp(kind, when)
    assert line[found[1] :] == (line if message is None else message)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "step 880 loss 2.911",
        "[   6.1 s] launch 1102",
        "1 2 3",
        "2026-02-30T04:31:07 no such day",
        "2026-13-01 04:31:07 no such month",
        "2026-03-03 25:31:07 no such hour",
        "Feb 30 04:31:07 host kernel: x",
        "12/32 06:49:23 x",
        "version 2024.1 of 12:30",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
        "100%|##########| 12/12 [00:10<00:00,  1.18it/s]",
        "[1/4] compiling",
    ],
)
def test_no_stamp(line: str):
    assert find_stamp(line) is None


@pytest.mark.parametrize("value", ["", "Unknown", "None", "N/A", "soon", '"Unknown"'])
def test_fields_without_time(value: str):
    assert parse_field(value) == NO_STAMP


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-03T04:31:07", Stamp("local", us("2026-03-03T04:31:07"))),
        ("2026-03-03_04:22:44", Stamp("local", us("2026-03-03T04:22:44"))),
        ("2026-03-03T04:31:07Z", Stamp("utc", us("2026-03-03T04:31:07"))),
        ("1772512267", Stamp("utc", us("2026-03-03T04:31:07"))),
        ("Thu Oct 27 08:50:11 PM -03 2022", Stamp("utc", us("2022-10-27T23:50:11"))),
        ("mar 13 set 2011, 23.11.55, CEST", Stamp("utc", us("2011-09-13T21:11:55"))),
    ],
)
def test_fields(value: str, expected: Stamp):
    assert parse_field(value) == expected


@pytest.mark.parametrize(
    ("line", "offset"),
    [
        ("2024/11/26 09:36:21.884712 +0800 INFO x", "+08:00"),
        ("2026-03-03T04:31:07-07:00 host k: x", "-07:00"),
        ("kern  :info  : 2026-01-07T10:00:00,123456-06:00 x", "-06:00"),
        ("2026-03-03T04:31:07Z x", ""),
        ("2026-03-03T04:31:07+00:00 x", ""),
        ("2026-03-03 04:31:07 - 12:30 x", ""),
        ("2026-03-03 04:31:07 -12345 x", ""),
        ("[12345.678901] x", ""),
    ],
)
def test_printed_offset(line: str, offset: str):
    assert stamps.printed_offset(line) == offset


MOMENTS = st.datetimes(datetime(1991, 1, 1), datetime(2098, 1, 1))  # noqa: DTZ001
MINUTES = st.integers(-14 * 4, 14 * 4).map(lambda quarters: quarters * 15)


@given(MOMENTS, MINUTES, st.sampled_from("T _"), st.sampled_from(".,"), st.integers(0, 6))
def test_iso_round_trip(moment: datetime, offset: int, sep: str, comma: str, digits: int):
    """Any offset, separator and precision: printed, then read, is the same moment cut to the printed digits."""
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    frac = f"{moment.microsecond:06d}"[:digits]
    sign = "-" if offset < 0 else "+"
    text = moment.strftime(f"%Y-%m-%d{sep}%H:%M:%S") + (comma + frac if frac else "")
    text += f"{sign}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    cut = moment.microsecond % 10 ** (6 - digits)
    expected = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) - cut
    found = find_stamp(text + " message")
    assert found is not None
    assert found[0] == Stamp("utc", expected)
    assert (text + " message")[found[1] :] == "message"
    assert parse_field(utc_text(expected)) == Stamp("utc", expected)


@given(st.integers(0, 366 * DAY // 10**6 - 1))
def test_noyear_round_trip(seconds: int):
    """Every second of a leap year, 29 February included, in syslog's, dmesg's and glog's form."""
    moment = datetime(2000, 1, 1) + timedelta(seconds=seconds)  # noqa: DTZ001
    expected = Stamp("noyear", seconds * 10**6)
    for text in (
        f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S} host k: x",
        f"{moment:%b %d %H:%M:%S.%f} host k: x",
        f"{moment:%m/%d %H:%M:%S} x",
        f"E{moment:%m%d %H:%M:%S.%f} 1 a.cc:1] x",
        f"[E{moment.month}{moment:%d %H:%M:%S.%f}000 a.cpp:1] x",
    ):
        found = find_stamp(text)
        assert found is not None
        assert found[0] == expected


@given(st.integers(0, 999_999_999), st.integers(0, 999_999))
def test_uptime_is_told_from_epoch(seconds: int, micro: int):
    assert stamps.uptime(f"[{seconds:5d}.{micro:06d}] x") == (
        Stamp("mono", seconds * 10**6 + micro),
        len(f"[{seconds:5d}.{micro:06d}]"),
    )
    epoch = 1_000_000_000 + seconds
    found = stamps.uptime(f"[{epoch}.{micro:06d}] x")
    assert found is not None
    assert found[0] == Stamp("utc", epoch * 10**6 + micro)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str):
    found = find_stamp(text)
    if found is not None:
        stamp, end = found
        assert 0 <= end <= len(text)
        assert stamp.kind in ("utc", "local", "noyear", "time", "mono", "none")
        assert stamp.kind != "noyear" or 0 <= stamp.us < 366 * DAY
        assert stamp.kind != "time" or 0 <= stamp.us < DAY
    parse_field(text)


@pytest.mark.parametrize("text", ["2026-" * 40_000, "[" * 100_000, "Mon " * 50_000, "1" * 200_000, " " * 200_000])
def test_long_lines_are_cheap(text: str):
    find_stamp(text)
    parse_field(text[:4000])


def test_table_of_stamps_of_the_shared_knowledge(shared_knowledge):
    """Every example of the table is read as a stamp, and those with an epoch frame as the moment its row shows."""
    rows = (shared_knowledge / "timestamps.tsv").read_text(encoding="utf-8").splitlines()
    head = rows[0].split("\t")
    seen = 0
    for row in rows[1:]:
        cells = dict(zip(head, row.split("\t"), strict=False))
        found = find_stamp(cells["example"])
        assert found is not None, cells["id"]
        wall = re.search(r"03-03T04:31:07|1772512267", cells["example"])
        if wall and found[0].kind in ("utc", "local"):
            assert found[0].us // 10**6 == us("2026-03-03T04:31:07") // 10**6, cells["id"]
        seen += 1
    assert seen >= 32
