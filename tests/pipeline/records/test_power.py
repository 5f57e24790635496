"""Swings of power: found in samples a second apart, not in coarse or noisy ones; merged; stored by an ingest."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from pipeline.placing.clock import Clock, Zone
from pipeline.records.power import KEPT, ChangeFold, power_rows
from pipeline.records.telemetry import HOUR_US, TelemetryFold
from pipeline.warehouse.ingest import ingest
from schemas.facts import Facts, Stamp, TelemetryFact, merge_facts, merge_telemetry
from schemas.settings import Settings
from sql.models import power_hourly
from sql.store import open_store

#: 2026-03-03 07:00 UTC.
HOUR = 1_772_521_200_000_000
CLOCKS = {"s": Clock(host="node7", zone=Zone(fixed_us=0))}


def _watts(second: float, gpu: int, dips: tuple[tuple[float, float], ...]) -> float:
    """Power of a GPU that rests during `dips`, with noise of a few watts."""
    noise = random.Random(f"{second} {gpu}").gauss(0, 4)
    return (180.0 if any(a <= second < b for a, b in dips) else 650.0) + noise


def _facts(every: float, gpus: int = 8, seconds: int = 1800, dips: tuple[tuple[float, float], ...] = ()) -> Facts:
    fold = TelemetryFold("s")
    offset = 0
    for k in range(int(seconds / every)):
        for gpu in range(gpus):
            stamp = Stamp("utc", HOUR + round(k * every * 1e6) + gpu * 3000)
            fold.add(stamp, offset, "", f"GPU-{gpu}", "gpu_power_w", _watts(k * every, gpu, dips))
            fold.add(stamp, offset, "", f"GPU-{gpu}", "gpu_temperature_c", 60.0)
            offset += 90
    return Facts(telemetry=fold.facts())


@pytest.mark.parametrize("every", [0.25, 1.0, 5.0, 10.0])
def test_a_dip_is_two_swings_of_the_host(every: float) -> None:
    (row,) = power_rows(_facts(every, dips=((600, 640),)).telemetry, CLOCKS)
    assert (row["host"], row["hour_at"], row["devices"], row["n_swings"]) == ("node7", HOUR, 8, 2)
    (down_at, _, down, gpus), (up_at, _, up, _) = row["swings"]
    assert gpus == 8
    assert down == pytest.approx(-8 * 470, rel=0.03)
    assert up == pytest.approx(8 * 470, rel=0.03)
    assert abs(down_at - (HOUR + 600e6)) <= 1.5e6
    assert abs(up_at - (HOUR + 640e6)) <= 1.5e6
    assert row["largest_w"] == pytest.approx(8 * 470, rel=0.03)
    assert row["typical_w"] < 10


def test_coarse_samples_give_no_row_and_even_power_gives_no_swing() -> None:
    assert list(power_rows(_facts(11.0, dips=((600, 640),)).telemetry, CLOCKS)) == []
    (row,) = power_rows(_facts(1.0).telemetry, CLOCKS)
    assert (row["n_swings"], row["largest_w"], row["swings"]) == (0, None, [])
    assert row["n"] == 8 * 1799


def test_power_that_swings_with_every_step_is_the_usual() -> None:
    fold = TelemetryFold("s")
    for k in range(1800):
        fold.add(Stamp("utc", HOUR + k * 1_000_000), k * 90, "", "g", "gpu_power_w", 650.0 if k % 4 < 2 else 450.0)
    (row,) = power_rows(fold.facts(), CLOCKS)
    assert row["n_swings"] == 0


def test_a_clock_that_jumps_back_makes_no_swing() -> None:
    fold = ChangeFold()
    for us, watts in ((10, 650.0), (12, 650.0), (3, 90.0), (5, 90.0), (500, 650.0)):
        fold.add(Stamp("utc", HOUR + us * 1_000_000), us, "", "g", watts)
    ((cells),) = fold.cells().values()
    assert [(n, typical) for _, n, typical, _ in cells] == [(2, 0.0)]


def test_sources_without_a_clock_are_left_out() -> None:
    assert list(power_rows(_facts(1.0, seconds=60).telemetry, {})) == []


CHANGES = st.dictionaries(
    st.integers(0, 3), st.tuples(st.integers(1, 4), st.integers(0, 9).map(float), st.just(((5, 1.0, 300.0),)))
).map(lambda d: tuple((k, *v) for k, v in sorted(d.items())))
FACTS = CHANGES.map(lambda changes: TelemetryFact("s", "h", "gpu0", "gpu_power_w", Stamp("utc", HOUR), (), changes))


@given(FACTS, FACTS, FACTS)
def test_merging_does_not_depend_on_order_or_repetition(a, b, c) -> None:
    assert merge_telemetry(a, b) == merge_telemetry(b, a)
    assert merge_telemetry(a, a) == a
    assert merge_telemetry(merge_telemetry(a, b), c) == merge_telemetry(a, merge_telemetry(b, c))
    both = merge_facts([Facts(telemetry=(a,)), Facts(telemetry=(b, c))])
    assert both.telemetry == (merge_telemetry(merge_telemetry(a, b), c),)


def test_facts_are_small() -> None:
    facts = _facts(1.0, seconds=3600, dips=tuple((100.0 * n, 100.0 * n + 20) for n in range(1, 36)))
    power = [f for f in facts.telemetry if f.changes]
    assert max(len(cell[3]) for f in power for cell in f.changes) <= KEPT
    (row,) = power_rows(facts.telemetry, CLOCKS)
    assert row["n_swings"] == 70
    assert len(json.dumps(row["swings"])) < 4000


def test_an_ingest_fills_the_table_and_repeating_it_changes_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = ["timestamp, index, uuid, power.draw [W]"]
    for second in range(1200):
        for gpu in range(4):
            at = f"2026/03/03 07:{second // 60:02}:{second % 60:02}.{gpu}00"
            lines.append(f"{at}, {gpu}, GPU-0000000{gpu}-1, {_watts(second, gpu, ((300, 330), (900, 910))):.2f} W")
    (logs / "node7.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    url = f"sqlite:///{tmp_path / 'w.db'}"
    found = []
    for _ in range(2):
        ingest([logs], url, Settings())
        with open_store(url) as store, store.reading() as connection:
            found.append(connection.execute(select(power_hourly)).mappings().all())
    (row,) = found[0]
    assert found[1] == found[0]
    assert (row["n_swings"], row["devices"], len(row["swings"])) == (4, 4, 4)
    assert [s[3] for s in row["swings"]] == [4, 4, 4, 4]
    assert abs(row["swings"][0][0] - HOUR - 300_000_000) < 500_000
    assert HOUR % HOUR_US == 0
