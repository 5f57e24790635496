"""The outbox of incidents: in the decision's transaction, in order, at least once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import select

from schemas.subject import Decision
from sql.decide import replace_decisions
from sql.models import decisions as decisions_table
from sql.published import Outgoing, forget_sent, relay, waiting_count
from sql.store import Store
from tests.sql.builders import decision, host_fault


def document(d: Decision) -> str:
    return json.dumps({"incident_id": d.incident_id, "component": d.component})


def decide(store: Store, decisions: Sequence[Decision], retract: Sequence[str] = (), **more: object) -> None:
    store.replace_decisions("c", decisions, retract, latest=True, document=document, **more)  # type: ignore[arg-type]


def sent(store: Store) -> list[Outgoing]:
    out: list[Outgoing] = []

    def send(messages: Sequence[Outgoing]) -> list[int]:
        out.extend(messages)
        return [m.seq for m in messages]

    relay(store, send)
    return out


def provisional(d: Decision) -> Decision:
    return replace(d, extra={"provisional": "1"})


def test_new_changed_final_and_retracted(store: Store) -> None:
    one = decision()
    decide(store, [provisional(one)])
    decide(store, [provisional(one)])  # equal: nothing to tell
    decide(store, [one])
    decide(store, [replace(one, component="gpu.sram")])
    decide(store, [], [one.subject_key])
    messages = sent(store)
    assert [(m.what, m.provisional) for m in messages] == [
        ("new", True), ("changed", False), ("changed", False), ("retracted", False),
    ]  # fmt: skip
    assert [m.incident and json.loads(m.incident)["component"] for m in messages] == [
        "gpu.hbm", "gpu.hbm", "gpu.sram", None,
    ]  # fmt: skip
    assert [m.seq for m in messages] == sorted(m.seq for m in messages)
    assert sent(store) == []


def test_a_message_holds_what_was_decided(store: Store) -> None:
    decide(store, [decision(revision=9)])
    (message,) = sent(store)
    told = json.loads(message.message())
    assert told == {
        "cluster": "c",
        "incident_id": decision().incident_id,
        "what": "new",
        "revision": 9,
        "provisional": False,
        "sequence": message.seq,
        "replaced_by": None,
        "incident": {"incident_id": decision().incident_id, "component": "gpu.hbm"},
    }


def test_what_interrupts_nothing_is_not_told_and_its_end_is(store: Store) -> None:
    decide(store, [decision(incident=False)])
    assert sent(store) == []
    decide(store, [decision()])
    decide(store, [decision(incident=False)])
    assert [m.what for m in sent(store)] == ["new", "retracted"]


def test_an_incident_that_lives_on_elsewhere_says_where(store: Store) -> None:
    fault = host_fault("hf1", "node1")
    decide(store, [fault])
    sent(store)
    heir = replace(decision("run1"), evidence=fault.evidence)
    decide(store, [heir], ["hf1"])
    messages = sent(store)
    assert [(m.what, m.incident_id, m.replaced_by) for m in messages] == [
        ("retracted", fault.incident_id, heir.incident_id),
        ("new", heir.incident_id, None),
    ]


def test_a_transaction_that_fails_tells_nothing(store: Store) -> None:
    def fails_after_its_decision() -> None:
        with store.writing("c") as connection:
            replace_decisions(connection, "c", [decision()], (), 1, {}, document=document)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_after_its_decision()
    assert sent(store) == []


def test_without_a_document_nothing_is_told(store: Store) -> None:
    store.replace_decisions("c", [decision()])
    assert sent(store) == []


def test_messages_of_one_incident_wait_for_each_other(store: Store) -> None:
    one, two = decision("a"), decision("b")
    decide(store, [one, two])
    decide(store, [replace(one, component="gpu.sram"), replace(two, component="gpu.sram")])
    rounds: list[list[tuple[str, str]]] = []
    refused = {one.incident_id}

    def send(messages: Sequence[Outgoing]) -> list[int]:
        rounds.append([(m.incident_id, m.what) for m in messages])
        return [m.seq for m in messages if m.incident_id not in refused]

    assert relay(store, send) == 2
    assert all(len({i for i, _ in told}) == len(told) for told in rounds)
    assert [what for told in rounds for i, what in told if i == one.incident_id] == ["new"] * len(rounds)
    assert [what for told in rounds for i, what in told if i == two.incident_id] == ["new", "changed"]
    refused.clear()
    assert [(m.incident_id, m.what) for m in sent(store)] == [(one.incident_id, "new"), (one.incident_id, "changed")]


def test_what_was_not_confirmed_is_sent_again(store: Store) -> None:
    decide(store, [decision("a")])

    def dies(messages: Sequence[Outgoing]) -> list[int]:
        raise ConnectionError(messages[0].incident_id)

    with pytest.raises(ConnectionError):
        relay(store, dies)
    assert relay(store, lambda messages: [m.seq + 1000 for m in messages]) == 0  # numbers of nobody
    with store.reading() as connection:
        assert waiting_count(connection, "c") == 1
        assert waiting_count(connection, "other") == 0
    assert len(sent(store)) == 1
    with store.writing() as connection:
        assert forget_sent(connection, store.now_us() + 1) == 1


def test_what_nobody_takes_is_kept_longer_then_forgotten(store: Store) -> None:
    decide(store, [decision("a")])
    with store.writing() as connection:
        assert forget_sent(connection, store.now_us() + 1) == 0
        assert forget_sent(connection, store.now_us() + 1, 0) == 0
        assert forget_sent(connection, 0, store.now_us() + 1) == 1
        assert waiting_count(connection, "c") == 0


def test_more_messages_than_one_round_takes(store: Store) -> None:
    decide(store, [decision(f"r{i:03}") for i in range(57)])
    sizes = []

    def send(messages: Sequence[Outgoing]) -> list[int]:
        sizes.append(len(messages))
        return [m.seq for m in messages]

    assert relay(store, send, limit=10, cluster="c") == 57
    assert sizes == [10, 10, 10, 10, 10, 7]


def test_a_final_answer_is_not_replaced_by_a_provisional_one_unless_it_went_on(store: Store) -> None:
    one = decision()
    decide(store, [one])
    decide(store, [provisional(replace(one, component="gpu.sram"))])
    assert store.read_decision(one.incident_id).component == "gpu.hbm"
    decide(store, [provisional(replace(one, component="gpu.sram"))], reopened={one.subject_key})
    assert store.read_decision(one.incident_id).component == "gpu.sram"
    assert [(m.what, m.provisional) for m in sent(store)] == [("new", False), ("changed", True)]


def test_an_incident_keeps_its_detection_under_another_subject(store: Store) -> None:
    fault = host_fault("hf1", "node1")
    decide(store, [fault])
    store.set_detected("c", "hf1", 5_000_000)
    heir = replace(decision("run1"), evidence=fault.evidence)
    decide(store, [heir], ["hf1"])
    with store.reading() as connection:
        assert connection.execute(select(decisions_table.c.detected_at)).scalars().all() == [5_000_000]
