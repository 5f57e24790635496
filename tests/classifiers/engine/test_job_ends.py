"""How a job's own log ends: a traceback with nothing behind it, and the abort of a process by its watchdog."""

from __future__ import annotations

from classifiers.engine import decide
from schemas.settings import Settings
from schemas.subject import Decision, Event
from tests.classifiers.engine.build import run, said, subject

#: A run of which nothing but its log is known.
LOG_ONLY = run(scheduler="", state="", exit_code=None, end_known=False, first_step=None, last_step=None)
HEAD = said("py_traceback", "by_log", 0, role="symptom", fatal="n", tags=frozenset({"traceback"}))
LAST = said("nccl_cuda_error", "by_log", 1, role="symptom", fatal="maybe")


def log_only(*events: Event) -> Decision:
    return decide(subject(*events, run=LOG_ONLY), Settings(), 7)


def test_a_traceback_that_ends_a_log_is_an_interruption_even_if_no_rule_names_the_cause() -> None:
    d = log_only(HEAD, LAST)
    assert (d.kind, d.component) == ("job_interruption", "unknown")


def test_a_traceback_with_life_behind_it_or_without_a_failure_is_none() -> None:
    saved = said("mark_ckpt_saved", "informational", 5, role="context", fatal="n", tags=frozenset({"ckpt_saved"}))
    assert not log_only(HEAD, LAST, saved).incident
    assert not log_only(HEAD).incident


def test_a_nameless_abort_behind_a_time_out_is_the_watchdogs() -> None:
    timeout = said("nccl_watchdog_timeout", "unknown.nccl_timeout", 1, role="symptom", tags=frozenset({"timeout"}))
    abort = {
        "role": "symptom",
        "fatal": "maybe",
        "strength": "weak",
        "tags": frozenset({"exception"}),
        "fields": (("t", "std::runtime_error"),),
    }
    after = said("cpp_terminate", "by_log", 2, **abort)
    assert log_only(timeout, after).component == "unknown.nccl_timeout"
    # one that came first is a failure of its own
    assert log_only(said("cpp_terminate", "by_log", 0.5, **abort), timeout).cause == "cpp_terminate"


def test_a_rendezvous_whose_connection_broke_lost_its_other_side() -> None:
    lost = {"role": "either", "fatal": "maybe", "tags": frozenset({"init"})}
    never_there = said("pt_rdzv_conn", "software.bug", 2, **lost)
    broke = said("store_conn_broke", "symptom_only", 1, role="symptom", tags=frozenset({"teardown"}))
    assert log_only(never_there).cause == "pt_rdzv_conn"
    assert log_only(broke, never_there).component == "unknown"


def test_the_launcher_names_the_host_of_the_rank_that_crashed() -> None:
    crash = said("glog_signal", "software.bug", 1, role="either", fatal="maybe", tags=frozenset({"crash"}))
    named = said("mpirun_crash", "software.bug", 2, role="either", fatal="maybe", host="n2", tags=frozenset({"crash"}))
    assert log_only(crash).first_host is None
    assert log_only(crash, named).first_host == "n2"


def test_an_abort_gives_way_to_the_reason_that_stands_behind_it() -> None:
    weak = {"role": "symptom", "strength": "weak", "tags": frozenset({"exception"})}
    abort = said("cpp_terminate", "by_log", 0, fields=(("t", "c10::Error"),), fatal="maybe", **weak)
    reason = said(
        "cuda_ecc", "gpu.hbm", 0.5, fatal="maybe", text="  what():  CUDA error: uncorrectable ECC error", alt="gpu.sram"
    )
    last = said("fatal_python", "by_log", 0.8, fatal="maybe", text="Fatal Python error: Aborted", **weak)
    assert log_only(abort, reason, last).cause == "cuda_ecc"
    far = said("cuda_ecc", "gpu.hbm", 900, fatal="maybe", text="  what():  CUDA error: uncorrectable ECC error")
    assert log_only(abort, far).cause != "cuda_ecc"
