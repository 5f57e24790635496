"""Reviews of little, odd or no data: honest blanks, no division by zero."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sql.review.document import build
from sql.review.html import html
from sql.review.markdown import markdown
from sql.store import Store
from tests.sql.builders import DAY, HOUR, T0, decision, run

#: Keys that design promises.
KEYS = [
    "schema", "cluster", "since", "until", "gpus", "interruptions", "unexpected", "planned",
    "scheduler_stops", "faults", "mttf_hours", "node_failure_rate", "ettr", "effective_training_time",
    "startup_seconds", "checkpoint_seconds", "recovery_seconds", "lost_gpu_hours", "by_component", "hosts",
    "diurnal", "power", "projection", "handled_automatically", "quality", "to_label", "coverage",
    "unattributed", "previous",
]  # fmt: skip


def _review(store: Store, *args: Any) -> dict[str, Any]:
    """A review, held to be complete, plain JSON without NaN, and printable in all forms."""
    doc = build(store, *args)
    assert set(KEYS) <= set(doc)
    assert doc["schema"] == "faultbeam.review/1"
    assert len(doc["changes"]) == 5
    json.dumps(doc, allow_nan=False)
    assert markdown(doc).startswith("# Reliability review")
    assert "</html>" in html(doc)
    return doc


def test_empty_warehouse(store: Store) -> None:
    doc = _review(store)
    assert (doc["interruptions"], doc["mttf_hours"]["value"], doc["since"], doc["previous"]) == (0, None, None, None)
    assert doc["effective_training_time"]["value"] is None
    assert doc["coverage"]["value"] is None


def test_empty_period_and_unknown_cluster(store: Store) -> None:
    one = run("r", start_us=T0, end_us=T0 + HOUR)
    store.replace_runs("alpha", [one])
    store.replace_decisions("alpha", [decision("r", "inc", run=one)])
    after = _review(store, "alpha", T0 + 30 * DAY, T0 + 37 * DAY)
    assert (after["interruptions"], after["gpus"], after["mttf_hours"]["value"]) == (0, None, None)
    assert after["previous"]["interruptions"] == 0
    assert _review(store, "beta")["interruptions"] == 0
    backwards = _review(store, "alpha", T0 + DAY, T0)
    assert backwards["interruptions"] == 0


def test_one_incident(store: Store) -> None:
    one = run("r", start_us=T0, end_us=T0 + 10 * HOUR, state="FAILED")
    store.replace_runs("alpha", [one])
    store.replace_decisions("alpha", [decision("r", "inc", run=one, component="gpu.hbm")])
    doc = _review(store, "alpha")
    assert doc["mttf_hours"]["value"] == 10
    low, high = doc["mttf_hours"]["ci95"]
    assert low < 10 < high
    assert doc["by_component"][0]["percent"] == 100
    assert doc["diurnal"]["verdict"] == "not detectable with 0 days"
    assert doc["by_hour"]["verdict"] == "too few failures to tell (1)"
    assert doc["hosts"] == []


def test_overlapping_runs_count_their_time_once(store: Store) -> None:
    runs = [
        run("a", job_id="1", start_us=T0, end_us=T0 + 10 * HOUR),
        run("b", job_id="2", start_us=T0 + 4 * HOUR, end_us=T0 + 8 * HOUR),
        run("c", job_id="3", start_us=T0 + 8 * HOUR, end_us=T0 + 12 * HOUR),
    ]
    store.replace_runs("alpha", runs)
    store.replace_decisions("alpha", [decision("c", "inc", run=runs[2], component="gpu.hbm")])
    assert _review(store, "alpha")["mttf_hours"]["value"] == 12


def test_a_run_without_an_end_counts_as_far_as_it_is_known(store: Store) -> None:
    known = run("a", job_id="1", start_us=T0, end_us=None, last_progress_us=T0 + 5 * HOUR, end_known=False)
    bare = run("b", job_id="2", start_us=T0 + 6 * HOUR, end_us=None, last_progress_us=None, end_known=False)
    none = run("c", job_id="3", start_us=None, end_us=None)
    for one in (known, bare, none):
        cut = replace(one, log_start_us=one.start_us, log_end_us=None)
        store.replace_runs("alpha", [cut])
    doc = _review(store, "alpha")
    assert doc["mttf_hours"]["job_hours"] == 5
    assert doc["mttf_hours"]["value"] is None
    assert doc["mttf_hours"]["ci95"][1] is None


def test_a_clock_that_jumped_back(store: Store) -> None:
    jumped = run("a", job_id="1", start_us=T0 + HOUR, end_us=T0, last_progress_us=T0 - HOUR)
    store.replace_runs("alpha", [jumped])
    store.replace_decisions("alpha", [decision("a", "inc", run=jumped, component="gpu.hbm", onset_us=T0 - 2 * HOUR)])
    doc = _review(store, "alpha")
    assert doc["interruptions"] == 1
    assert doc["mttf_hours"]["value"] is None


def test_previous_period_stands_beside(store: Store) -> None:
    runs = [run(f"r{n}", job_id=f"{n}", start_us=T0 + n * DAY, end_us=T0 + n * DAY + 20 * HOUR) for n in range(14)]
    store.replace_runs("alpha", runs)
    made = [decision(f"r{n}", f"i{n}", run=runs[n], component="gpu.hbm", fault_id=f"f{n}") for n in (1, 8, 9, 10)]
    store.replace_decisions("alpha", made)
    doc = _review(store, "alpha", T0 + 7 * DAY, T0 + 14 * DAY)
    assert (doc["unexpected"], doc["previous"]["unexpected"]) == (3, 1)
    assert "the one before: 1 unexpected" in doc["changes"][0]


@pytest.mark.parametrize("component", ["scheduler.cancelled", "maintenance.planned"])
def test_neither_planned_nor_scheduler_stops_are_failures(store: Store, component: str) -> None:
    one = run("r", start_us=T0, end_us=T0 + 10 * HOUR)
    store.replace_runs("alpha", [one])
    store.replace_decisions("alpha", [decision("r", "inc", run=one, component=component)])
    doc = _review(store, "alpha")
    assert doc["unexpected"] == 0
    assert doc["by_component"] == []
    assert doc["interruptions"] == (component == "maintenance.planned")
    assert doc["scheduler_stops"] == (component == "scheduler.cancelled")
