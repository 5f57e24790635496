"""Reports of a wrong program that one GPU alone makes, job after job: then it is the GPU."""

from __future__ import annotations

from typing import Any

import pytest

from classifiers.engine import decide
from schemas.settings import Settings
from schemas.subject import Decision, Event
from tests.classifiers.engine.build import T0, event, run, subject

DAY = 86_400.0
CARD, OTHER = "pci:0000:4d:00", "pci:0000:9b:00"


def _fault(t: float, device: str = CARD, host: str = "n1", **over: Any) -> Event:
    values = {"role": "either", "device": device, "host": host, "tags": frozenset({"repeats"}), "alt": "gpu.device"}
    return event("xid.31", "software.bug", t, **{**values, **over})


def _decide(now: tuple[Event, ...], *history: Event, **over: Any) -> Decision:
    return decide(subject(*now, history=history, **over), Settings(), 7)


THRICE = (_fault(-9 * DAY), _fault(-4 * DAY))


def test_the_third_time_it_is_the_device() -> None:
    assert _decide((_fault(-1),), *THRICE).component == "gpu.device"
    assert _decide((_fault(-1),), *THRICE[:1]).component == "software.bug"
    assert _decide((_fault(-1),)).component == "software.bug"


@pytest.mark.parametrize(
    "history",
    [
        (_fault(-9 * DAY, OTHER), _fault(-4 * DAY)),  # another device of the host, alone as well
        (_fault(-9 * DAY, host="n2"), _fault(-4 * DAY, host="n2")),  # the same address of another host
        (_fault(-9 * DAY), _fault(-9 * DAY + 600)),  # one time, reported twice
        (_fault(-9 * DAY), _fault(-9 * DAY + 1, OTHER), _fault(-4 * DAY)),  # once with others: a program
    ],
)
def test_anything_less_is_the_program(history: tuple[Event, ...]) -> None:
    assert _decide((_fault(-1),), *history).component == "software.bug"


def test_several_devices_at_once_are_the_program() -> None:
    assert _decide((_fault(-1), _fault(-1, OTHER)), *THRICE).component == "software.bug"


def test_attempts_of_the_same_job_are_one_program_started_again() -> None:
    own = tuple(
        run(
            run_key=f"r-{n}",
            job_id="7",
            start_us=int((T0 - n * DAY - 3600) * 1e6),
            end_us=int((T0 - n * DAY + 60) * 1e6),
        )
        for n in (4, 9)
    )
    now = run(job_id="7")
    assert _decide((_fault(-1),), *THRICE, run=now, sibling_runs=own).component == "software.bug"
    assert _decide((_fault(-1),), *THRICE, run=now).component == "gpu.device"
