"""Views of the review against its plain functions: MTTF, start-up, steps kept, answers that are not final."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from schemas.facts import Facts, ProgressFact, Stamp
from sql.review.document import build
from sql.review.numbers import numbers
from sql.review.rates import mttf
from sql.store import Store
from tests.sql.builders import DAY, HOUR, T0, decision, host_fault, run


def _rows(store: Store, view: str, order: str) -> list[dict[str, Any]]:
    with store.reading() as connection:
        return [dict(r) for r in connection.execute(text(f"SELECT * FROM {view} ORDER BY {order}")).mappings()]


def _progress(store: Store, source: str, key: str, at_us: int, borrowed: bool = False) -> None:
    stamp = Stamp("utc", at_us, borrowed)
    fact = ProgressFact(
        source, 0, 1, stamp, 10, 2, Stamp("utc", at_us + 10_000_000), 90, 2, 5.0, "step/x", ((10, 1, at_us),)
    )
    store.load_facts(Facts(progress=(fact,)), store.begin_ingest("alpha", {}), "alpha")
    store.update_progress_placements("alpha", [(source, 0, at_us, at_us + 10_000_000, key)])


def test_mttf_by_week_has_the_interval_of_the_count(store: Store) -> None:
    runs = [run(f"r{n}", job_id=str(n), start_us=T0 + n * 3 * HOUR, end_us=T0 + (n + 1) * 3 * HOUR) for n in range(70)]
    store.replace_runs("alpha", runs)
    made = [decision(f"r{n}", run=runs[n], fault_id=f"f{n}") for n in range(69)]
    store.replace_decisions("alpha", made)
    first, second = _rows(store, "review_mttf", "week")
    for row in (first, second):
        exact = mttf(row["job_hours"], row["unexpected"])
        assert row["mttf_hours"] == pytest.approx(exact.value)
        assert (row["mttf_low"], row["mttf_high"]) == pytest.approx((exact.low, exact.high), rel=0.01)
    assert first["change_hours"] is None
    assert second["change_hours"] == pytest.approx(second["mttf_hours"] - first["mttf_hours"])


def test_mttf_of_a_week_without_failures_has_a_lower_limit_only(store: Store) -> None:
    store.replace_runs("alpha", [run("r", start_us=T0, end_us=T0 + 30 * HOUR, success=True, state="COMPLETED")])
    (row,) = _rows(store, "review_mttf", "week")
    assert (row["mttf_hours"], row["mttf_high"], row["change_hours"]) == (None, None, None)
    assert row["mttf_low"] == pytest.approx(30 / 3.69, rel=0.02)


def test_startup_leaves_out_first_steps_without_a_stamp_and_says_so(store: Store) -> None:
    runs = [
        run(f"r{n}", job_id=str(n), start_us=T0 + n * HOUR, end_us=T0 + n * HOUR + HOUR // 2, step_s=5.0,
            extra=(f"first_progress_us={T0 + n * HOUR + 300_000_000}",))
        for n in range(3)
    ]  # fmt: skip
    store.replace_runs("alpha", runs)
    for n in range(3):
        _progress(store, f"s{n}", f"r{n}", T0 + n * HOUR + 300_000_000, borrowed=n == 1)
    rows = _rows(store, "review_startup", "started_at")
    assert [r["startup_s"] for r in rows] == [295.0, None, 295.0]
    assert [r["queue_s"] for r in rows] == [None, 1800.0, 1800.0]
    doc = build(store, "alpha")
    start = doc["startup_seconds"]
    assert (start["median"], start["n"], start["without_dated_first_step"], start["attempts"]) == (295, 2, 1, 3)
    shown = next(n for n in numbers(doc) if n.label == "Start-up")
    assert shown.detail == "median of 2; p90 295 s; 1 of 3 attempts left out: no stamp on their first step"


def test_steps_that_a_later_attempt_did_again_were_not_kept(store: Store) -> None:
    spans = ((1, 100), (81, 200), (181, 190), (181, 300))
    runs = [
        run(f"r{n}", job_id=str(n), start_us=T0 + n * HOUR, end_us=T0 + n * HOUR + HOUR // 2, step_s=2.0,
            first_step=first, last_step=last)
        for n, (first, last) in enumerate(spans)
    ]  # fmt: skip
    store.replace_runs("alpha", runs)
    store.replace_decisions("alpha", [decision(f"r{n}", run=runs[n]) for n in range(3)])
    rows = _rows(store, "review_training", "started_at")
    assert [(r["steps"], r["steps_kept"], r["steps_lost"]) for r in rows] == [
        (100, 80, 20), (120, 100, 20), (10, 0, 10), (120, 120, 0),
    ]  # fmt: skip
    elapsed = 3.5 * 3600
    effective = build(store, "alpha")["effective_training_time"]["value"]
    assert sum(r["useful_s"] for r in rows) / elapsed == pytest.approx(effective, rel=1e-5)


def test_answers_that_are_not_final_are_marked_and_in_no_figure(store: Store) -> None:
    runs = [run(f"r{n}", job_id=str(n), start_us=T0 + n * HOUR, end_us=T0 + n * HOUR + HOUR // 2) for n in range(3)]
    store.replace_runs("alpha", runs)
    early = {"provisional": "1"}
    store.replace_decisions(
        "alpha",
        [
            decision("r0", "inc-0", run=runs[0], fault_id="f0"),
            decision("r1", "inc-1", run=runs[1], fault_id="f1", extra=early, component="net.fabric"),
            host_fault(onset_us=T0 + HOUR, extra=early),
        ],
    )
    doc = build(store, "alpha")
    assert (doc["unexpected"], doc["interruptions"], doc["host_faults"]) == (1, 1, 0)
    assert [c["component"] for c in doc["by_component"]] == ["gpu.hbm"]
    assert (doc["provisional"]["count"], doc["provisional"]["host_faults"]) == (1, 1)
    assert {x["incident_id"] for x in doc["provisional"]["incidents"]} >= {"inc-1"}
    assert "(1 more not final yet)" in doc["changes"][0]
    assert "left out: 1 whose answer is not final yet" in numbers(doc)[0].detail
    assert [x["incident_id"] for x in doc["to_label"]] == ["inc-0"]
    assert [r["component"] for r in _rows(store, "review_interruptions_by_component", "component")] == ["gpu.hbm"]
    assert len(_rows(store, "review_provisional", "incident_id")) == 2
    store.replace_decisions("alpha", [decision("r1", "inc-1", run=runs[1], fault_id="f1", component="net.fabric")])
    assert build(store, "alpha")["unexpected"] == 2


def test_what_was_not_seen_is_told_beside_what_has_no_cause(store: Store) -> None:
    one = run("r", start_us=T0, end_us=T0 + DAY)
    store.replace_runs("alpha", [one])
    store.replace_decisions("alpha", [decision("r", "inc", run=one, component="unknown")])
    doc = build(store, "alpha")
    assert doc["unattributed"]["not_seen"] == [
        {"what": "kernel log", "interruptions": 1, "hosts": 1, "most": ["node2"]}
    ]
    assert "kernel log not there for 1 of them" in doc["changes"][4]
