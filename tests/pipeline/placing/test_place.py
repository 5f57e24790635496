"""Placing: host, zone, year, date and boot of sources, from all facts together, whatever their order."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.placing.clock import Clock, Zone, ZoneError, in_year, latest_before
from pipeline.placing.place import place
from schemas.facts import RunFragment, SourceFact, Stamp
from schemas.settings import Settings

SECOND = 1_000_000
DAY = 86_400 * SECOND
UTC_SETTINGS = Settings(tz="UTC")


def us(text: str) -> int:
    """Microseconds of an ISO time, read as UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def frame(text: str) -> int:
    """Microseconds of `05-17T22:41:07` in the frame without a year."""
    return us(f"2000-{text}") - us("2000-01-01")


def source(name: str, family: str = "kernel", **known: object) -> SourceFact:
    made = SourceFact(
        source_id=name, inner_paths=(name,), root="r", format="x", family=family, size=1, mtime_us=None, host=""
    )
    return replace(made, **known)


def run(job: str = "7", source_id: str = "sacct.txt", **known: object) -> RunFragment:
    return replace(RunFragment(source_id, 0, 1, "slurm", "c", job), **known)


def local(low: str, high: str) -> tuple[str, int, int]:
    return ("local", us(low), us(high))


def yearless(low: str, high: str) -> tuple[str, int, int]:
    return ("noyear", frame(low), frame(high))


# --- years --------------------------------------------------------------------------------------------------------


def test_year_comes_from_the_scheduler_record_beside():
    kern = source("kern.log", spans=(yearless("05-17T22:33:20", "05-17T22:50:00"),), mtime_us=us("2031-01-01"))
    sacct = source("sacct.txt", "scheduler", spans=(local("2026-05-17T09:00:11", "2026-05-17T22:41:39"),))
    clock = place([kern, sacct], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("05-17T22:41:07"))) == (us("2026-05-17T22:41:07"), 1.0)
    assert clock.method == "year assumed"
    assert any("2026" in word and "same folder" in word for word in clock.assumed)


def test_year_comes_from_a_fragment_where_nothing_else_is_dated():
    kern = source("kern.log", spans=(yearless("12-22T02:14:00", "12-22T09:00:00"),))
    fragment = run(start=Stamp("local", us("2025-12-20T10:00:00")), end=Stamp("local", us("2025-12-22T06:00:00")))
    clock = place([kern], [replace(fragment, source_id="kern.log")], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("12-22T03:00:00")))[0] == us("2025-12-22T03:00:00")


def test_the_same_folder_counts_before_the_rest_of_the_root():
    kern = source("a/kern.log", spans=(yearless("05-17T22:33:20", "05-17T22:50:00"),))
    near = source("a/job.log", "job", spans=(local("2024-05-17T22:00:00", "2024-05-17T22:40:00"),))
    far = source("b/job.log", "job", spans=(local("2026-05-17T22:00:00", "2026-05-17T22:40:00"),))
    for sources in ([kern, near, far], [far, near, kern]):
        clock = place(sources, [], UTC_SETTINGS)["a/kern.log"]
        assert clock.utc(Stamp("noyear", frame("05-17T22:40:00")))[0] == us("2024-05-17T22:40:00")
    clock = place([kern, replace(far, inner_paths=("c/d/job.log",))], [], UTC_SETTINGS)["a/kern.log"]
    assert clock.utc(Stamp("noyear", frame("05-17T22:40:00")))[0] == us("2026-05-17T22:40:00")


def test_modification_time_is_an_upper_bound_only():
    kern = source("kern.log", spans=(yearless("05-17T22:33:20", "05-17T22:50:00"),), mtime_us=us("2026-05-16T23:00:00"))
    stamp = Stamp("noyear", frame("05-17T22:41:07"))
    assert place([kern], [], UTC_SETTINGS)["kern.log"].utc(stamp)[0] == us("2026-05-17T22:41:07")  # a day of slack
    early = replace(kern, mtime_us=us("2026-05-15T22:00:00"))
    assert place([early], [], UTC_SETTINGS)["kern.log"].utc(stamp)[0] == us("2025-05-17T22:41:07")


