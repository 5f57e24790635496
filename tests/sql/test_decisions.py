"""Decisions are replaced as a whole, guarded, with history; labels and old ids follow."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from schemas.errors import SchemaError
from schemas.subject import Decision, EvidenceItem, JobRun
from sql import models, runrows
from sql.aliases import resolve
from sql.decide import guard_key, prepare
from sql.errors import UnknownIncident
from sql.rows import decision_of, decision_row, event_rows
from sql.runrows import run_from_json, run_json, run_of, run_row
from sql.same import dump_same, same_bytes
from sql.store import Store
from sql.types import from_iso, to_json
from tests.sql.builders import HOUR, T0, decision, event, host_fault, run, texts


def _count(store: Store, table: str) -> int:
    return store.stats()[table]


def _incidents(store: Store) -> list[dict[str, object]]:
    with store.reading() as connection:
        return [dict(r) for r in connection.execute(text("SELECT * FROM incidents ORDER BY incident_id")).mappings()]


def test_a_decision_comes_back_equal(store: Store) -> None:
    one = decision()
    assert store.replace_decisions("alpha", [one]).written == 1
    assert store.read_decision(one.incident_id) == one
    assert store.read_decision(one.incident_id[:7]) == one
    assert store.list_decisions("alpha") == (one,)


def test_a_bare_decision_comes_back_equal(store: Store) -> None:
    bare = decision(
        run=None, restart=None, action=None, evidence=(), health=(), alternatives=(), not_seen=(), why=(),
        first_host=None, first_gpu=None, first_rank=None, onset_us=None, incident=False, extra={},
    )  # fmt: skip
    store.replace_decisions("alpha", [bare])
    assert store.list_decisions("alpha") == ()
    assert store.list_decisions("alpha", incidents_only=False) == (bare,)


def _filled(value: object) -> object:
    """The dataclass with every field that has a default at another value, whatever the field is."""
    others = {str: "x", int: 7, float: 2.5, bool: True, tuple: (("x", 1, 2.5),), frozenset: frozenset({"x"}), dict: {}}
    changes: dict[str, object] = {}
    for f in fields(value):  # type: ignore[arg-type]
        if f.default is not MISSING:
            changes[f.name] = "x" if f.default is None else others[type(f.default)]
    return replace(value, **changes)  # type: ignore[type-var]


def test_every_field_of_the_contracts_is_kept(store: Store) -> None:
    """A field that somebody adds to the contracts is stored without a migration (column `more`)."""
    full_run = replace(run(), **{**_only_new(run()), "still_running": True, "spans": (("s0", 1, 2),)})
    full_event = _filled(event())
    assert full_event.hosts == (("x", 1, 2.5),)  # type: ignore[attr-defined]
    one = decision(evidence=(EvidenceItem(full_event, "root"),), run=full_run)
    store.replace_decisions("alpha", [one])
    assert store.read_decision(one.incident_id) == one
    store.replace_runs("alpha", [full_run])
    assert store.read_runs("alpha") == (full_run,)


def _only_new(value: JobRun) -> dict[str, object]:
    """Values for the fields of a run that have no column of their own."""
    others: dict[type, object] = {str: "x", int: 7, float: 2.5, bool: True, tuple: ("x",)}
    return {
        f.name: "x" if f.default is None else others[type(f.default)]
        for f in fields(value)
        if f.default is not MISSING and f.name in runrows._MORE
    }


_flag = st.booleans()
_maybe = st.one_of(st.none(), st.integers(-(10**9), 10**12))
_text = texts


@settings(deadline=None, max_examples=60)
@given(
    job_id=st.one_of(st.none(), _text),
    times=st.lists(_maybe, min_size=6, max_size=6),
    flags=st.lists(_flag, min_size=5, max_size=5),
    running=st.one_of(st.none(), _flag),
    words=st.lists(_text, max_size=3).map(tuple),
    step_s=st.one_of(st.none(), st.floats(0, 1e6)),
)
def test_runs_survive_rows_and_json(job_id, times, flags, running, words, step_s) -> None:
    one = run(
        job_id=job_id, start_us=times[0], end_us=times[1], last_progress_us=times[2], resume_us=times[3],
        log_start_us=times[4], log_end_us=times[5], end_known=flags[0], in_job_attempt=flags[1], success=flags[2],
        planned_end=flags[3], truncated=flags[4], still_running=running, nodes=words, extra=words, step_s=step_s,
    )  # fmt: skip
    assert run_of({**run_row("alpha", one), "more": json.loads(to_json(run_row("alpha", one)["more"]))}) == one
    assert run_from_json(json.loads(to_json(run_json(one)))) == one


def test_runs_come_back_and_are_retracted(store: Store) -> None:
    runs = [run("r1"), run("r2", job_id=None, still_running=None, start_us=None), run("r3", success=True)]
    store.replace_runs("alpha", runs)
    assert store.read_runs("alpha") == tuple(runs)
    store.replace_runs("alpha", [run("r1", attempt=2)], retract={"r2", "r1", "nonsense"})
    assert store.read_runs("alpha") == (run("r1", attempt=2), runs[2])
    assert store.read_runs("beta") == ()


def test_equal_decisions_are_not_written_again(store: Store) -> None:
    store.replace_decisions("alpha", [decision("a"), decision("b")])
    again = store.replace_decisions("alpha", [decision("b"), decision("a")])
    assert (again.written, again.unchanged, again.changes) == (0, 2, ())
    assert _count(store, "incident_revisions") == 2


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"rules_version": 4}, {"rules_version": 5, "revision": 1}),
        ({"model_version": "9"}, {"model_version": "10"}),
        ({"model_version": ""}, {"model_version": "1"}),
        ({"revision": 7}, {"revision": 8}),
        ({"extra": {"provisional": "1"}}, {"extra": {}}),
    ],
)
def test_an_older_decision_never_replaces_a_newer_one(store: Store, older: dict, newer: dict) -> None:
    old, new = decision(cause="xid.48", **older), decision(cause="xid.94", **newer)
    store.replace_decisions("alpha", [new])
    result = store.replace_decisions("alpha", [old])
    assert (result.written, result.kept) == (0, 1)
    assert store.read_decision(new.incident_id) == new
    store.replace_decisions("beta", [old])
    assert store.replace_decisions("beta", [new]).written == 1
    assert store.replace_decisions("gamma", [new, old]).written == 1
    assert store.read_decision(new.incident_id, "gamma") == new


def test_evidence_is_replaced_as_a_whole(store: Store) -> None:
    one = decision()
    store.replace_decisions("alpha", [one])
    fewer = replace(one, evidence=one.evidence[:1], health=(), revision=8)
    store.replace_decisions("alpha", [fewer])
    assert (_count(store, "evidence"), _count(store, "health_events")) == (1, 0)
    assert store.read_decision(one.incident_id) == fewer


def test_history_has_a_row_when_the_answer_changes_and_only_then(store: Store) -> None:
    one = decision()
    store.replace_decisions("alpha", [one])
    store.replace_decisions("alpha", [replace(one, summary="said better", revision=8)])
    changed = store.replace_decisions("alpha", [replace(one, component="gpu.sram", confidence=0.6, revision=9)])
    (change,) = changed.changes
    assert (change.what, change.before, change.after) == (
        "changed",
        ("gpu.hbm", "xid.94", 0.97),
        ("gpu.sram", "xid.94", 0.6),
    )
    store.replace_decisions("alpha", [], {one.subject_key})
    with store.reading() as connection:
        table = models.incident_revisions.c
        rows = connection.execute(select(table.what, table.component).order_by(table.revision_id)).all()
    assert [tuple(row) for row in rows] == [("new", "gpu.hbm"), ("changed", "gpu.sram"), ("retracted", "gpu.sram")]


def test_retracted_subjects_vanish_whole(store: Store) -> None:
    store.replace_decisions("alpha", [decision("a"), decision("b")])
    result = store.replace_decisions("alpha", [], {"a", "never there"})
    assert result.retracted == 1
    assert [c.what for c in result.changes] == ["retracted"]
    assert {name: _count(store, name) for name in ("decisions", "evidence", "health_events", "fault")} == {
        "decisions": 1,
        "evidence": 2,
        "health_events": 1,
        "fault": 1,
    }
    assert store.subject_keys("alpha") == {"b"}
    with pytest.raises(UnknownIncident, match="no incident"):
        store.read_decision(decision("a").incident_id)


def test_an_incident_that_is_none_any_more_keeps_its_health_events(store: Store) -> None:
    one = decision()
    store.replace_decisions("alpha", [one])
    calm = replace(one, incident=False, evidence=(), revision=8)
    assert [c.what for c in store.replace_decisions("alpha", [calm]).changes] == ["retracted"]
    assert _incidents(store) == []
    assert _count(store, "health_events") == 1
    assert _count(store, "fault") == 0


def test_a_label_wins_over_every_later_decision(store: Store) -> None:
    one = decision()
    store.replace_decisions("alpha", [one])
    when = datetime(2026, 3, 5, tzinfo=UTC)
    label = store.add_label(one.incident_id[:8], "maintenance.planned", "announced", "ada", when)
    assert label.incident_id == one.incident_id
    store.replace_decisions("alpha", [replace(one, component="gpu.sram", rules_version=99)])
    (row,) = _incidents(store)
    assert row["component"] == "maintenance.planned"
    assert row["decided_by"] == "label"
    assert row["llama3_row"] is None
    assert bool(row["planned"]) is True
    assert row["counts_as"] == "planned"
    assert row["decided_component"] == "gpu.sram"
    assert row["label_who"] == "ada"
    store.add_label(one.incident_id, "gpu.hbm", "looked again", "eve", when)
    assert _incidents(store)[0]["llama3_row"] == "GPU HBM3 Memory"
    assert [entry.component for entry in store.labels("alpha")] == ["maintenance.planned", "gpu.hbm"]


def test_a_wrong_label_writes_nothing(store: Store) -> None:
    one, two = decision("a", "abc1"), decision("b", "abc2")
    store.replace_decisions("alpha", [one, two])
    with pytest.raises(UnknownIncident, match=r"no incident 'nope'.*faultbeam query incidents"):
        store.add_label("nope", "gpu.hbm")
    with pytest.raises(UnknownIncident, match=r"'abc' names 2 incidents: abc1 \(alpha\), abc2 \(alpha\)"):
        store.add_label("abc", "gpu.hbm")
    with pytest.raises(UnknownIncident):
        store.add_label("", "gpu.hbm")
    with pytest.raises(UnknownIncident):
        store.add_label("%", "gpu.hbm")
    with pytest.raises(SchemaError, match=r"gpu\.hbn.*gpu\.hbm"):
        store.add_label("abc1", "gpu.hbn")
    assert store.labels() == ()


def test_labels_follow_an_id_that_is_replaced(store: Store) -> None:
    store.replace_decisions("alpha", [decision("a", "id-1")])
    store.add_label("id-1", "net.nic", who="ada")
    store.replace_decisions("alpha", [decision("a", "id-2", revision=8)])
    store.replace_decisions("alpha", [decision("a", "id-3", revision=9)])
    (row,) = _incidents(store)
    assert (row["incident_id"], row["component"]) == ("id-3", "net.nic")
    assert store.labels()[0].incident_id == "id-3"
    assert store.read_decision("id-1").incident_id == "id-3"
    with store.reading() as connection:
        assert resolve(connection, "id-2") == [("alpha", "a", "id-3")]
    # an id that comes back is no alias any more
    store.replace_decisions("alpha", [decision("a", "id-1", revision=10)])
    assert store.read_decision("id-1").incident_id == "id-1"
    assert store.read_decision("id-3").incident_id == "id-1"
    assert _incidents(store)[0]["component"] == "net.nic"


def test_a_host_fault_that_becomes_part_of_a_job_takes_its_label_along(store: Store) -> None:
    fault = host_fault()
    store.replace_decisions("alpha", [fault, host_fault("hf2", "node5")])
    store.add_label(fault.incident_id, "gpu.device", who="ada")
    cause = EvidenceItem(fault.evidence[0].event, "root")
    job = decision("job", evidence=(cause, EvidenceItem(event("other"), "cascade")))
    bystander = decision("zzz", evidence=(EvidenceItem(event("w"), "root"), replace(cause, role="context")))
    store.replace_decisions("alpha", [bystander, job], {"hf1"})
    assert store.labels()[0].incident_id == job.incident_id
    rows = {row["incident_id"]: row for row in _incidents(store)}
    assert rows[job.incident_id]["decided_by"] == "label"
    assert rows[bystander.incident_id]["decided_by"] == "rule"
    assert rows[host_fault("hf2").incident_id]["counts_as"] is None


def test_explicit_aliases(store: Store) -> None:
    store.replace_decisions("alpha", [decision("log-run", "old", evidence=())])
    store.replace_decisions("alpha", [decision("slurm-run", "new")], {"log-run"}, aliases={"old": "new"})
    assert store.read_decision("old").subject_key == "slurm-run"


def test_one_fault_of_many_jobs(store: Store) -> None:
    shared = [decision(f"j{n}", fault_id="switch", confidence=0.5 + n / 10) for n in range(3)]
    shared[1] = replace(shared[1], component="net.fabric", confidence=0.9, onset_us=T0)
    store.replace_decisions("alpha", [*shared, host_fault("hf", fault_id="switch", confidence=0.1)])
    with store.reading() as connection:
        (row,) = connection.execute(select(models.fault)).mappings().all()
    assert (row["component"], row["n_incidents"], row["n_interruptions"], row["onset_at"]) == ("net.fabric", 4, 3, T0)
    store.replace_decisions("alpha", [replace(shared[1], fault_id="own", revision=8)])
    with store.reading() as connection:
        rows = connection.execute(select(models.fault.c.fault_id, models.fault.c.n_incidents)).all()
    assert sorted(tuple(row) for row in rows) == [("own", 1), ("switch", 3)]


def test_incidents_have_the_promised_columns(store: Store) -> None:
    promised = {
        *(
            "incident_id",
            "fault_id",
            "kind",
            "cluster",
            "job_id",
            "attempt",
            "started_at",
            "interrupted_at",
            "onset_at",
        ),
        *("last_progress_at", "detected_at", "resumed_at", "outcome", "component", "llama3_row", "cause", "planned"),
        *("counts_as", "confidence", "decided_by", "host", "gpu", "gpu_uuid", "gpu_serial", "rank", "rack", "account"),
        *("driver_version", "n_hosts", "n_gpus", "lost_gpu_seconds", "summary", "rules_version", "model_version"),
        *("onset_at", "revision"),
    }
    store.upsert_hosts("alpha", [{"host": "node1", "rack": "r7"}])
    store.replace_runs("alpha", [run(), run("run2", start_us=T0 + 2 * HOUR, attempt=1)])
    store.replace_decisions("alpha", [decision()])
    (row,) = _incidents(store)
    assert promised <= row.keys()
    assert (row["host"], row["gpu"], row["rank"], row["rack"]) == ("node1", 3, 3, "r7")
    assert (row["account"], row["n_hosts"], row["n_gpus"]) == ("vision", 2, 16)
    assert row["lost_gpu_seconds"] == 12.5 * 3600
    assert row["outcome"] == "NODE_FAIL"
    resumed, interrupted = row["resumed_at"], row["interrupted_at"]
    if store.dialect == "sqlite":
        assert (interrupted, resumed) == ("2026-03-02T01:00:00.000000Z", "2026-03-02T02:00:00.000000Z")
    else:
        assert (interrupted, resumed) == (datetime(2026, 3, 2, 1, tzinfo=UTC), datetime(2026, 3, 2, 2, tzinfo=UTC))


def test_hosts_merge(store: Store) -> None:
    store.upsert_hosts("alpha", [{"host": "n1", "first_seen_at": T0 + 5, "last_seen_at": T0 + 9, "n_gpus": 8}])
    store.upsert_hosts(
        "alpha", [{"host": "n1", "first_seen_at": T0, "last_seen_at": T0 + 7, "rack": "r1"}, {"host": "n2"}]
    )
    with store.reading() as connection:
        row = connection.execute(select(models.hosts).where(models.hosts.c.host == "n1")).mappings().one()
    assert (row["first_seen_at"], row["last_seen_at"], row["n_gpus"], row["rack"]) == (T0, T0 + 9, 8, "r1")
    assert _count(store, "hosts") == 2


def test_the_outbox_follows_the_decision(store: Store) -> None:
    one = decision()
    store.replace_decisions("alpha", [one, decision("p", extra={"provisional": "1"})])
    (proposal,) = store.open_actions("alpha")
    assert (proposal["incident_id"], proposal["kind"], proposal["target"]) == (one.incident_id, "reset_gpu", "node1/3")
    assert proposal["dry_run"] is True
    store.replace_decisions("alpha", [replace(one, summary="better", revision=8)])
    assert [a["action_id"] for a in store.open_actions("alpha")] == [proposal["action_id"]]
    store.replace_decisions("alpha", [], {"run1"})
    assert store.open_actions("alpha") == []
    assert _count(store, "actions") == 1


def test_detected_at_is_of_the_first_decision(url: str, store: Store) -> None:
    one = decision()
    store._clock = lambda: datetime(2026, 3, 3, tzinfo=UTC)
    store.replace_decisions("alpha", [one])
    store._clock = lambda: datetime(2026, 3, 4, tzinfo=UTC)
    store.replace_decisions("alpha", [replace(one, revision=8)])
    with store.reading() as connection:
        d = models.decisions.c
        detected, decided = connection.execute(select(d.detected_at, d.decided_at)).one()
    assert (detected, decided) == (from_iso("2026-03-03"), from_iso("2026-03-04"))
    store.set_detected("alpha", one.subject_key, T0)
    with store.reading() as connection:
        assert connection.execute(select(models.decisions.c.detected_at)).scalar() == T0


def test_decisions_are_chosen_by_time_job_and_host(store: Store) -> None:
    a = decision("a")
    late = run("b", job_id="9", end_us=T0 + 9 * HOUR)
    b = decision("b", run=late, first_host="node2", host="node2")
    c = host_fault("c", "node9", onset_us=T0 + 5 * HOUR)
    store.replace_decisions("alpha", [b, c, a])
    assert [d.subject_key for d in store.list_decisions()] == ["a", "c", "b"]
    assert [d.subject_key for d in store.list_decisions("alpha", since_us=T0 + 2 * HOUR)] == ["c", "b"]
    assert [d.subject_key for d in store.list_decisions("alpha", until_us=T0 + 5 * HOUR)] == ["a"]
    assert [d.subject_key for d in store.list_decisions("alpha", job_id="9")] == ["b"]
    assert [d.subject_key for d in store.list_decisions("alpha", host="node9")] == ["c"]
    assert store.list_decisions("beta") == ()


def test_dump_leaves_out_what_may_differ(store: Store) -> None:
    store.replace_runs("alpha", [run()])
    store.replace_decisions("alpha", [decision(), decision("p", extra={"provisional": "1"})])
    dump = dump_same(store)
    assert {name: len(rows) for name, rows in dump.items()} == {
        "job_runs": 1,
        "incidents": 1,
        "evidence": 2,
        "signals": 0,
    }
    (incident,) = dump["incidents"]
    assert not {"detected_at", "decided_at", "content", "ingest_id"} & incident.keys()
    assert "source" not in dump["evidence"][0]
    before = same_bytes(store)
    store._clock = lambda: datetime(2030, 1, 1, tzinfo=UTC)
    store.replace_decisions("alpha", [], {"run1"})
    moved = tuple(replace(i, event=replace(i.event, source="elsewhere/kern.log")) for i in decision().evidence)
    store.replace_decisions("alpha", [decision(evidence=moved)])
    assert same_bytes(store) == before
    store.replace_decisions("alpha", [decision(confidence=0.5, revision=9)])
    assert same_bytes(store) != before


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_order_and_batches_of_decisions_do_not_show(store: Store, data: st.DataObject) -> None:
    """At the end of any order of old and new decisions of the same subjects stands the newest of each."""
    many = [
        decision(key, incident_id=f"{key}-{revision % 2}", revision=revision, cause=f"c{revision}")
        for key in ("a", "b", "c")
        for revision in (1, 2, 3)
    ]
    order = data.draw(st.permutations(many))
    size = data.draw(st.integers(1, 9))
    store.replace_decisions("alpha", [], store.subject_keys("alpha"))
    for start in range(0, len(order), size):
        store.replace_decisions("alpha", order[start : start + size])
    assert {d.subject_key: d.revision for d in store.list_decisions("alpha")} == {"a": 3, "b": 3, "c": 3}
    with store.reading() as connection:
        assert connection.execute(select(func.count()).select_from(models.evidence)).scalar() == 6


def test_guard_orders_numbers_as_numbers() -> None:
    def key(**more: object) -> object:
        return guard_key(prepare("alpha", decision(**more)).row)

    assert key(model_version="2026.10") > key(model_version="2026.9")
    assert key(rules_version=5, model_version="") > key(rules_version=4, model_version="9")


def test_decision_rows_survive_json() -> None:
    one: Decision = decision()
    rows = json.loads(
        to_json([decision_row("a", one), event_rows("a", one, one.evidence), event_rows("a", one, one.health)])
    )
    assert decision_of(*rows) == one
