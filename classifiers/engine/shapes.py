"""Patterns over several events that say more than each alone. Each function looks for one shape and gives candidates.

Every shape is written for a kind of report, named in its docstring, never for one report.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from classifiers.engine.candidates import Candidate
from classifiers.engine.outcome import abrupt_boots
from classifiers.engine.repeats import same_device_again
from classifiers.engine.resolve import base_weight, cleared, resolve
from schemas.subject import Event, Subject

Shape = Callable[[Subject], Iterable[Candidate]]

#: Hosts that go down within this of each other share a cause, seconds.
TOGETHER_S = 600.0


def _alive(subject: Subject) -> list[Event]:
    return [e for e in subject.events if not cleared(e)]


def lost_together(subject: Subject) -> Iterable[Candidate]:
    """Hosts of a site that reboot or vanish in the same minutes: shared power or cooling (kind: mass node loss)."""
    marks = {"nodefail", "boot", "power"}
    # what a job prints names the batch host, not the lost one
    own = [e for e in _alive(subject) if marks & e.tags and e.family != "job"]
    others = [e for e in subject.site_events if marks & e.tags and e.family != "job"]
    if not own:
        return
    deeper = [e for e in _alive(subject) if base_weight(e) >= 0.5 and not marks & e.tags and e.family != "job"]
    if deeper:
        return
    hosts = {h for e in (*own, *others) for h in e.hosts}
    power = [e for e in (*own, *others) if "power" in e.tags]
    if len(hosts) < 2:
        return
    times = [e.t for e in (*own, *others) if e.t is not None]
    if times and max(times) - min(times) > 2 * TOGETHER_S:
        return
    lead = tuple(sorted(own, key=lambda e: (e.t is None, e.t or 0.0, e.id)))
    if power:
        yield Candidate(
            "facility", 0.85, "shared_power", lead, f"{len(hosts)} hosts lost power together", "shape", "host.power"
        )
    elif len(hosts) >= 3:
        weight = 0.62 if len(hosts) < 6 else 0.75
        yield Candidate(
            "facility",
            weight,
            "mass_node_loss",
            lead,
            f"{len(hosts)} hosts went down within minutes",
            "shape",
            "host.power",
        )


def reboot_without_reason(subject: Subject) -> Iterable[Candidate]:
    """A host of the run boots anew with nothing before it (kind: silent reboot). A power record makes it the supply,
    and what the processor tells at the next boot names the part."""
    boots = [e for e in abrupt_boots(subject) if not cleared(e)]
    if not boots:
        return
    power = [e for e in _alive(subject) if "power" in e.tags and e.family == "bmc"]
    told = [e for e in _alive(subject) if "reset_reason" in e.tags and resolve(e)[0]]
    if told:
        component, alt = resolve(told[0])
        yield Candidate(component, 0.7, told[0].signal, (told[0], *boots), told[0].meaning, "shape", alt or "host.os")
    elif power:
        yield Candidate(
            "host.power", 0.8, "power_loss", (power[0], *boots), "the BMC saw the host lose power", "shape", "host.os"
        )
    else:
        yield Candidate(
            "host.os", 0.55, "reboot", tuple(boots), "the host rebooted and left no reason", "shape", "host.power"
        )


def crash_in_driver(subject: Subject) -> Iterable[Candidate]:
    """A kernel bug whose instruction lies in the GPU driver (kind: oops in a module). A lock-up there says nothing:
    it is as often a device that does not answer."""
    alive = _alive(subject)
    crashes = [e for e in alive if e.signal == "kernel_oops"]
    for crash in crashes:
        frames = [e for e in alive if "driver_frame" in e.tags and _same_minute(crash, e)]
        if frames:
            why = "the kernel crashed inside the GPU driver"
            yield Candidate("software.driver", 0.75, "driver_oops", (crash, *frames), why, "shape", "host.os")


def _same_minute(a: Event, b: Event) -> bool:
    if a.source_id != b.source_id:
        return False
    return a.t is None or b.t is None or abs(a.t - b.t) <= 60.0


def first_contact_failed(subject: Subject) -> Iterable[Candidate]:
    """The network of a job fails before its first step: set-up, not a part (kind: RDMA error at first collective)."""
    run = subject.run
    if run is None or run.first_step is not None:
        return
    net = [
        e
        for e in _alive(subject)
        if e.family == "job"
        and resolve(e)[0] in ("net.fabric", "net.nic")
        # a connection that broke was there before: only what never came up is set-up
        and not ("sock" in e.signal and "connect to" not in e.text)
    ]
    kernel = [e for e in _alive(subject) if e.family != "job" and base_weight(e) >= 0.3]
    repeated = any(e.count >= 8 and "flap" in e.tags for e in net)
    if net and not kernel and not repeated and not any("init" not in e.tags and e.progress_before for e in net):
        yield Candidate(
            "software.bug",
            0.6,
            "network_setup",
            tuple(net),
            "the network failed before any step was made",
            "shape",
            resolve(net[0])[0],
        )


def _values(key: str, names: tuple[str, ...]) -> Iterable[str]:
    for part in key.split(";"):
        name, _, value = part.partition("=")
        if name in names and value:
            yield value


def _collectives(event: Event) -> Iterable[tuple[str, str, int]]:
    for key in event.keys:
        fields = dict(part.split("=", 1) for part in key.split(";") if "=" in part)
        seq = fields.get("seq", "")
        if seq.isdigit():
            yield fields.get("pg", ""), fields.get("op", ""), int(seq)


def ranks_out_of_step(subject: Subject) -> Iterable[Candidate]:
    """Ranks wait in different collectives of one group: they ran different code (kind: time-out by mismatch)."""
    seen: dict[str, set[tuple[str, int]]] = defaultdict(set)
    timeouts = [e for e in _alive(subject) if "timeout" in e.tags]
    for event in timeouts:
        for pg, op, seq in _collectives(event):
            seen[pg].add((op, seq))
    for _pg, entries in sorted(seen.items()):
        ops = {op for op, _ in entries}
        seqs = {seq for _, seq in entries}
        if len(entries) < 2 or max(seqs) - min(seqs) > 16:
            continue
        if len(ops) == 1 or len(seqs) == 1:
            yield Candidate(
                "software.bug",
                0.62,
                "collective_mismatch",
                tuple(timeouts),
                "ranks of one group waited in different collectives",
                "shape",
                "unknown.nccl_timeout",
            )
            return


def unrelated_crashes(subject: Subject) -> Iterable[Candidate]:
    """Several unrelated programs of one host crash by memory faults (kind: random segfaults, bad memory)."""
    programs: dict[str, set[str]] = defaultdict(set)
    events: dict[str, list[Event]] = defaultdict(list)
    for event in (*subject.history, *subject.events):
        if "crash" not in event.tags or event.family == "job":
            continue
        names = {value for key in event.keys for value in _values(key, ("comm", "name", "task"))}
        programs[event.host].update(re.sub(r"[\d.]+$", "", n) for n in names)
        events[event.host].append(event)
    for host, names in sorted(programs.items()):
        if len(names) >= 3:
            yield Candidate(
                "host.memory",
                0.6,
                "random_crashes",
                tuple(events[host]),
                f"{len(names)} unrelated programs crashed on one host",
                "shape",
                "host.cpu",
            )


def same_fault_again(subject: Subject) -> Iterable[Candidate]:
    """An attempt dies at start-up after one that died of hardware on the same hosts (kind: restart on a bad node)."""
    run = subject.run
    if run is None or not subject.previous or run.first_step is not None:
        return
    hard = [e for e in subject.previous if base_weight(e) >= 0.6 and resolve(e)[0].split(".")[0] in ("gpu", "host")]
    now = [e for e in _alive(subject) if e.family == "job" and base_weight(e) > 0]
    gpu_words = [e for e in now if "cuda" in e.signal or "gpu" in e.signal or "oom" in e.tags]
    own_hardware = [e for e in now if resolve(e)[0].split(".")[0] in ("gpu", "host", "net")]
    if hard and gpu_words and not own_hardware:
        component, alt = resolve(hard[0])
        yield Candidate(
            component,
            0.66,
            hard[0].cause or hard[0].signal,
            (*hard[:1], *gpu_words),
            "the attempt before died of this fault and this one failed before its first step",
            "shape",
            alt or "software.bug",
            final=True,
        )


def flapping_link(subject: Subject) -> Iterable[Candidate]:
    """Port events: many, on several hosts or all ports of a host: the fabric; one that stays down: the adapter."""
    ports = [e for e in _alive(subject) if "port" in e.tags and "switch" not in e.tags and base_weight(e) > 0]
    if not ports:
        return
    hosts = {h for e in ports for h in e.hosts}
    devices = {(e.host, e.device) for e in ports if e.device}
    count = sum(e.count for e in ports)
    nic_fault = [
        e
        for e in _alive(subject)
        if resolve(e)[0] == "net.nic" and "port" not in e.tags and e.family != "job" and base_weight(e) >= 0.4
    ]
    if nic_fault:
        return
    lead = tuple(sorted(ports, key=lambda e: (e.t is None, e.t or 0.0, e.id)))
    if len(hosts) >= 2 or count >= 3 or len(devices) >= 4:
        yield Candidate(
            "net.fabric",
            0.82,
            "link_flap",
            lead,
            f"{count} port events on {max(1, len(hosts))} host(s)",
            "shape",
            "net.nic",
        )
    else:
        yield Candidate("net.nic", 0.6, "port_down", lead, "one port went down and stayed down", "shape", "net.fabric")


def fabric_trouble(subject: Subject) -> Iterable[Candidate]:
    """The job's network stalled or broke while a switch reported a port, an optic or its chip (kind: fabric fault)."""
    run = subject.run
    said = [e for e in _alive(subject) if "switch" in e.tags and "recovered" not in e.tags]
    felt = [
        e
        for e in _alive(subject)
        if "switch" not in e.tags and ("timeout" in e.tags or resolve(e)[0] in ("net.fabric", "net.nic"))
    ]
    if run is None or not said or not felt:
        return
    deeper = [
        e
        for e in _alive(subject)
        if e.family != "job" and base_weight(e) >= 0.4 and resolve(e)[0] not in ("net.fabric", "net.nic")
    ]
    if deeper:
        return
    lead = tuple(sorted(said, key=lambda e: (e.t is None, e.t or 0.0, e.id)))
    links = [e for e in felt if "port" in e.tags]
    yield Candidate(
        "net.fabric",
        0.8 if links else 0.62,
        "switch_event",
        (*lead[:1], *felt[:1]),
        "a switch reported trouble while the job's network stalled",
        "shape",
        "unknown.nccl_timeout",
    )