def test_no_year_is_said_and_never_guessed():
    clock = place([source("kern.log", spans=(yearless("05-17T22:33:20", "05-17T22:50:00"),))], [], UTC_SETTINGS)[
        "kern.log"
    ]
    assert clock.utc(Stamp("noyear", frame("05-17T22:41:07"))) == (None, float("inf"))
    assert clock.method == "none"
    assert any("no year known" in word for word in clock.assumed)


@pytest.mark.parametrize("with_neighbour", [True, False])
def test_a_log_over_new_year_turns_the_year(with_neighbour: bool):
    kern = source("kern.log", spans=(yearless("01-01T00:00:10", "12-31T23:59:00"),), mtime_us=us("2027-01-02T08:00:00"))
    beside = source("job.log", "job", spans=(local("2026-12-31T22:00:00", "2027-01-01T01:00:00"),))
    clock = place([kern, beside] if with_neighbour else [kern], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("12-31T23:59:00")))[0] == us("2026-12-31T23:59:00")
    assert clock.utc(Stamp("noyear", frame("01-01T00:00:10")))[0] == us("2027-01-01T00:00:10")


def test_a_log_of_most_of_a_year_does_not_turn():
    kern = source("kern.log", spans=(yearless("02-01T00:00:10", "10-20T23:59:00"),))
    beside = source("job.log", "job", spans=(local("2026-08-31T22:00:00", "2026-09-01T01:00:00"),))
    clock = place([kern, beside], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("02-01T00:00:10")))[0] == us("2026-02-01T00:00:10")
    assert clock.utc(Stamp("noyear", frame("10-20T23:59:00")))[0] == us("2026-10-20T23:59:00")


def test_29_february_only_in_leap_years():
    leap = source("kern.log", spans=(yearless("02-29T01:00:00", "02-29T02:00:00"),), mtime_us=us("2027-06-01T00:00:00"))
    clock = place([leap], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("02-29T01:30:00")))[0] == us("2024-02-29T01:30:00")
    beside = source("job.log", "job", spans=(local("2028-02-29T00:00:00", "2028-02-29T03:00:00"),))
    clock = place([leap, beside], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("02-29T01:30:00")))[0] == us("2028-02-29T01:30:00")


