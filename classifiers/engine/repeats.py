"""One device that does over several jobs what is a program's fault in one: then it is the device's.

Xid 13, 31 and 43 tell of a program that did what the GPU refuses. NVIDIA's workflow for 13 and 31 says that the same
report on one PCI address over several runs points at hardware, on different addresses at the program. History comes
from facts strictly before the run, never from decisions.
"""

from __future__ import annotations

from collections.abc import Iterable

from classifiers.engine.candidates import Candidate
from classifiers.engine.resolve import cleared
from schemas.subject import Event, Subject

#: Earlier times at which the device did it before it is blamed.
EARLIER = 2
#: Reports closer than this are of one time, seconds.
APART_S = 1800.0
#: Reports of several devices of a host this close together are one program's on all of them, seconds.
TOGETHER_S = 120.0


def _counts(event: Event) -> bool:
    return "repeats" in event.tags and bool(event.device) and event.family != "job"


def same_device_again(subject: Subject) -> Iterable[Candidate]:
    """A device that stopped jobs before with the reports of a wrong program, alone, stops one more (kind: weak GPU
    that passes for a bug)."""
    now = [e for e in subject.events if _counts(e) and not cleared(e)]
    devices = {(e.host, e.device) for e in now}
    if subject.run is None or len(devices) != 1:
        return
    (place,) = devices
    history = [e for e in subject.history if _counts(e) and e.t is not None and e.host == place[0]]
    single = [e for e in history if not _of_all(e, history)]
    if any(e.device != place[1] for e in single):
        return  # any of the host's devices: the host or what runs there
    times: list[float] = []
    for event in single:
        if event.t is not None and not _of_own(event, subject) and (not times or event.t - times[-1] >= APART_S):
            times.append(event.t)
    if len(times) >= EARLIER:
        lead = sorted(now, key=lambda e: (e.t is None, e.t or 0.0, e.id))
        yield Candidate(
            "gpu.device",
            0.66,
            "repeats_on_one_device",
            tuple(lead),
            f"the same GPU alone stopped work like this at {len(times)} earlier times",
            "shape",
            "software.bug",
        )


def _of_all(event: Event, history: Iterable[Event]) -> bool:
    """Whether other devices of the host reported in the same minutes: a program's doing."""
    return any(e.device != event.device and abs((e.t or 0.0) - (event.t or 0.0)) <= TOGETHER_S for e in history)


def _of_own(event: Event, subject: Subject) -> bool:
    """Whether another attempt of the same job ran then: a wrong program that is started again fails again."""
    job = subject.run.job_id if subject.run is not None else None
    t = (event.t or 0.0) * 1e6
    return any(
        job is not None
        and r.job_id == job
        and r.start_us is not None
        and r.start_us <= t <= (r.end_us or r.log_end_us or r.start_us) + 60e6
        for r in subject.sibling_runs
    )