def several_devices_lost(subject: Subject) -> Iterable[Candidate]:
    """Two or more GPUs of one host lost at once with errors of a shared bridge: the board (kind: riser or switch)."""
    by_host: dict[str, list[Event]] = defaultdict(list)
    for event in _alive(subject):
        if ("gpu_lost" in event.tags or event.signal == "xid.79") and event.device and event.family != "job":
            by_host[event.host].append(event)
    for _host, lost in sorted(by_host.items()):
        devices = {e.device for e in lost}
        bridge = [e for e in _alive(subject) if resolve(e)[0] == "host.pcie" and e.family != "job"]
        if len(devices) >= 2 and bridge:
            yield Candidate(
                "host.ioboard",
                0.7,
                "devices_below_one_bridge",
                (*bridge, *lost),
                f"{len(devices)} GPUs were lost below one bridge",
                "shape",
                "host.pcie",
            )


#: Reasons that Slurm itself or a health check writes: they are the symptom of a fault, no decision of a person.
_OWN_REASONS = re.compile(
    r"(?i)not responding|kill task failed|unexpectedly reboot|low (?:real|cpu|socket|tmp|mem)|prolog|epilog|batch job|"
    r"duplicate job|resume ?timeout|reboot|gres|nhc|health|xid|ecc|fail|error|hung|stuck|dead|broken|bad "
)


