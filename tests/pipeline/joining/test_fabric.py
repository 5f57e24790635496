"""Switches: what a vendor prints, whose it is, and when it says something about a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from classifiers.knowledge import load_ruleset
from pipeline.diagnose import diagnose
from schemas.diagnosis import Diagnosis
from schemas.settings import Settings

SACCT = (
    "JobID|JobName|State|ExitCode|Start|End|NNodes|NodeList\n"
    "77|train|FAILED|1:0|2026-03-03T06:00:00|2026-03-03T07:22:40|2|gn[01-02]\n"
)
TIMEOUT = (
    "[rank3]:[E303 07:22:{s:02d}.000000000 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) "
    "ran for 600012 milliseconds "
    "before timing out.\n"
)
FLAP = (
    "Mar  3 07:12:09 {leaf} Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet12/1, changed state to down\n"
    "Mar  3 07:12:31 {leaf} Ebra: %LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet12/1, changed state to up\n"
)
LINK = "2026-03-03T07:12:10.000000+00:00 gn01 kernel: mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link DOWN\n"


def site(root: Path, **files: str) -> Diagnosis:
    """The diagnosis of a folder with a job that stalled for ten minutes and these files (`__` is a folder)."""
    log = "".join(f"[2026-03-03 07:{m:02d}:00] iteration {m}/ 1000 | loss 2.5\n" for m in range(12))
    named = {"sacct__txt": SACCT, "jobs__slurm-77__out": log + TIMEOUT.format(s=30), **files}
    for name, text in named.items():
        *folders, ending = name.split("__")
        path = root.joinpath(*folders[:-1], f"{folders[-1]}.{ending}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return diagnose([root], Settings()).document


def of_job(document: Diagnosis) -> str:
    (incident,) = [i for i in document.incidents if i.job_id == "77"]
    return incident.component


def test_a_stall_beside_a_port_that_went_down_is_the_fabric(tmp_path: Path):
    document = site(tmp_path / "a", switches__leaf01__log=FLAP.format(leaf="leaf01"))
    (incident,) = [i for i in document.incidents if i.job_id == "77"]
    assert (incident.component, incident.cause) == ("net.fabric", "switch_event")
    shown = [e for e in incident.evidence if e.signal == "switch_link_down"]
    assert shown, "the switch's line is part of the evidence"
    # the switch claims no host that it does not name
    assert (incident.first_failing is None) or incident.first_failing.host != "leaf01"
    assert all(e.host is None for e in shown)


def test_without_the_switch_or_at_another_time_the_stall_has_no_cause(tmp_path: Path):
    assert of_job(site(tmp_path / "none")) == "unknown.nccl_timeout"
    late = FLAP.format(leaf="leaf01").replace("Mar  3 07", "Mar  3 11")
    assert of_job(site(tmp_path / "late", switches__leaf01__log=late)) == "unknown.nccl_timeout"


def test_two_fabrics_say_nothing_of_a_job(tmp_path: Path):
    document = site(
        tmp_path / "two",
        compute__leaf01__log=FLAP.format(leaf="leaf01"),
        storage__leaf09__log=FLAP.format(leaf="leaf09"),
    )
    assert of_job(document) == "unknown.nccl_timeout"


def test_one_folder_a_switch_is_one_fabric(tmp_path: Path):
    document = site(
        tmp_path / "one",
        switches__leaf01__syslog__log=FLAP.format(leaf="leaf01"),
        switches__leaf02__syslog__log=FLAP.format(leaf="leaf02"),
    )
    assert of_job(document) == "net.fabric"


def test_a_port_of_a_switch_alone_stops_no_job(tmp_path: Path):
    root = tmp_path / "quiet"
    log = "".join(f"[2026-03-03 07:{m:02d}:00] iteration {m}/ 1000 | loss 2.5\n" for m in range(22))
    crash = log + "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\nKeyError: 'lr'\n"
    document = site(root, jobs__slurm_77__out="", switches__leaf01__log=FLAP.format(leaf="leaf01"))
    assert document.incidents
    (root / "jobs" / "slurm-77.out").write_text(crash)
    (root / "jobs" / "slurm_77.out").unlink()
    assert of_job(diagnose([root], Settings()).document) == "software.bug"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("%ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/14 is down (Link failure)", "switch_link_down"),
        (":- updatePortOperStatus: Port Ethernet48 oper state set from up to down", "switch_sonic_down"),
        ("swp12: link down", "switch_cumulus_down"),
        ("[interface.NOTICE]: Interface Eth1/14 changed state to DOWN", "switch_mlnx_down"),
        ("%SFF8472-5-THRESHOLD_VIOLATION: Eth1/14: Low Rx Power Alarm", "switch_optic"),
        ("%TAHUSD-4-ASIC_ERROR: parity error in table L3", "switch_asic"),
        ("%SYS-5-SYSTEM_RESTARTED: System restarted", "switch_reboot"),
        ("%MODULE-5-MOD_OK: Module 1 is online", None),
        ("%LINEPROTO-5-UPDOWN: Line protocol on Interface Ethernet12/1, changed state to up", None),
    ],
)
def test_rules_of_switches(text: str, rule: str | None):
    found = [r.id for r, _ in load_ruleset().match(text, "syslog") if "switch" in r.tags]
    assert found == ([] if rule is None else [rule])


def test_a_word_in_a_text_of_no_format_is_no_fault(tmp_path: Path):
    (tmp_path / "statistics.json").write_text('{\n "Hardware": {\n  "Silent Data Corruption": 1\n }\n}\n')
    document = diagnose([tmp_path], Settings()).document
    assert [i.format for i in document.inputs] == ["text"]
    assert document.incidents == []
