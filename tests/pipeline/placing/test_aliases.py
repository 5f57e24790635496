"""Hosts that their scheduler calls otherwise: one node, whoever names it."""

from __future__ import annotations

from pathlib import Path

from pipeline.diagnose import diagnose
from pipeline.placing.hosts import aliases_of
from schemas.facts import SourceFact
from schemas.settings import Settings

NODE = """NodeName={node} Arch=x86_64 CoresPerSocket=48
   CPUAlloc=0 CPUTot=192 CPULoad=1.20
   Gres=gpu:8
   NodeAddr={host} NodeHostName={host} Version=23.11.4
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A
   BootTime=2026-05-10T09:00:00 SlurmdStartTime=2026-05-10T09:01:00
"""
SACCT = (
    "JobID|State|Start|End|ExitCode|NodeList|NNodes\n"
    "700|FAILED|2026-05-17T09:00:00|2026-05-17T09:13:30|1:0|gpu[1-2]|2\n"
    "701|FAILED|2026-05-17T09:00:00|2026-05-17T09:40:00|1:0|gpu[3-4]|2\n"
)
XID = "May 17 09:13:01 {host} kernel: NVRM: Xid (PCI:0000:4d:00): 79, pid=812, GPU has fallen off the bus.\n"


def source(*facts: str) -> SourceFact:
    return SourceFact("s", ("s",), "r", "x", "other", 1, None, "", facts=facts)


def test_names_that_leave_a_doubt_are_no_aliases():
    assert aliases_of([source("alias:ip-10-0-0-1=gpu1", "alias:ip-10-0-0-2.cluster=gpu2", "driver_version=1")]) == {
        "ip-10-0-0-1": "gpu1",
        "ip-10-0-0-2": "gpu2",
    }
    assert aliases_of([source("alias:a=gpu1"), source("alias:a=gpu2")]) == {}
    assert aliases_of([source("alias:gpu2=gpu1", "alias:b=gpu2")]) == {"b": "gpu2"}


def _site(root: Path, logs: dict[str, str]) -> Path:
    files = {
        "sacct.txt": SACCT,
        "nodes.txt": "\n".join(NODE.format(node=f"gpu{n}", host=f"ip-10-0-0-{n}") for n in range(1, 5)),
        "slurm-700.out": "2026-05-17 09:12:55 iteration 10/5000 loss 2.1\n",
        **logs,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_host_log_under_the_machines_own_name_is_the_nodes(tmp_path: Path):
    root = _site(tmp_path, {"logs/kern.log": XID.format(host="ip-10-0-0-2.internal")})
    incidents = diagnose([root], Settings(tz="UTC")).document.incidents
    found = {i.job_id: (i.cause, i.first_failing.host) for i in incidents}
    assert found["700"] == ("xid.79", "gpu2")
    assert found["701"][0] != "xid.79"


def test_lines_of_several_machines_too(tmp_path: Path):
    other = "May 17 09:13:00 ip-10-0-0-3 kernel: EDAC MC1: 1 CE memory read error on DIMM_B2\n"
    root = _site(tmp_path, {"central/messages": other + XID.format(host="ip-10-0-0-1")})
    incidents = diagnose([root], Settings(tz="UTC")).document.incidents
    found = {i.job_id: (i.cause, i.first_failing.host) for i in incidents}
    assert found["700"] == ("xid.79", "gpu1")