def taken_by_a_person(subject: Subject) -> Iterable[Candidate]:
    """A host is set down or drained by hand, with a reason that names no fault, and its job stops (kind: unannounced
    repair). Only when nothing on the host spoke of a fault before."""
    run = subject.run
    if run is None:
        return
    taken = [e for e in _alive(subject) if "update_state" in e.signal or "update_reason" in e.signal]
    by_hand = [e for e in taken if not _OWN_REASONS.search(e.field("why"))]
    if not by_hand or len(by_hand) < len(taken):
        return
    end = run.end_us / 1e6 + 5 if run.end_us is not None else None
    before_end = [e for e in by_hand if end is None or e.t is None or e.t <= end]
    faults = [e for e in _alive(subject) if base_weight(e) >= 0.3 and "maintenance" not in e.tags]
    if before_end and not faults:
        words = next((e.field("why") for e in before_end if e.field("why")), "no reason given")
        yield Candidate(
            "maintenance.unplanned",
            0.66,
            "host_taken",
            tuple(before_end),
            f"the host was taken by hand ({words})",
            "shape",
            "unknown",
        )


SHAPES: Sequence[Shape] = (
    taken_by_a_person,
    lost_together,
    reboot_without_reason,
    crash_in_driver,
    first_contact_failed,
    ranks_out_of_step,
    unrelated_crashes,
    same_fault_again,
    same_device_again,
    flapping_link,
    fabric_trouble,
    several_devices_lost,
)
