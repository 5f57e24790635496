"""One incident that left its traces in ten files of nine formats, with clocks that disagree: one incident, one root."""

# ruff: noqa: E501 - log lines are read better whole

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from schemas.settings import Settings

T = datetime(2026, 4, 7, 11, 20, 0, tzinfo=UTC)
XID48 = (
    "NVRM: Xid (PCI:0000:4d:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been "
    "detected on GPU in the framebuffer at physAddr 0x1f00aa000 partition 3, subpartition 0."
)
XID94 = "NVRM: Xid (PCI:0000:4d:00): 94, pid=4101, name=python, Contained: FB DED (0x10). RST: No, D-RST: No"
XID45 = "NVRM: Xid (PCI:0000:1b:00): 45, pid=5101, name=python, Ch 00000008"


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _site(root: Path, skew: float) -> None:
    """Host a1 fails at T. Its own clocks are `skew` s off; a2 runs as far off on the other side."""

    def at(seconds: float, off: float = 0.0) -> datetime:
        return T + timedelta(seconds=seconds + off)

    _write(root, "slurm/sacct.txt",
           "JobID|User|State|ExitCode|Start|End|NNodes|AllocTRES|NodeList\n"
           f"7071|noor|FAILED|1:0|{at(-7200):%Y-%m-%dT%H:%M:%S}|{at(75):%Y-%m-%dT%H:%M:%S}|2|gres/gpu=16|a[1-2]\n")  # fmt: skip
    _write(root, "slurm/slurmctld.log",
           f"[{at(-7200):%Y-%m-%dT%H:%M:%S}.100] sched: Allocate JobId=7071 NodeList=a[1-2] #CPUs=192 Partition=train\n"
           f"[{at(75):%Y-%m-%dT%H:%M:%S}.300] _job_complete: JobId=7071 WEXITSTATUS 1\n")  # fmt: skip
    _write(root, "hosts/a1/kern.log",
           "".join(f"{at(s, skew):%b} {at(s, skew).day:2d} {at(s, skew):%H:%M:%S} a1 kernel: {text}\n"
                   for s, text in ((-900, "eth0: renamed from veth12ab"), (0, XID48), (0.2, XID94))))  # fmt: skip
    _write(root, "hosts/a1/journal.json",
           "".join(json.dumps({"__REALTIME_TIMESTAMP": str(int(at(s, skew).timestamp() * 1e6)), "_HOSTNAME": "a1.cluster.example",
                               "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": text}) + "\n"
                   for s, text in ((0, XID48), (0.2, XID94))))  # fmt: skip
    _write(root, "hosts/a2/dmesg-T.txt",
           f"[{at(-600, -skew):%a %b} {at(-600, -skew).day:2d} {at(-600, -skew):%H:%M:%S %Y}] docker0: port 2(veth77) entered blocking state\n"
           f"[{at(70, -skew):%a %b} {at(70, -skew).day:2d} {at(70, -skew):%H:%M:%S %Y}] {XID45}\n")  # fmt: skip
    steps = "".join(
        f" [{at(-300 + 10 * i):%Y-%m-%d %H:%M:%S}.000000] iteration {900 + i:8d}/ 50000 | elapsed time per iteration (ms): 10000.0 | lm loss: 2.1E+00 |\n"
        for i in range(30)
    )
    _write(root, "jobs/slurm-7071.out", steps
           + '3: Traceback (most recent call last):\n3:   File "/opt/t/loop.py", line 88, in step\n'
           "3: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
           "srun: error: a1: task 3: Exited with exit code 1\n")  # fmt: skip
    _write(root, "bmc/a1.sel.txt",
           "# a1: ipmitool sel elist\n"
           f"   1 | {at(-86400):%m/%d/%Y} | {at(-86400):%H:%M:%S} | Event Logging Disabled #0x07 | Log area reset/cleared | Asserted\n")  # fmt: skip
    _write(root, "switch/leaf3.log",
           f"{at(-4000):%b} {at(-4000).day:2d} {at(-4000):%H:%M:%S} leaf3 lldpd[812]: unable to send packet on real device for Ethernet12\n")  # fmt: skip
    _write(root, "gpu/a1-dcgm.prom",
           '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-0a",Hostname="a1"} 61\n')  # fmt: skip
    _write(root, "k8s/events.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))


@pytest.mark.parametrize("skew", [0.0, 4.0, -4.0, 25.0])
def test_one_incident_with_one_root(skew: float, tmp_path: Path) -> None:
    _site(tmp_path / "site", skew)
    document = diagnose([tmp_path / "site"], Settings()).document
    assert len({i.format for i in document.inputs}) >= 8
    assert [(i.kind, i.job_id, i.component, i.cause) for i in document.incidents] == [
        ("job_interruption", "7071", "gpu.hbm", "xid.48")
    ]
    incident = document.incidents[0]
    assert incident.first_failing.host == "a1"
    roots = [e for e in incident.evidence if e.role == "root"]
    assert [(e.signal, e.host, e.device, e.count) for e in roots] == [("xid.48", "a1", "pci:0000:4d:00", 1)]
    others = {e.signal: e.role for e in incident.evidence if e.role != "root"}
    assert others["xid.94"] == "cascade"
    assert others["cuda_ecc"] == "cascade"
    assert others["xid.45"] in ("cascade", "teardown")
