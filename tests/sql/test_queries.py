"""Saved queries and review views: equal answers on both databases, on an empty warehouse too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from schemas.facts import Facts, ProgressFact, Quarantine, SignalFact, Stamp
from sql.errors import QueryParameterError, UnknownQuery
from sql.migrations import upgrade
from sql.saved import list_queries, plain, run_query, saved_query
from sql.store import Store, open_store
from sql.types import iso
from sql.views import views
from tests.sql.builders import DAY, HOUR, T0, decision, host_fault, run

QUERIES = [q.name for q in list_queries()]
REQUIRED = {"job": "700003", "host": "node1", "incident": "x"}


def _needed(name: str) -> dict[str, str | float | None]:
    return {p.name: REQUIRED[p.name] for p in saved_query(name).parameters if p.required}


def fill(store: Store) -> None:
    """A small cluster: three weeks, two components, a shared fault, a label, a successful run with an alarm."""
    runs, decisions = [], []
    classes = "gpu.hbm gpu.hbm net.fabric unknown scheduler.cancelled maintenance.planned gpu.hbm unknown"
    for n, component in enumerate(classes.split()):
        start = T0 + n * 3 * DAY
        one = run(f"r{n}", job_id=f"70000{n}", start_us=start, end_us=start + (n + 1) * HOUR, state="FAILED")
        runs.append(one)
        fault = "shared" if n in (1, 2) else f"f{n}"
        decisions.append(
            decision(f"r{n}", f"inc-{n}", run=one, component=component, cause=f"cause{n}", fault_id=fault,
                     confidence=0.3 + n / 10, onset_us=start + HOUR // 2)
        )  # fmt: skip
    good = run("ok", job_id="800000", success=True, state="COMPLETED", end_us=T0 + 10 * HOUR)
    alarm = replace(decision("ok", "calm").health[0])
    alarm = replace(alarm, event=replace(alarm.event, fatal="y"))
    decisions.append(decision("ok", "calm", run=good, incident=False, evidence=(), health=(alarm,)))
    bare = run("bare", job_id=None, start_us=None, end_us=None, n_gpus=None, n_nodes=None, state="", success=True)
    store.replace_runs("alpha", [*runs, good, bare])
    store.replace_decisions("alpha", [*decisions, host_fault(onset_us=T0 + DAY)])
    live = run("live", job_id="900000", start_us=T0 + HOUR, end_us=T0 + 2 * HOUR, state="FAILED", name="live")
    store.replace_runs("alpha", [*runs, good, bare, live])
    store.replace_decisions(
        "alpha", [decision("live", "inc-live", run=live, component="gpu.hbm", extra={"provisional": "1"})]
    )
    store.add_label("inc-3", "net.nic", "seen at the switch", "ada")
    stamp = Stamp("utc", T0)
    signal = SignalFact(
        "sig", "s1", "r", "", "node1", "t", "utc:0", stamp, 0, 1, stamp, 0, "tick", (), (), ((0, 1), (1, 2))
    )
    store.load_facts(
        Facts(signals=(signal,), quarantine=(Quarantine("a/b.gz", "", 0, 10, "torn gzip"),)),
        store.begin_ingest("alpha", {}),
        "alpha",
    )
    store.update_placements([("sig", "node1", T0, T0, "xid.94", "gpu.hbm", "gpu:3")])
    _fill_training(store)
    logs = [("s1", "node1", "kernel log", T0, T0 + DAY), ("s1", "node1", "bmc log", None, None)]
    store.replace_coverage("alpha", ["s1"], logs)


def _fill_training(store: Store) -> None:
    """What the review reads besides: a checkpoint, training progress, telemetry, a host."""
    stamp = Stamp("utc", T0 + HOUR)
    saved = SignalFact(
        "saved", "job", "mark_ckpt_saved", "", "", "saved #", "utc:1", stamp, 900, 9, stamp, 900, "saved in 5.5 s",
        (("seconds", "5.5"),), (), ((0, 1),),
    )  # fmt: skip
    points = tuple((n * 100, n * 10, T0 + n * 60_000_000) for n in range(1, 5))
    progress = ProgressFact(
        "job", 0, 10, Stamp("utc", points[0][2]), 100, 40, Stamp("utc", points[-1][2]), 400, 4, 6.0, "step/x", points
    )
    store.load_facts(Facts(signals=(saved,), progress=(progress,)), store.begin_ingest("alpha", {}), "alpha")
    store.update_placements([("saved", None, T0 + HOUR, T0 + HOUR, "mark_ckpt_saved", "informational", None)], "alpha")
    store.update_progress_placements("alpha", [("job", 0, points[0][2], points[-1][2], "r0")])
    device = {"host": "node1", "device": "gpu:3", "metric": "gpu_power_w", "source_id": "t"}
    hours = [{**device, "hour_at": T0 + n * HOUR, "n": 6, "total": 3600.0, "low": 90.0, "high": 700.5} for n in (0, 1)]
    store.load_telemetry("alpha", hours)
    swings = [[T0 + HOUR + 5_000_000, 1.0, -3760.5, 8]]
    power = {"host": "node1", "hour_at": T0 + HOUR, "source_id": "t", "n": 28_792, "devices": 8, "typical_w": 4.5,
             "n_swings": 1, "largest_w": 3760.5, "swings": swings}  # fmt: skip
    store.load_power("alpha", [power])
    store.upsert_hosts("alpha", [{"host": "node1", "rack": "r1", "n_gpus": 8}])


@pytest.fixture
def both(tmp_path: Path, postgres_url: str) -> Iterator[list[Store]]:
    """The same rows in a warehouse of each kind, written at the same time of the clock."""
    from datetime import UTC, datetime

    stores = []
    for url in (f"sqlite:///{tmp_path / 'w.db'}", postgres_url):
        upgrade(url)
        store = open_store(url, clock=lambda: datetime(2026, 4, 1, tzinfo=UTC))
        fill(store)
        stores.append(store)
    yield stores
    for store in stores:
        store.close()


def test_answers_of_both_databases_are_equal(both: list[Store]) -> None:
    nonempty = 0
    for name in QUERIES:
        params = {**_needed(name), **({"incident": "inc-1"} if name == "history_of_incident" else {})}
        lite, post = (run_query(store, name, params) for store in both)
        assert lite == post, name
        nonempty += bool(lite[1])
    assert nonempty == len(QUERIES)


def test_views_of_both_databases_are_equal(both: list[Store]) -> None:
    for name in views():
        answers = []
        for store in both:
            with store.reading() as connection:
                rows = connection.execute(text(f"SELECT * FROM {name}"))
                columns = list(rows.keys())
                answers.append(sorted([dict(zip(columns, map(plain, row), strict=True)) for row in rows], key=repr))
        assert answers[0] == answers[1], name
        assert answers[0], name


@pytest.mark.parametrize("name", QUERIES)
def test_empty_warehouse(store: Store, name: str) -> None:
    columns, rows = run_query(store, name, _needed(name))
    assert rows == []
    assert len(columns) == len(set(columns)) > 0


def test_interruptions_by_component(store: Store) -> None:
    fill(store)
    columns, rows = run_query(store, "interruptions_by_component", {"cluster": "alpha"})
    table = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [(r["component"], r["counts_as"], r["count"], r["faults"], r["percent"]) for r in table] == [
        ("gpu.hbm", "unexpected", 3, 3, 50.0),
        ("net.fabric", "unexpected", 1, 1, 16.666666667),
        ("net.nic", "unexpected", 1, 1, 16.666666667),
        ("unknown", "unexpected", 1, 1, 16.666666667),
        ("scheduler.cancelled", "scheduler", 1, 1, 100.0),
        ("maintenance.planned", "planned", 1, 1, 100.0),
    ]
    assert table[0]["llama3_row"] == "GPU HBM3 Memory"
    assert table[0]["lost_gpu_hours"] == 37.5
    window = {"since": iso(T0 + 2 * DAY), "until": "2026-03-09"}
    assert [row[0] for row in run_query(store, "interruptions_by_component", window)[1]] == ["gpu.hbm", "net.fabric"]
    assert run_query(store, "interruptions_by_component", {"cluster": "beta"})[1] == []


def test_interruptions_by_week(store: Store) -> None:
    fill(store)
    columns, rows = run_query(store, "interruptions_by_week")
    weeks = {row[columns.index("week")]: dict(zip(columns, row, strict=True)) for row in rows}
    assert sorted(weeks) == ["2026-03-02", "2026-03-09", "2026-03-16", "2026-03-23"]
    assert (weeks["2026-03-02"]["unexpected"], weeks["2026-03-02"]["faults"]) == (3, 2)
    assert (weeks["2026-03-09"]["unexpected"], weeks["2026-03-09"]["scheduler_stops"]) == (1, 1)
    assert (weeks["2026-03-16"]["planned"], weeks["2026-03-16"]["hardware"]) == (1, 1)


@pytest.mark.parametrize(
    ("moment", "week", "day", "hour"),
    [
        ("2026-03-01T23:59:59.999999Z", "2026-02-23", "2026-03-01", 23),  # a Sunday
        ("2026-03-02T00:00:00.000000Z", "2026-03-02", "2026-03-02", 0),  # a Monday
        ("2024-12-31T12:00:00.500000Z", "2024-12-30", "2024-12-31", 12),
        ("2024-02-29T06:30:00.000001Z", "2024-02-26", "2024-02-29", 6),
    ],
)
def test_macros_of_time(store: Store, moment: str, week: str, day: str, hour: int) -> None:
    from sql.dialect import expand
    from sql.types import from_iso

    one = run("r", end_us=from_iso(moment))
    store.replace_runs("alpha", [one])
    macros = ", ".join(f"@{name}(r.ended_at)" for name in ("week", "day", "hour", "epoch", "iso"))
    sql = f"SELECT {macros} FROM job_runs r"
    with store.reading() as connection:
        row = connection.execute(text(expand(sql, store.dialect))).one()
    assert tuple(row[:3]) == (week, day, hour)
    assert row[3] == pytest.approx(from_iso(moment) / 1e6, abs=1e-6)
    assert row[4] == moment


def test_repeat_offenders_count_faults_within_28_days(store: Store) -> None:
    def failed(n: int, day: int, **more: object) -> object:
        when = T0 + day * DAY
        return decision(f"r{n}", run=run(f"r{n}", end_us=when), onset_us=when, fault_id=f"f{n}", **more)

    store.replace_decisions(
        "alpha",
        [
            failed(1, 0), failed(2, 28), failed(3, 57),  # one repeat: 28 days, then 29
            failed(4, 0, first_host="node2"), failed(5, 1, first_host="node2", component="net.nic"),
            failed(6, 0, first_host="node3", component="software.bug"),
            failed(7, 1, first_host="node3", component="software.bug"),
        ],
    )  # fmt: skip
    store.replace_decisions("alpha", [replace(failed(8, 28), fault_id="f2")])  # the same fault, another job
    columns, rows = run_query(store, "repeat_offenders")
    (only,) = [dict(zip(columns, row, strict=True)) for row in rows]
    assert (only["host"], only["failures"], only["repeats"]) == ("node1", 3, 1)


def test_mttf_inputs_and_false_alarms(store: Store) -> None:
    fill(store)
    with store.reading() as connection:
        rows = connection.execute(text("SELECT * FROM review_mttf_inputs ORDER BY week")).mappings().all()
        alarms = connection.execute(text("SELECT * FROM review_false_alarms")).mappings().one()
    assert [r["week"] for r in rows] == ["2026-03-02", "2026-03-09", "2026-03-16", "2026-03-23"]
    first = rows[0]
    assert (first["runs"], first["unexpected"], first["hardware"]) == (5, 3, 3)
    assert first["job_hours"] == pytest.approx(1 + 2 + 3 + 10 + 1)
    assert first["gpu_hours"] == pytest.approx(17 * 16)
    assert first["node_days"] == pytest.approx(17 * 2 / 24)
    assert (alarms["successful_runs"], alarms["with_critical_signal"], alarms["called_interrupted"]) == (2, 1, 0)


def test_job_evidence_and_host_history(store: Store) -> None:
    fill(store)
    columns, rows = run_query(store, "job_evidence", {"job": "700001"})
    assert [row[columns.index("role")] for row in rows] == ["root", "cascade"]
    assert rows[0][columns.index("time")] == iso(T0 + HOUR - 1_234_567)
    columns, rows = run_query(store, "host_history", {"host": "node1", "limit": 3, "since": "2026-03-02"})
    assert rows[0][columns.index("what")] == "signal"
    assert len(rows) == 3
    assert run_query(store, "host_history", {"host": "elsewhere"})[1] == []


def test_incidents_by_family_of_components(store: Store) -> None:
    fill(store)
    columns, rows = run_query(store, "incidents", {"component": "gpu.*", "limit": "2"})
    assert [row[columns.index("incident_id")] for row in rows] == ["inc-6", "inc-1"]
    assert len(run_query(store, "incidents", {"component": "gpu"})[1]) == 0


def test_a_parameter_is_a_value_and_never_sql(store: Store) -> None:
    fill(store)
    for hostile in ("x' OR '1'='1", "700001'; DROP TABLE evidence; --", ":job", "%s"):
        assert run_query(store, "job_evidence", {"job": hostile})[1] == []
    assert store.stats()["evidence"] > 0


def test_wrong_names_and_values_are_told(store: Store) -> None:
    with pytest.raises(UnknownQuery, match="did you mean interruptions_by_host"):
        run_query(store, "interruption_by_host")
    with pytest.raises(QueryParameterError, match="no parameter 'clustr'; it has: cluster, since, until"):
        run_query(store, "interruptions_by_component", {"clustr": "a"})
    with pytest.raises(QueryParameterError, match=r"job_evidence needs --param job=\.\.\. \(id of the job\)"):
        run_query(store, "job_evidence")
    with pytest.raises(QueryParameterError, match="since=yesterday is not an ISO-8601 time"):
        run_query(store, "incidents", {"since": "yesterday"})
    with pytest.raises(QueryParameterError, match="limit=many is not int"):
        run_query(store, "incidents", {"limit": "many"})


def test_headers_of_saved_queries() -> None:
    promised = {
        "interruptions_by_component", "interruptions_by_host", "interruptions_by_week", "unattributed", "job_evidence",
        "runs_by_state", "repeat_offenders", "quarantine", "coverage", "host_history",
    }  # fmt: skip
    assert promised <= set(QUERIES)
    for query in list_queries():
        assert query.title != query.name, f"{query.name}.sql has no title"
        used = set(re.findall(r"(?<!:):(\w+)", query.sql))
        assert used == {p.name for p in query.parameters}, query.name
    limit = next(p for p in saved_query("incidents").parameters if p.name == "limit")
    assert (limit.type, limit.required, limit.default) == ("int", False, "50")
    job = saved_query("job_evidence").parameters[0]
    assert (job.name, job.required, job.meaning) == ("job", True, "id of the job")
