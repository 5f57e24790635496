"""Services that fail and come back, hangs that end in a cancellation, and events of hosts that are only assumed."""

from __future__ import annotations

from typing import Any

import pytest

from classifiers.engine import decide
from schemas.settings import Settings
from schemas.subject import Event
from tests.classifiers.engine.build import T0, event, run, said, subject


def _down(t: float, **over: Any) -> Event:
    return event("fm_service_failed", "software.driver", t, **{"family": "syslog", **over})


def _up(t: float, **over: Any) -> Event:
    values: dict[str, Any] = {"role": "context", "severity": "info", "fatal": "n", "tags": frozenset({"recovered"})}
    return event("fm_service_started", "software.driver", t, **{"family": "syslog", **values, **over})


@pytest.mark.parametrize(
    ("events", "incident"),
    [
        ((_down(0),), True),
        ((_down(0), _up(41)), False),
        ((_down(0), _up(119)), False),
        ((_down(0), _up(121)), True),  # later than two minutes
        ((_down(0), _up(-5)), True),  # it had started before
        ((_down(0), _up(41), _down(60)), True),  # and failed again
        ((_down(0), _up(41, host="n2")), True),  # another host's
        ((_down(0, fields=(("server", "a"),)), _up(41, fields=(("server", "b"),))), True),  # another service
        ((_down(0, fields=(("server", "a"),)), _up(41, fields=(("server", "a"),))), False),
    ],
)
def test_a_service_that_is_back_within_two_minutes_is_no_incident(events: tuple[Event, ...], incident: bool) -> None:
    decision = decide(subject(*events, kind="host_fault", run=None, host="n1"), Settings(), 7)
    assert decision.incident is incident
    if not incident:
        assert "fm_service_failed" in {i.event.signal for i in decision.health}


def _cancelled(steps: int, silent_s: float, **over: Any) -> str:
    start, end = T0 - 4 * 3600, T0
    values: dict[str, Any] = {
        "state": "CANCELLED",
        "exit_code": 0,
        "start_us": int(start * 1e6),
        "end_us": int(end * 1e6),
        "last_progress_us": int((end - silent_s) * 1e6),
        "first_step": 1,
        "last_step": steps,
        "step_s": 2.0,
    }
    told = said("slurm_cancel", "symptom_only", 0, role="symptom", fatal="n", tags=frozenset({"cancel"}))
    return decide(subject(told, run=run(**{**values, **over})), Settings(), 7).component


def test_a_job_that_stood_still_for_most_of_its_life_was_not_stopped_by_who_cancelled_it() -> None:
    assert _cancelled(200, 3.8 * 3600) == "unknown"
    assert _cancelled(6000, 3.8 * 3600) == "scheduler.cancelled"  # its bars carry no stamps, but it did its steps
    assert _cancelled(200, 300) == "scheduler.cancelled"  # a step shortly before
    assert _cancelled(200, 3.8 * 3600, step_s=None) == "scheduler.cancelled"  # nobody knows how long steps take
    assert _cancelled(200, 3.8 * 3600, start_us=int((T0 - 1800) * 1e6)) == "scheduler.cancelled"  # a short life


def test_the_fault_of_a_host_that_is_only_assumed_explains_no_exception() -> None:
    lost = event("xid.79", "gpu.device", 1, host="n9", tags=frozenset({"assumed_host"}))
    own = said("py_key", "software.bug", 0, fatal="y")
    log_only = run(scheduler="", state="", exit_code=None, end_known=False, nodes=("n1",))
    assert decide(subject(own, lost, run=log_only), Settings(), 7).component == "software.bug"
