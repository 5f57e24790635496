"""Decisions on hand-made subjects: what is a cause, what a symptom, and when the honest answer is unknown."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifiers.engine import decide
from schemas.settings import Settings
from schemas.subject import Decision, Subject
from tests.classifiers.engine.build import T0, event, run, said, subject

SETTINGS = Settings()


def answer(s: Subject) -> Decision:
    return decide(s, SETTINGS, 7)


XID79 = event("xid.79", "gpu.device", 0, device="pci:0000:4d:00", tags=frozenset({"gpu_lost"}))
AER = event("pcie.aer_received", "host.pcie", -3, device="pci:0000:4d:00")
LINK = ("pcie.*", "same_host", 300.0)
CUDA = said("cuda_launch", "software.bug", 2, role="either", fatal="maybe")
WATCHDOG = said("nccl_watchdog_timeout", "unknown.nccl_timeout", 40, role="symptom", tags=frozenset({"timeout"}))
CLOSED = said("nccl_sock_closed", "symptom_only", 41, role="symptom", tags=frozenset({"teardown"}))


def test_hardware_explains_what_the_job_printed_after_it() -> None:
    d = answer(subject(XID79, CUDA, WATCHDOG, CLOSED))
    assert (d.component, d.cause, d.first_host) == ("gpu.device", "xid.79", "n1")
    assert d.confidence >= 0.8
    roles = {i.event.signal: i.role for i in d.evidence}
    assert roles == {
        "xid.79": "root",
        "cuda_launch": "cascade",
        "nccl_watchdog_timeout": "cascade",
        "nccl_sock_closed": "teardown",
    }


def test_a_link_of_the_knowledge_moves_the_root_to_what_came_before() -> None:
    d = answer(subject(AER, replace(XID79, links=(LINK,)), CUDA))
    assert (d.component, d.cause) == ("host.pcie", "pcie.aer_received")


def test_a_back_pointer_beats_order() -> None:
    named = event("xid.74", "gpu.nvlink", 1, device="pci:0000:4d:00")
    cleanup = event("xid.45", "symptom_only", 0.5, role="symptom", back="xid.74", device="pci:0000:4d:00")
    d = answer(subject(cleanup, named))
    assert (d.component, d.cause) == ("gpu.nvlink", "xid.74")


def test_training_that_went_on_clears_a_fault() -> None:
    survived = replace(XID79, progress_after=2)
    d = answer(subject(survived))
    assert d.component == "unknown"
    assert all(i.role != "root" for i in d.evidence)
    assert answer(subject(replace(XID79, progress_after=1))).component == "gpu.device"


def test_a_time_out_alone_is_an_unknown_of_its_own() -> None:
    d = answer(subject(WATCHDOG, CLOSED))
    assert d.component == "unknown.nccl_timeout"
    assert any("flight recorder" in n.what for n in d.not_seen)
    assert d.restart is not None
    assert d.action is not None
    assert d.action.kind == "collect_evidence"


def test_symptoms_never_win() -> None:
    d = answer(subject(CLOSED))
    assert d.component == "unknown"


def test_a_completed_run_has_no_incident_and_keeps_its_health_events() -> None:
    d = answer(subject(XID79, run=run(state="COMPLETED")))
    assert not d.incident
    assert [i.event.signal for i in d.health] == ["xid.79"]


def test_a_log_that_just_stops_is_no_incident() -> None:
    cut = run(scheduler="", state="", exit_code=None, end_known=False, truncated=True)
    assert not answer(subject(run=cut)).incident
    assert answer(subject(CUDA, run=cut)).incident


@pytest.mark.parametrize(
    ("state", "component"),
    [("PREEMPTED", "scheduler.preempted"), ("TIMEOUT", "scheduler.time_limit"), ("CANCELLED", "scheduler.cancelled"),
     ("OUT_OF_MEMORY", "software.bug"), ("NODE_FAIL", "unknown")],
)  # fmt: skip
def test_the_schedulers_word_without_any_other_evidence(state: str, component: str) -> None:
    assert answer(subject(run=run(state=state, exit_code=0))).component == component


def test_a_cancelled_job_whose_gpu_had_failed_is_the_gpus() -> None:
    assert answer(subject(XID79, run=run(state="CANCELLED"))).component == "gpu.device"


def test_preemption_is_not_outranked_by_a_later_time_out() -> None:
    barrier = said("pt_store_barrier", "software.bug", 50, role="either")
    assert answer(subject(barrier, run=run(state="PREEMPTED"))).component == "scheduler.preempted"


def test_an_earlier_exception_of_one_rank_explains_the_time_outs_of_others() -> None:
    quota = said("edquot", "software.bug", -600, rank=0)
    d = answer(subject(quota, WATCHDOG))
    assert (d.component, d.first_rank) == ("software.bug", 0)


def test_hosts_that_vanish_together_with_power_records_share_the_facility() -> None:
    boot = event("boot_banner", "host_boot", 0, role="symptom", tags=frozenset({"boot"}))
    power = event("sel_power_down", "host.power", -5, host="n2", family="bmc", tags=frozenset({"power"}))
    others = tuple(replace(boot, id=f"b{i}", host=h, hosts=(h,)) for i, h in enumerate(("n2", "n3")))
    d = answer(subject(boot, run=None, site_events=(*others, power)))
    assert d.component == "facility"
    alone = answer(subject(boot, run=run(state="NODE_FAIL", exit_code=0)))
    assert alone.component == "host.os"


def test_an_rdma_failure_before_any_step_is_set_up() -> None:
    rdma = said("nccl.ib_completion.12", "net.fabric", 0, role="either", fatal="maybe", severity="critical")
    fresh = run(scheduler="", state="", first_step=None, last_step=None, last_progress_us=None)
    assert answer(subject(rdma, run=fresh)).component == "software.bug"
    assert answer(subject(rdma)).component == "net.fabric"


def test_ranks_in_different_collectives_of_one_group_ran_different_code() -> None:
    both = replace(WATCHDOG, keys=("op=ALLGATHER;seq=7559", "op=ALLGATHER;seq=7561"))
    assert answer(subject(both)).component == "software.bug"
    same = replace(WATCHDOG, keys=("op=ALLGATHER;seq=7559",))
    assert answer(subject(same)).component == "unknown.nccl_timeout"


def test_a_second_attempt_that_dies_at_start_on_the_same_bad_gpu() -> None:
    oom = said("cuda_oom", "software.bug", 0, tags=frozenset({"oom"}))
    ecc = said("cuda_ecc", "gpu.hbm", -4000)
    fresh = run(attempt=1, first_step=None, last_step=None, last_progress_us=None)
    assert answer(subject(oom, run=fresh, previous=(ecc,))).component == "gpu.hbm"
    assert answer(subject(oom, run=run(attempt=1), previous=(ecc,))).component == "software.bug"


def test_a_host_fault_needs_something_fatal_to_the_work() -> None:
    assert answer(subject(XID79, run=None)).component == "gpu.device"
    corrected = event("edac_ce", "host.memory", 0, role="symptom", fatal="n", tags=frozenset({"corrected"}))
    quiet = answer(subject(corrected, run=None))
    assert not quiet.incident
    maybe = event("nfs_not_resp", "dependency", 0, fatal="maybe", severity="warning")
    hung = event("hung_task", "symptom_only", 5, role="symptom", tags=frozenset({"process_hit"}))
    assert not answer(subject(maybe, run=None)).incident
    assert answer(subject(maybe, hung, run=None)).component == "dependency"


def test_restart_advice_excludes_the_bad_host_and_counts_what_was_lost() -> None:
    d = answer(subject(XID79, run=run(resume_us=int((T0 - 1740) * 1e6), resume_step=80, resume_path="/ckpt/80")))
    assert d.restart is not None
    assert (d.restart.advice, d.restart.exclude_hosts) == ("restart_excluding", ("n1",))
    assert d.restart.lost_gpu_hours == pytest.approx(8.0)
    bug = answer(subject(said("cuda_oom", "software.bug", 0)))
    assert bug.restart is not None
    assert bug.restart.advice == "do_not_restart"


def test_one_fault_has_one_id_for_every_job_that_it_stopped() -> None:
    a = answer(subject(XID79))
    b = answer(subject(XID79, run=run(run_key="r2", job_id="18"), key="r2"))
    assert a.incident_id != b.incident_id
    assert a.fault_id == b.fault_id


POOL = (XID79, replace(AER, links=()), CUDA, WATCHDOG, CLOSED, said("edquot", "software.bug", -600),
        event("xid.63", "gpu.hbm", -1, fatal="n", device="pci:0000:4d:00"),
        event("edac_ce", "host.memory", None, fatal="n", tags=frozenset({"corrected"})))  # fmt: skip


@given(st.lists(st.sampled_from(POOL), unique_by=lambda e: e.id), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(events: list, rng: random.Random) -> None:
    shuffled = list(events)
    rng.shuffle(shuffled)
    one = subject(*sorted(events, key=lambda e: e.id))
    other = subject(*sorted(shuffled, key=lambda e: e.id))
    assert answer(one) == answer(other)
    assert answer(one).component == answer(subject(*shuffled)).component


def test_a_watchdog_speaks_its_waiting_time_after_the_onset() -> None:
    late = replace(WATCHDOG, fields=(("ran", "600000"),))
    d = answer(subject(late))
    assert late.t is not None
    assert d.onset_us == int((late.t - 600) * 1e6)
    assert any("timed out" in step for step in d.why)


def test_an_error_that_channels_died_of_is_a_cause_whatever_its_line_claims():
    """The driver calls some link errors non-fatal and then names them as the cause of its clean-up."""
    mild = event("xid.145", "gpu.nvlink", 0, role="symptom", fatal="n", device="pci:0000:66:00")
    clean = event("xid.45", "symptom_only", 1, role="symptom", device="pci:0000:66:00", back="xid.145")
    d = decide(subject(mild, clean, run=None), SETTINGS)
    assert (d.incident, d.component, d.cause) == (True, "gpu.nvlink", "xid.145")
    assert not decide(subject(mild, run=None), SETTINGS).incident
    elsewhere = replace(clean, hosts=("n2",), host="n2")
    assert not decide(subject(mild, elsewhere, run=None), SETTINGS).incident


def test_what_the_processor_tells_at_the_next_boot_names_the_part():
    boot = event("boot_banner", "host_boot", 0, role="symptom", severity="info", tags=frozenset({"boot"}))
    reason = event(
        "amd_reset_sync_flood",
        "host.cpu",
        3,
        severity="warning",
        alt="host.memory",
        tags=frozenset({"reset_reason"}),
    )
    told = decide(subject(boot, reason, run=None), SETTINGS)
    assert (told.component, told.cause) == ("host.cpu", "amd_reset_sync_flood")
    assert told.alternatives[0][0] == "host.memory"
    assert decide(subject(boot, run=None), SETTINGS).component == "host.os"


def test_a_crash_inside_the_driver_is_the_drivers_and_a_lock_up_there_is_not():
    crash = event("kernel_oops", "host.os", 0, role="either", severity="critical", fatal="maybe")
    crash = replace(crash, tags=frozenset({"process_hit"}))
    frame = event("oops_in_driver", "software.driver", 1, role="symptom", fatal="n", tags=frozenset({"driver_frame"}))
    d = decide(subject(crash, frame, run=None), SETTINGS)
    assert (d.component, d.cause, d.alternatives[0][0]) == ("software.driver", "driver_oops", "host.os")
    assert decide(subject(crash, run=None), SETTINGS).component == "host.os"
    stuck = event("soft_lockup", "host.os", 0, role="symptom", fatal="maybe", tags=frozenset({"process_hit"}))
    assert decide(subject(stuck, frame, run=None), SETTINGS).component != "software.driver"
