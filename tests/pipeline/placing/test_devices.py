"""One GPU is one device over sources: by index, address, UUID and serial; ranks by NCCL's addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.diagnose import diagnose
from pipeline.placing.devices import Gpu, gpus_by_host, one_device
from schemas.facts import SourceFact
from schemas.settings import Settings

SETTINGS = Settings(tz="UTC", engine="re2")
UUID = "GPU-5c1d7e02-1111-2222-3333-4444{:08d}"


def source(name: str, *facts: str) -> SourceFact:
    return SourceFact(name, (name,), "r", "x", "other", 1, None, "", facts=facts)


def test_names_meet_over_sources_of_one_host():
    listed = source("smi-L.txt", f"gpu_listed:3={UUID.format(3)}", f"gpu_listed:4={UUID.format(4)}")
    kernel = source("kern.log", f"gpu_uuid:0000:4d:00={UUID.format(3)}", "gpu_serial:0000:4d:00=165092")
    other = source("other.log", f"gpu_uuid:0000:4d:00={UUID.format(9)}")
    hosts = {"smi-L.txt": "n1", "kern.log": "n1", "other.log": "n2"}
    found = gpus_by_host([other, kernel, listed], hosts)
    assert found == {
        "n1": (Gpu("pci:0000:4d:00", "3", UUID.format(3), "165092"),),
        "n2": (Gpu("pci:0000:4d:00", "", UUID.format(9), ""),),
    }
    for name in ("gpu:3", f"gpu:{UUID.format(3)}", f"gpu:{UUID.format(3)[4:]}", "gpu:165092", "pci:0000:4d:00"):
        assert one_device(name, found["n1"]) == "pci:0000:4d:00"
    assert one_device("gpu:4", found["n1"]) == "gpu:4"  # nothing ties it to an address
    assert one_device("nic:mlx5_3", found["n1"]) == "nic:mlx5_3"
    assert gpus_by_host([listed, kernel], {}) == {}


def test_a_card_that_was_moved_has_no_address():
    before = source("a", f"gpu_uuid:0000:4d:00={UUID.format(3)}", "gpu_index:0000:4d:00=3")
    after = source("b", f"gpu_uuid:0000:5d:00={UUID.format(3)}", "gpu_index:0000:5d:00=4")
    found = gpus_by_host([before, after], {"a": "n1", "b": "n1"})["n1"]
    assert [(gpu.device, gpu.number, gpu.uuid) for gpu in found] == [
        ("pci:0000:4d:00", "3", ""),
        ("pci:0000:5d:00", "4", ""),
    ]
    assert one_device(f"gpu:{UUID.format(3)}", found) == f"gpu:{UUID.format(3)}"


@given(st.permutations([f"gpu_uuid:0000:{n}d:00={UUID.format(n)}" for n in range(4)] + ["gpu_index:0000:1d:00=1"]))
def test_the_order_of_facts_does_not_show(facts: list[str]):
    one = [source("a", *facts)]
    many = [source(str(n), fact) for n, fact in enumerate(facts)]
    hosts = {str(n): "n1" for n in range(len(facts))} | {"a": "n1"}
    assert gpus_by_host(one, hosts) == gpus_by_host(many, hosts)


SMI = """==============NVSMI LOG==============

Timestamp                                 : Sun May 17 09:20:00 2026
Driver Version                            : 550.54.15
Attached GPUs                             : 2

GPU 00000000:4D:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Serial Number                         : 1650924000001
    GPU UUID                              : {uuid}
    Minor Number                          : 3
"""
SACCT = (
    "JobID|State|Start|End|ExitCode|NodeList|NNodes|AllocTRES\n"
    "700|FAILED|2026-05-17T09:00:00|2026-05-17T09:13:30|1:0|kt-[1-2]|2|gres/gpu=16,node=2\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    files = {
        "sacct.txt": SACCT,
        "hosts/kt-2/kern.log": (
            "May 17 09:13:01 kt-2 kernel: NVRM: Xid (PCI:0000:4d:00): 79, pid=812, GPU has fallen off the bus.\n"
        ),
        "hosts/kt-2/nvidia-smi.txt": SMI.format(uuid=UUID.format(2)),
        "hosts/kt-1/nvidia-smi.txt": SMI.format(uuid=UUID.format(1)).replace("4000001", "4000009"),
        "slurm-700.out": (
            "kt-1:401:401 [1] NCCL INFO comm 0x55d0 rank 1 nranks 16 cudaDev 1 nvmlDev 3 busId 4d000 commId 0x7 - "
            "Init COMPLETE\n"
            "kt-2:402:402 [3] NCCL INFO comm 0x55d0 rank 11 nranks 16 cudaDev 3 nvmlDev 3 busId 4d000 commId 0x7 - "
            "Init COMPLETE\n"
            "2026-05-17 09:12:55 iteration 10/5000 loss 2.1\n"
            "2026-05-17 09:13:02 RuntimeError: CUDA error: unspecified launch failure\n"
        ),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_gpu_has_the_names_of_its_own_host_and_the_rank_that_ran_on_it(site: Path):
    result = diagnose([site], SETTINGS)
    (decision,) = (d for d in result.decisions if d.kind == "job_interruption")
    assert (decision.first_host, decision.first_gpu, decision.first_rank) == ("kt-2", 3, 11)
    assert (decision.gpu_uuid, decision.gpu_serial) == (UUID.format(2), "1650924000001")


def test_nvidia_smi_and_the_kernel_speak_of_one_device(site: Path):
    (site / "hosts/kt-2/smi-list.txt").write_text(f"GPU 3: NVIDIA H100 80GB HBM3 (UUID: {UUID.format(2)})\n")
    (site / "hosts/kt-2/health.prom").write_text(
        "# HELP DCGM_FI_DEV_ROW_REMAP_FAILURE Whether remapping of rows has failed\n"
        "# TYPE DCGM_FI_DEV_ROW_REMAP_FAILURE gauge\n"
        f'DCGM_FI_DEV_ROW_REMAP_FAILURE{{gpu="3",UUID="{UUID.format(2)}",Hostname="kt-2"}} 1 1779009150000\n'
    )
    result = diagnose([site], SETTINGS)
    events = [e for s in result.analysis.subjects for e in s.events if e.host == "kt-2" and e.family != "job"]
    assert {e.signal for e in events} >= {"xid.79"}
    assert len(events) >= 2
    assert {e.device for e in events} == {"pci:0000:4d:00"}