@given(
    st.datetimes(datetime(1998, 1, 1), datetime(2060, 1, 1)),  # noqa: DTZ001
    st.integers(0, 100 * 86_400),
    st.integers(0, 30 * 86_400),
)
def test_the_true_year_is_found_from_a_dated_neighbour(begin: datetime, length: int, away: int):
    """A log of up to a hundred days, not over New Year, is placed where it was when a neighbour is within a month."""
    end = begin + timedelta(seconds=length)
    if end.year != begin.year:
        end = datetime(begin.year, 12, 31, 23, 59, 59)  # noqa: DTZ001
    low, high = us(begin.isoformat()), us(end.isoformat())
    in_frame = [us(t.replace(year=2000).isoformat()) - us("2000-01-01") for t in (begin, end)]
    kern = source("kern.log", spans=(("noyear", *in_frame),))
    beside = source("job.log", "job", spans=(("local", high + away * SECOND, high + (away + 60) * SECOND),))
    clock = place([kern, beside], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", in_frame[0]))[0] == low
    assert clock.utc(Stamp("noyear", in_frame[1]))[0] == high


@given(st.integers(0, 366 * 86_400 - 1), st.integers(us("2000-01-01"), us("2090-01-01")))
def test_latest_before_is_the_latest(seconds: int, until: int):
    stamp = seconds * SECOND
    found = latest_before(stamp, until)
    assert found is not None
    assert found < until
    year = datetime.fromtimestamp(found // SECOND, UTC).year
    assert in_year(stamp, year) == found
    later = [in_year(stamp, y) for y in range(year + 1, year + 9)]
    assert all(t is None or t >= until for t in later)


# --- zones --------------------------------------------------------------------------------------------------------


def test_zone_of_the_settings_and_daylight_saving():
    berlin = Settings(tz="Europe/Berlin")
    job = source("job.log", "job", spans=(local("2026-03-28T10:00:00", "2026-10-26T10:00:00"),))
    clock = place([job], [], berlin)["job.log"]
    assert clock.utc(Stamp("local", us("2026-03-28T10:00:00"))) == (us("2026-03-28T09:00:00"), 1.0)
    assert clock.utc(Stamp("local", us("2026-07-01T10:00:00"))) == (us("2026-07-01T08:00:00"), 1.0)
    # 02:30 does not exist on 29 March: it moves on by the hour that is missing, and says so.
    assert clock.utc(Stamp("local", us("2026-03-29T02:30:00"))) == (us("2026-03-29T01:30:00"), 3601.0)
    # 02:30 exists twice on 25 October: the first, unless something earlier in the file is already later.
    twice = Stamp("local", us("2026-10-25T02:30:00"))
    assert clock.utc(twice) == (us("2026-10-25T00:30:00"), 3601.0)
    assert clock.utc(twice, after=us("2026-10-25T00:59:00")) == (us("2026-10-25T01:30:00"), 1.0)
    assert "zone Europe/Berlin from the settings" in clock.assumed


def test_unknown_zone_is_named():
    with pytest.raises(ZoneError, match="Europe/Berlyn"):
        place([source("a", "job", spans=(local("2026-01-01", "2026-01-02"),))], [], Settings(tz="Europe/Berlyn")).get(
            "a", Clock()
        ).utc(Stamp("local", 0))


@given(st.sampled_from(["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"]), st.data())
def test_zones_agree_with_the_standard_library(name: str, data: st.DataObject):
    moment = data.draw(st.datetimes(datetime(1990, 1, 1), datetime(2036, 1, 1)))  # noqa: DTZ001
    expected = moment.replace(tzinfo=ZoneInfo(name)).astimezone(UTC)
    utc, doubt = Zone(name).to_utc(us(moment.isoformat()))
    assert utc == us(expected.replace(tzinfo=None).isoformat())
    assert doubt in (0.0, 1800.0, 3600.0)
    if doubt == 0.0:
        assert Zone(name).to_local(utc) == us(moment.isoformat())


def test_an_offset_printed_beside_is_taken_for_the_zone():
    job = source(
        "job.log", "job", spans=(("utc", us("2024-11-26T01:36:21"), us("2024-11-26T01:36:23")),),
        facts=("utc_offset=+08:00",),
    )  # fmt: skip
    kern = source("kern.log", spans=(yearless("11-26T09:29:04", "11-26T09:41:04"),))
    clock = place([kern, job], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("noyear", frame("11-26T09:36:22")))[0] == us("2024-11-26T01:36:22")
    assert any("+08:00" in word and "job.log" in word for word in clock.assumed)
    # Two different offsets say nothing, and a zone that was set is believed.
    other = source("b.log", "job", spans=(("utc", 0, 1),), facts=("utc_offset=-07:00",))
    assert place([kern, job, other], [], UTC_SETTINGS)["kern.log"].zone == Zone("UTC")
    assert place([kern, job], [], Settings(tz="Asia/Tokyo"))["kern.log"].zone == Zone("Asia/Tokyo")


def test_boot_times_in_the_future_of_their_own_log_give_its_zone():
    ctld = source(
        "slurmctld.log", "scheduler", spans=(local("2022-07-23T15:20:00", "2022-07-23T15:30:52"),),
        facts=(f"boot:n222={1658604286 * SECOND}", f"boot:n215={1658604255 * SECOND}"),
    )  # fmt: skip
    clock = place([ctld], [], UTC_SETTINGS)["slurmctld.log"]
    assert clock.zone.label == "-04:00"
    assert clock.utc(Stamp("local", us("2022-07-23T15:30:52")))[0] == us("2022-07-23T19:30:52")
    fits = replace(ctld, spans=(local("2022-07-23T19:20:00", "2022-07-23T19:30:52"),))
    assert place([fits], [], UTC_SETTINGS)["slurmctld.log"].zone == Zone("UTC")


@pytest.mark.parametrize("minutes", [120, -420, 330, 345])
def test_offset_is_inferred_from_the_end_of_the_only_job(minutes: int):
    shift = minutes * 60 * SECOND
    start, end = us("2031-10-12T18:00:00"), us("2031-10-12T20:01:27")
    pod = run("train-0", start=Stamp("utc", start), end=Stamp("utc", end))
    low, high = start + 30 * SECOND + shift, end - 20 * SECOND + shift
    job = source("job.log", "job", spans=(("local", low, high),))
    events = source("sacct.txt", "cluster", spans=(("utc", start, end),))
    clock = place([job, events], [pod], UTC_SETTINGS)["job.log"]
    assert clock.utc(Stamp("local", high))[0] == high - shift
    assert any("inferred" in word for word in clock.assumed)
    # A second job, ends that do not meet, or a log inside its job's time as it is: nothing is inferred.
    assert place([job, events], [pod, run("other", end=Stamp("utc", end))], UTC_SETTINGS)["job.log"].zone == Zone("UTC")
    off = replace(job, spans=(("local", low, high - 300 * SECOND),))
    assert place([off, events], [pod], UTC_SETTINGS)["job.log"].zone == Zone("UTC")
    over = replace(job, spans=(("local", start, end - 300 * SECOND),))
    assert place([over, events], [pod], UTC_SETTINGS)["job.log"].zone == Zone("UTC")


# --- times of day -------------------------------------------------------------------------------------------------


def test_time_of_day_takes_the_only_date_that_is_left():
    log = source("job.log", "job", spans=(("time", 15 * 3600 * SECOND, 16 * 3600 * SECOND),))
    sacct = source("sacct.txt", "scheduler", spans=(local("2026-05-17T14:00:00", "2026-05-17T17:00:00"),))
    clock = place([log, sacct], [], UTC_SETTINGS)["job.log"]
    assert clock.utc(Stamp("time", 15 * 3600 * SECOND))[0] == us("2026-05-17T15:00:00")
    assert clock.method == "date assumed"
    long = replace(sacct, spans=(local("2026-05-16T14:00:00", "2026-05-17T17:00:00"),))
    clock = place([log, long], [], UTC_SETTINGS)["job.log"]
    assert clock.utc(Stamp("time", 15 * 3600 * SECOND))[0] is None
    assert place([log], [], UTC_SETTINGS)["job.log"].utc(Stamp("time", 0))[0] is None


# --- boots --------------------------------------------------------------------------------------------------------


def test_uptime_is_placed_by_lines_with_both_clocks_of_the_same_host():
    boot = us("2026-05-01T00:00:00")
    pairs = tuple(("utc", n * DAY, boot + n * DAY + n * SECOND) for n in range(1, 8))  # a second of drift a day
    syslog = source("syslog", "syslog", names=(("gpu-1.cluster", 9),), clocks=pairs)
    dmesg = source("dmesg.txt", host="GPU-1", spans=(("mono", 2 * DAY, 4 * DAY),))
    clock = place([dmesg, syslog], [], UTC_SETTINGS)["dmesg.txt"]
    assert clock.host == "gpu-1"
    assert clock.method == "boot-relative"
    placed, doubt = clock.utc(Stamp("mono", 4 * DAY + 1))
    assert placed == boot + 4 * DAY + 4 * SECOND + 1
    assert doubt == pytest.approx(1.0, abs=0.1)
    assert any("syslog" in word for word in clock.assumed)


def test_uptime_of_a_source_with_its_own_pairs_needs_no_other():
    boot = us("2026-05-01T00:00:00")
    kern = source("kern.log", spans=(("mono", 0, 10), yearless("05-01T00:00:00", "05-01T01:00:00")),
                  clocks=(("noyear", 3600 * SECOND, frame("05-01T01:00:00")),), mtime_us=us("2026-06-01"))  # fmt: skip
    clock = place([kern], [], UTC_SETTINGS)["kern.log"]
    assert clock.utc(Stamp("mono", 60 * SECOND))[0] == boot + 60 * SECOND


def test_boot_time_of_the_scheduler():
    boot = 1658604286 * SECOND
    ctld = source("slurmctld.log", "scheduler", spans=(("utc", boot, boot + DAY),), facts=(f"boot:n222={boot}",))
    dmesg = source("dmesg-n222.log", spans=(("mono", 0, 100 * SECOND),))
    clock = place([dmesg, ctld], [], UTC_SETTINGS)["dmesg-n222.log"]
    assert clock.host == "n222"
    placed, doubt = clock.utc(Stamp("mono", 100 * SECOND))
    assert placed == boot + 100 * SECOND
    assert doubt >= 5.0
    assert any("slurmctld.log (scheduler)" in word for word in clock.assumed)


def test_of_several_boots_the_one_that_the_log_fits():
    first, second = us("2026-05-01T00:00:00"), us("2026-05-03T00:00:00")
    syslog = source("syslog", "syslog", names=(("n1", 5),),
                    spans=(("utc", first, second + DAY),), facts=(f"boot={first}", f"boot={second}"))  # fmt: skip
    long = source("dmesg.a", host="n1", spans=(("mono", 0, 5 * DAY),))  # outlives the first boot
    clock = place([long, syslog], [], UTC_SETTINGS)["dmesg.a"]
    assert clock.utc(Stamp("mono", 0))[0] == second
    old = source("dmesg.b", host="n1", spans=(("mono", 0, DAY),), mtime_us=second - 3600 * SECOND)
    clock = place([old, syslog], [], UTC_SETTINGS)["dmesg.b"]
    assert clock.utc(Stamp("mono", 0))[0] == first
    too_old = place([replace(old, mtime_us=first - 5 * DAY), syslog], [], UTC_SETTINGS)["dmesg.b"]
    assert too_old.utc(Stamp("mono", 0))[0] is None


def test_uptime_without_any_boot_stays_unplaced_with_a_reason():
    other = source("syslog", "syslog", names=(("n2", 5),), clocks=(("utc", 0, us("2026-01-01")),))
    dmesg = source("dmesg.txt", host="n1", spans=(("mono", 0, 5),))
    clock = place([dmesg, other], [], UTC_SETTINGS)["dmesg.txt"]
    assert clock.utc(Stamp("mono", 5)) == (None, float("inf"))
    assert clock.method == "none"
    assert any("boot time unknown" in word for word in clock.assumed)


# --- hosts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "host"),
    [
        ({"names": (("erl-01", 9), ("erl-01.cluster.example", 3), ("noise", 2))}, "erl-01"),
        ({"names": (("a", 5), ("b", 5))}, ""),
        ({"host": "GPU-7.example"}, "gpu-7"),
        ({"host": "loghost", "names": (("gpu-7", 9),)}, "gpu-7"),
        ({"host": "loghost", "names": (("a", 5), ("b", 5))}, ""),
        ({"family": "job", "host": "gpu-7", "names": (("a", 5), ("b", 5))}, "gpu-7"),
        ({"facts": ("host=lab-4",)}, "lab-4"),
        ({"inner_paths": ("hosts/gpu-17/dmesg.txt",)}, "gpu-17"),
        ({"inner_paths": ("x.tar.gz!node/n3.cluster/var/log/kern.log",)}, "n3"),
        ({"inner_paths": ("kern-rk2-01.log",)}, "rk2-01"),
        ({"inner_paths": ("dmesg-20260301.txt",)}, ""),
        ({"inner_paths": ("kern.log.1",)}, ""),
        ({"family": "scheduler", "names": (("n1", 5),)}, ""),
        ({"family": "job", "names": (("n1", 5), ("n2", 1))}, ""),
        ({"family": "job", "names": (("n1", 5),)}, "n1"),
    ],
)
def test_whose_log(known: dict[str, object], host: str):
    made = source("s", **{"family": "kernel", **known})
    assert place([made], [], UTC_SETTINGS)["s"].host == host


def test_known_hosts_are_found_in_paths():
    dmesg = source("logs/vega-gp48/out.txt")
    job = source("trace-vega-gp4.out", "job")
    fragments = [replace(run(nodes=("vega-gp4", "vega-gp48")), source_id="trace-vega-gp4.out")]
    clocks = place([dmesg, job], fragments, UTC_SETTINGS)
    assert clocks["logs/vega-gp48/out.txt"].host == "vega-gp48"
    assert clocks["trace-vega-gp4.out"].host == "vega-gp4"


def test_a_log_without_a_name_belongs_to_the_only_host():
    dmesg = source("dmesg.log", spans=(("mono", 0, 5),))
    one = [replace(run(nodes=("gn07",)), source_id="dmesg.log")]
    clock = place([dmesg], one, UTC_SETTINGS)["dmesg.log"]
    assert clock.host == "gn07"
    assert any("only one named" in word for word in clock.assumed)
    two = [replace(run(nodes=("gn07", "gn08")), source_id="dmesg.log")]
    assert place([dmesg], two, UTC_SETTINGS)["dmesg.log"].host == ""


# --- the whole ----------------------------------------------------------------------------------------------------


def test_borrowed_stamps_and_formats_add_doubt():
    iso = source("d", spans=(("utc", 1, 2),))
    assert place([iso], [], UTC_SETTINGS)["d"].utc(Stamp("utc", 1)) == (1, 1.0)
    assert place([iso], [], UTC_SETTINGS)["d"].utc(Stamp("utc", 1, borrowed=True)) == (1, 31.0)
    assert place([iso], [], UTC_SETTINGS)["d"].method == "explicit"
    rel = source("d", format="dmesg.reltime", spans=(yearless("05-01T00:00:00", "05-01T01:00:00"),),
                 mtime_us=us("2026-06-01"))  # fmt: skip
    assert place([rel], [], UTC_SETTINGS)["d"].utc(Stamp("noyear", frame("05-01T00:00:00")))[1] == 60.0


def test_order_of_the_inputs_does_not_show():
    boot = us("2026-05-01T00:00:00")
    sources = [
        source("a/kern.log", "syslog", names=(("n1", 5),), spans=(yearless("05-01T00:00:00", "05-03T00:00:00"),),
               clocks=(("noyear", DAY, frame("05-02T00:00:00")),)),
        source("a/dmesg", host="n1", spans=(("mono", 0, DAY),)),
        source("a/sacct", "scheduler", spans=(local("2026-05-01T10:00:00", "2026-05-02T10:00:00"),)),
        source("b/dmesg", spans=(("mono", 0, DAY),)),
        source("b/job.log", "job", spans=(("time", 5, 7), ("utc", boot, boot + 60 * SECOND))),
        source("c/kern.log", root="other", spans=(yearless("05-01T00:00:00", "05-03T00:00:00"),), mtime_us=boot),
    ]  # fmt: skip
    fragments = [run(str(n), "a/sacct", start=Stamp("local", boot), nodes=(f"n{n}",)) for n in range(3)]
    expected = place(sources, fragments, UTC_SETTINGS)
    assert expected["a/dmesg"].utc(Stamp("mono", 0))[0] == boot
    rng = random.Random(7)
    for _ in range(20):
        rng.shuffle(sources)
        rng.shuffle(fragments)
        assert place(iter(sources), iter(fragments), UTC_SETTINGS) == expected


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin"])
def test_boot_time_without_an_offset_is_in_the_zone_of_its_source(tz: str):
    boot = us("2026-07-01T08:00:00")
    shown = boot + (2 * 3600 * SECOND if tz != "UTC" else 0)  # Berlin in summer
    nodes = source("scontrol_show_node.txt", "scheduler", facts=(f"boot_local:gn07.example={shown}",))
    dmesg = source("dmesg-gn07.log", spans=(("mono", 0, 100 * SECOND),))
    clock = place([dmesg, nodes], [], Settings(tz=tz))["dmesg-gn07.log"]
    assert clock.utc(Stamp("mono", 100 * SECOND))[0] == boot + 100 * SECOND
    assert any("scontrol_show_node.txt (scheduler)" in word for word in clock.assumed)
    # a nameless kernel log takes it too, where it is the only boot that its root knows
    nameless = source("dmesg.txt", spans=(("mono", 0, 100 * SECOND),))
    assert place([nameless, nodes], [], Settings(tz=tz))["dmesg.txt"].utc(Stamp("mono", 0))[0] == boot
