"""Telemetry by hour: folding, merging, placing, and the table after an ingest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from pipeline.placing.clock import Clock, Zone
from pipeline.records.telemetry import HOUR_US, TelemetryFold, number, rows
from pipeline.warehouse.ingest import ingest
from schemas.facts import CELL, NO_STAMP, Facts, Stamp, TelemetryFact, merge_facts, merge_telemetry
from schemas.settings import Settings
from sql.models import telemetry_hourly
from sql.store import open_store

HOUR = Stamp("utc", 1772521200_000_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [("62 C", 62.0), ("62C", 62.0), (" 652.10 W", 652.1), ("-8 C", -8.0), ("[N/A]", None), ("", None), ("ERR!", None),
     ("2026/03/03", None), ("0x1F", None), ("07:30:00", None)],
)  # fmt: skip
def test_number(text: str, value: float | None):
    assert number(text) == value


def test_samples_of_an_hour_are_folded_and_faults_of_a_sensor_are_not():
    fold = TelemetryFold("s")
    for offset, value in ((0, 60.0), (100, 64.0), (CELL + 1, 50.0)):
        fold.add(Stamp("local", HOUR.us + offset), offset, "", "gpu0", "gpu_temperature_c", value)
    fold.add(Stamp("local", HOUR.us + HOUR_US), 200, "", "gpu0", "gpu_temperature_c", 40.0)
    for stamp, value in ((NO_STAMP, 60.0), (HOUR, None), (HOUR, float("nan")), (HOUR, 900.0), (Stamp("mono", 5), 60.0)):
        fold.add(stamp, 0, "", "gpu0", "gpu_temperature_c", value)
    first, second = fold.facts()
    assert first.cells == ((0, 2, 124.0, 60.0, 64.0), (1, 1, 50.0, 50.0, 50.0))
    assert first.totals == (3, 174.0, 50.0, 64.0)
    assert second.hour == Stamp("local", HOUR.us + HOUR_US)


CELLS = st.dictionaries(
    st.integers(0, 3),
    st.tuples(
        st.integers(1, 4), st.integers(0, 9).map(float), st.integers(0, 9).map(float), st.integers(0, 9).map(float)
    ),
).map(lambda d: tuple((k, *v) for k, v in sorted(d.items())))
FACTS = CELLS.map(lambda cells: TelemetryFact("s", "h", "gpu0", "gpu_power_w", HOUR, cells))


@given(FACTS, FACTS, FACTS)
def test_merging_does_not_depend_on_order_or_repetition(a, b, c):
    assert merge_telemetry(a, b) == merge_telemetry(b, a)
    assert merge_telemetry(a, a) == a
    assert merge_telemetry(merge_telemetry(a, b), c) == merge_telemetry(a, merge_telemetry(b, c))
    both = merge_facts([Facts(telemetry=(a,)), Facts(telemetry=(b, c))])
    assert both == merge_facts([both, Facts(telemetry=(c, a))])


def test_hours_are_placed_by_the_clock_of_their_source():
    fact = TelemetryFact("s", "", "gpu0", "gpu_power_w", Stamp("local", HOUR.us), ((0, 2, 10.0, 4.0, 6.0),))
    clock = Clock(host="gn07", zone=Zone(fixed_us=2 * HOUR_US))
    (row,) = rows([fact], {"s": clock})
    assert (row["host"], row["hour_at"], row["n"], row["total"], row["low"], row["high"]) == (
        "gn07", HOUR.us - 2 * HOUR_US, 2, 10.0, 4.0, 6.0,
    )  # fmt: skip
    assert list(rows([replace(fact, hour=Stamp("noyear", 5))], {"s": clock})) == []
    assert list(rows([fact], {})) == []
    # the same hour, once with and once without an offset
    twice = [fact, replace(fact, hour=Stamp("utc", HOUR.us - 2 * HOUR_US), cells=((1, 1, 9.0, 9.0, 9.0),))]
    (joined,) = rows(twice, {"s": clock})
    assert (joined["n"], joined["total"], joined["low"], joined["high"]) == (3, 19.0, 4.0, 9.0)


def _table(url: str) -> list[tuple[object, ...]]:
    t = telemetry_hourly.c
    with open_store(url) as store, store.reading() as connection:
        query = select(t.host, t.device, t.metric, t.n, t.total, t.low, t.high).order_by(*telemetry_hourly.primary_key)
        return [tuple(row) for row in connection.execute(query)]


def test_an_ingest_fills_the_table_and_repeating_it_changes_nothing(tmp_path: Path):
    folder = tmp_path / "site" / "hosts" / "gn07"
    folder.mkdir(parents=True)
    head = "timestamp, index, uuid, temperature.gpu, power.draw [W], clocks.sm [MHz]\n"
    lines = [
        f"2026/03/03 {h:02d}:{m:02d}:00.000, 0, GPU-1, {50 + m}, {600 + m}.5 W, 1700 MHz\n"
        for h in (7, 8)
        for m in range(60)
    ]
    (folder / "gpu.csv").write_text(head + "".join(lines[:90]))
    url = f"sqlite:///{tmp_path / 'w.db'}"
    ingest([tmp_path / "site"], url, Settings())
    first = _table(url)
    assert [r[2:5] for r in first if r[2] == "gpu_temperature_c"] == [
        ("gpu_temperature_c", 60, 60 * 50.0 + sum(range(60))), ("gpu_temperature_c", 30, 30 * 50.0 + sum(range(30))),
    ]  # fmt: skip
    assert {r[0] for r in first} == {"gn07"}
    ingest([tmp_path / "site"], url, Settings())
    assert _table(url) == first
    (folder / "gpu.csv").write_text(head + "".join(lines))
    ingest([tmp_path / "site"], url, Settings())
    longer = _table(url)
    assert [r[3] for r in longer if r[2] == "gpu_temperature_c"] == [60, 60]
    (folder / "gpu.csv").write_text(head + "".join(lines[:90]))  # the older, shorter copy again
    ingest([tmp_path / "site"], url, Settings())
    assert _table(url) == longer
