"""The story of one incident: order, borrowed times, repeated lines, reasons."""

from __future__ import annotations

from typing import Any

from pipeline.cli.timeline import explain_lines, timeline_lines
from schemas.subject import Action, Decision, Event, EvidenceItem, Restart

T = 1_773_029_964.0  # 2026-03-09T04:19:24Z


def _item(role: str, signal: str, t: float | None, **changes: Any) -> EvidenceItem:
    fields: dict[str, Any] = {
        "id": signal,
        "signal": signal,
        "rule": signal,
        "component": "gpu.hbm",
        "role": "cause",
        "severity": "error",
        "fatal": "y",
        "t": t,
        "t_last": t,
        "unc": 0.0,
        "host": "n1",
        "device": "",
        "rank": None,
        "ranks": (),
        "n_ranks": 0,
        "source": "kern.log",
        "source_id": "s",
        "family": "kernel",
        "offset": 10,
        "last_offset": 10,
        "line": 3,
        "count": 1,
        "text": f"text of {signal}",
    }
    return EvidenceItem(Event(**{**fields, **changes}), role)


def _decision(*evidence: EvidenceItem, **changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "subject_key": "k",
        "kind": "host_fault",
        "incident": True,
        "incident_id": "i",
        "fault_id": "f",
        "component": "gpu.hbm",
        "cause": "xid.48",
        "confidence": 0.9,
        "decided_by": "rule",
        "summary": "memory of a GPU",
        "first_host": "n1",
        "first_gpu": None,
        "first_rank": None,
        "onset_us": None,
        "evidence": evidence,
        "restart": Restart("wait", (), None, None, None, None, ""),
        "action": Action("none", "", "", ""),
    }
    return Decision(**{**fields, **changes})


def test_evidence_stands_in_the_order_of_time_and_what_has_none_comes_last():
    lines = list(
        timeline_lines(_decision(_item("cascade", "c", None), _item("teardown", "b", T + 60), _item("root", "a", T)))
    )
    assert [line for line in lines if "|" not in line] == [
        "  2026-03-09T04:19:24Z  the cause        a  n1  [kern.log:3]",
        "  2026-03-09T04:20:24Z  others stopping  b  n1  [kern.log:3]",
        "  time not known        followed from it c  n1  [kern.log:3]",
    ]
    assert lines[1].strip() == "| text of a"


def test_a_borrowed_time_says_how_far_it_may_be_off():
    (head, _) = timeline_lines(_decision(_item("root", "a", T, unc=31.2, line=None)))
    assert head.endswith("[kern.log@10, time +-31 s]")


def test_context_that_only_repeats_is_one_line_and_causes_never_are():
    saves = [_item("context", "saved", T + n, offset=n) for n in range(5)]
    faults = [_item("root", "fault", T + 10 + n, offset=20 + n) for n in range(2)]
    heads = [line for line in timeline_lines(_decision(*saves, *faults)) if "|" not in line]
    assert len(heads) == 3
    assert heads[0].endswith("[kern.log:3, the last of 5]")


def test_many_ranks_are_one_event():
    (head, _) = timeline_lines(_decision(_item("root", "a", T, rank=3, ranks=(3, 7), n_ranks=800, count=800)))
    assert "a x800  n1 800 ranks, first 3" in head


def test_reasons_for_and_against():
    decision = _decision(
        _item("root", "xid.48", T),
        _item("cascade", "nic.down", T + 1, component="net.nic"),
        why=("the scheduler says FAILED", "xid.48 is the earliest"),
        alternatives=(("net.nic", 0.2), ("gpu.sram", 0.1)),
    )
    text = "\n".join(explain_lines(decision))
    assert "  1. the scheduler says FAILED\n  2. xid.48 is the earliest" in text
    assert "  net.nic 0.20: nic.down was seen, as followed from it" in text
    assert "  gpu.sram 0.10: no line of these logs names it" in text
    assert text.count("text of xid.48") == 1


def test_no_alternative_and_no_reason_are_said():
    text = "\n".join(explain_lines(_decision(_item("root", "a", T))))
    assert "no step of the reasoning was recorded" in text
    assert "nothing else in these logs comes into question" in text
