"""Decoding of codes: order of evidence as far as one line goes, and the tables behind it."""

from __future__ import annotations

import pytest

from classifiers.api import Meaning
from classifiers.knowledge import load_ruleset, tables

RULES = load_ruleset()


def meaning(text: str, family: str = "kernel") -> Meaning:
    """What the most specific rule says of a line."""
    found = RULES.match(text, family)
    assert found, text
    rule, fields = found[0]
    return RULES.meaning(rule.id, fields)


def xid(number: int, text: str = "", pid: str = "pid=1234, name=python3, ") -> Meaning:
    return meaning(f"NVRM: Xid (PCI:0000:4D:00): {number}, {pid}{text}")


def test_device_has_one_spelling() -> None:
    assert xid(79, "GPU has fallen off the bus.").device == "pci:0000:4d:00"
    assert meaning("NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.").device == "pci:0000:29:00"
    assert meaning("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.").device == "pci:0000:03:00"


def test_back_pointer_of_xid_45() -> None:
    named = xid(45, "Ch 00000012 caused by previous Xid 149")
    assert (named.signal, named.component, named.back) == ("xid.45", "symptom_only", "xid.149")
    assert xid(45, "Ch 00000012").back is None


@pytest.mark.parametrize(
    ("number", "text", "component"),
    [
        (48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0x2b "
             "partition 9, subpartition 1.", "gpu.hbm"),
        (48, "An uncorrectable double bit error (DBE) has been detected on GPU in the L2 cache.", "gpu.sram"),
        (171, "HBM, Uncorrectable DRAM error in FBPA 3 subpartition 0", "gpu.hbm"),
        (172, "GSP-RISCV, Uncorrectable SRAM error", "gpu.sram"),
        (63, "Row Remapper: New row (0x1a) marked for remapping, reset gpu to activate.", "gpu.hbm"),
        (64, "Dynamic Page Retirement: Blacklisting failed.", "gpu.hbm"),
        (140, "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:0, LTC:1, MMU:0, PCIE:0",
         "gpu.sram"),
        (140, "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:2, LTC:0, MMU:0, PCIE:0",
         "gpu.hbm"),
        (140, "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:0, LTC:0, MMU:0, PCIE:1",
         "host.pcie"),
        (119, "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
         "gpu.gsp"),
        (13, "Graphics SM Warp Exception on (GPC 10, TPC 1, SM 1): Out Of Range Address", "software.bug"),
        (31, "Ch 00000010, intr 00000000. MMU Fault: ENGINE CE2 HUBCLIENT_CE0 faulted @ 0x7f29_5b8c9000.",
         "software.bug"),
        (43, "Ch 00000008", "software.bug"),
        (137, "NVLink: x", "software.bug"),
        (32, "Channel ID 1 intr 2", "host.pcie"),
        (121, "C2C", "informational"),
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "symptom_only"),
    ],
)  # fmt: skip
def test_xid_component(number: int, text: str, component: str) -> None:
    said = xid(number, text)
    assert said.component == component
    assert said.signal == said.cause == f"xid.{number}"


@pytest.mark.parametrize("number", [13, 31, 43])
def test_software_xids_keep_the_gpu_as_alternative(number: int) -> None:
    assert xid(number, "Ch 00000008").alt == "gpu.device"


def test_unit_of_94_is_weak_evidence() -> None:
    said = xid(94, "Contained: SM (0x1). RST: No, D-RST: No")
    assert (said.component, said.alt) == ("gpu.sram", "gpu.hbm")
    assert "weak_unit" in said.tags
    assert xid(95, "Uncontained: FB DED (0x2). RST: Yes").component == "gpu.hbm"
    assert "weak_unit" not in xid(94, "Ch 00000008").tags


def test_recovery_action_is_taken_from_154() -> None:
    line = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    assert xid(154, line, pid="").action == "reboot_host"
    assert xid(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", pid="").action == "none"


def nvlink5(number: int, unit: str, severity: str, first: int, status: int = 0, inject: int = 0) -> Meaning:
    words = " ".join(f"0x{w:08x}" for w in (first, status, 0, 0, 0, 0))
    return meaning(f"NVRM: Xid (PCI:0008:01:00): {number}, {unit}  {severity}   XC0 i{inject} Link 05 ({words})")


@pytest.mark.parametrize("reason", [0x20, 0x21, 0x22, 0x24, 0x25, 0x15])
def test_reasons_of_149_that_point_to_the_peer(reason: int) -> None:
    said = nvlink5(149, "NETIR_LINK_EVT", "Fatal", reason << 20)
    assert said.component == "gpu.nvlink"
    assert said.role == "symptom"
    assert "peer" in said.tags


def test_other_reasons_of_149() -> None:
    assert nvlink5(149, "NETIR_LINK_EVT", "Fatal", 0x00 << 20).component == "symptom_only"
    assert nvlink5(149, "NETIR_LINK_EVT", "Fatal", 0x04 << 20).role == "cause"
    assert nvlink5(149, "NETIR_LINK_EVT", "Fatal", 0x23 << 20).component == "gpu.thermal"
    assert nvlink5(149, "NETIR_LINK_EVT", "Fatal", 0x0F << 20).component == "software.bug"
    cable = nvlink5(149, "NETIR_LINK_EVT", "Fatal", 0x2A << 20)
    assert (cable.component, cable.alt) == ("gpu.nvlink", "net.fabric")


def test_severity_of_nvlink5_decides() -> None:
    assert nvlink5(144, "SAW_MVB", "Fatal", 0, 0x2).action == "reset_gpu"
    mild = nvlink5(144, "SAW_MVB", "Nonfatal", 0, 0x1)
    assert (mild.role, mild.action, mild.fatal) == ("symptom", "none", "n")
    assert nvlink5(144, "SAW_MVB", "Fatal", 0, 0x2, inject=1).component == "informational"


def test_bits_of_xid_74() -> None:
    def link(*words: int) -> Meaning:
        listed = ", ".join(f"0x{w:x}" for w in words)
        return xid(74, f"NVLink: fatal error detected on link 3({listed})")

    assert link(1 << 4, 0, 0, 0, 0, 0, 0).component == "gpu.nvlink"
    assert link(1 << 1, 0, 0, 0, 0, 0, 0).component == "symptom_only"
    assert link(1 << 0, 0, 0, 0, 0, 0, 0).component == "informational"
    assert link(1 << 1, 0, 1 << 0, 0, 0, 0, 0).component == "gpu.nvlink"
    assert link(0, 0, 0, 0, 0, 0, 0).component == "gpu.nvlink"


def test_unknown_codes_are_honest() -> None:
    said = xid(999, "something new")
    assert (said.signal, said.role, said.maturity) == ("xid.999", "unknown", "incubating")
    assert "not in" in said.meaning


def sxid(number: int, severity: str) -> Meaning:
    return meaning(f"nvidia-nvswitch1: SXid (PCI:0000:84:00.0): {number}, {severity}, Link 28 something")


def test_severity_word_of_an_sxid_overrides_the_table() -> None:
    fatal = sxid(12028, "Fatal")
    assert (fatal.signal, fatal.component, fatal.fatal, fatal.severity) == ("sxid.12028", "gpu.nvlink", "y", "critical")
    assert sxid(12028, "Non-fatal").fatal == "n"
    assert sxid(11013, "Non-fatal").severity == "warning"
    assert sxid(10002, "Fatal").role == "cause"
    assert sxid(20034, "Fatal").role == "either"  # a dead peer brings it about
    assert sxid(99999, "Fatal").severity == "critical"


@pytest.mark.parametrize(
    ("line", "signal", "component"),
    [
        ("srun: error: node017: task 17: Exited with exit code 1", "exit.1", "by_log"),
        ("srun: error: node017: task 17: Killed", "exit.137", "by_log"),
        ("srun: error: node017: task 3: Segmentation fault (core dumped)", "exit.139", "software.bug"),
        ("srun: error: node017: task 3: Out Of Memory", "exit.137", "software.bug"),
        ("  exitcode  : -9 (pid: 88231)", "exit.137", "by_log"),
        ("  exitcode  : -15 (pid: 88231)", "exit.143", "symptom_only"),
        ("  traceback : Signal 7 (SIGBUS) received by PID 88231", "exit.135", "by_log"),
        ("x failed (exitcode: -6) local_rank: 3 (pid: 88231) of binary: /usr/bin/python3", "exit.134", "by_log"),
        ("slurm_script: line 46: 88231 Killed                  python3 train.py", "exit.137", "by_log"),
        ("[launch.py:325:sigkill_handler] ['python3', 'train.py'] exits with return code = -9", "exit.137", "by_log"),
        ("process exited with exit code 17", "exit.17", "gpu.sdc"),
        ("process exited with exit code 77", "exit.77", "by_log"),
    ],
)
def test_exit_codes(line: str, signal: str, component: str) -> None:
    said = meaning(line, "job")
    assert (said.signal, said.component) == (signal, component)
    assert "exit_code" in said.tags


def test_killed_needs_a_confirmed_oom() -> None:
    """137 alone is never a cause."""
    assert meaning("srun: error: node017: task 17: Killed", "job").role == "symptom"
    assert meaning("srun: error: node017: task 3: Out Of Memory", "job").role == "cause"


@pytest.mark.parametrize(
    ("status", "component", "role"),
    [(12, "net.fabric", "either"), (5, "symptom_only", "symptom"), (10, "symptom_only", "symptom"),
     (4, "host.pcie", "either"), (19, "net.nic", "either")],
)  # fmt: skip
def test_rdma_status(status: int, component: str, role: str) -> None:
    new = f"h:1:2 [3] NCCL WARN NET/IB: Got completion from peer 10.1.2.3<4> with status=IBV_WC_X({status}) opcode=X(0)"
    old = f"h:1:2 [3] NCCL WARN NET/IB : Got completion from peer 10.1.2.3<45678> with error {status}, opcode 0, len 0"
    for line in (new, old):
        said = meaning(line, "job")
        assert (said.signal, said.component, said.role) == (f"nccl.ib_completion.{status}", component, role)


def test_nic_is_the_device_of_an_rdma_error() -> None:
    line = "h:1:2 [3] NCCL WARN NET/IB : Got completion from peer 10.1.2.3<4> with status=12 opcode=0 len=0 hca mlx5_4"
    assert meaning(line, "job").device == "nic:mlx5_4"


@pytest.mark.parametrize(
    ("text", "component", "role"),
    [("Got non-fatal async event: port error(10)", "net.fabric", "cause"),
     ("Got async event : port error", "net.fabric", "cause"),
     ("Got async event : port active", "informational", "symptom"),
     ("async fatal event on QP x: local catastrophic error", "net.nic", "cause")],
)  # fmt: skip
def test_nic_events(text: str, component: str, role: str) -> None:
    said = meaning(f"node017:1:2 [0] NCCL WARN NET/IB : mlx5_4:1 {text}", "job")
    assert (said.component, said.role, said.device) == (component, role, "nic:mlx5_4")


@pytest.mark.parametrize(
    ("line", "cause", "component"),
    [
        ("h:1:2 [3] enqueue.cc:1402 NCCL WARN Cuda failure 719 'unspecified launch failure'", "cuda_launch_failure",
         "software.bug"),
        ("h:1:2 [3] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'", "cuda_ecc", "gpu.hbm"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cuda_oom",
         "software.bug"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "library_execution_failed", "software.bug"),
        ("cuda runtime error (710) : device-side assert triggered at x.cu:12", "cuda_assert", "software.bug"),
    ],
)  # fmt: skip
def test_cuda_errors(line: str, cause: str, component: str) -> None:
    found = {RULES.meaning(r.id, f).cause: RULES.meaning(r.id, f).component for r, f in RULES.match(line, "job")}
    assert found.get(cause) == component


def test_nested_text_is_the_evidence() -> None:
    line = (
        "[rank3]:[E303 04:22:21 ProcessGroupNCCL.cpp:2057] [PG ID 0 Rank 3] Process group watchdog thread terminated "
        "with exception: CUDA error: uncorrectable ECC error encountered"
    )
    said = [RULES.meaning(r.id, f) for r, f in RULES.match(line, "job")]
    assert {m.component for m in said} == {"gpu.hbm"}
    assert meaning("  what():  shard 12 is torn", "job").component == "by_log"


def test_watchdog_is_named_and_carries_the_collective() -> None:
    line = (
        "[rank3]:[E303 04:22:21.4 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=78, OpType=ALLREDUCE, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600087 "
        "milliseconds before timing out."
    )
    (rule, fields), *_ = RULES.match(line, "job")
    assert rule.signal == "nccl_watchdog_timeout"
    assert (fields["seq"], fields["op"], fields["ran"]) == ("78", "ALLREDUCE", "600087")
    assert RULES.meaning(rule.id, fields).component == "unknown.nccl_timeout"


def test_corrected_errors_are_marked() -> None:
    bus = "pcieport 0000:3a:01.0: PCIe Bus Error: severity={}, type=Transaction Layer, (Requester ID)"
    mild, bad = meaning(bus.format("Corrected")), meaning(bus.format("Uncorrected (Fatal)"))
    assert "corrected" in mild.tags
    assert mild.fatal == "n"
    assert (bad.severity, bad.role, bad.fatal, bad.signal) == ("critical", "cause", "y", "pcie.aer_bus_error")
    assert meaning("{1}[Hardware Error]:   section_type: memory error").component == "host.memory"


def test_tables_are_whole() -> None:
    assert len(tables.xids()) == 177
    assert len(tables.sxids()) == 414
    assert len(tables.nvlink5()) == 34
    assert len(tables.ib_statuses()) == 22
    assert len(tables.scheduler_rows()) == 207
    assert len(tables.link_bits()) == 14


def test_slurm_words() -> None:
    for word in ("NODE_FAIL", "NF", "node_fail"):
        row = tables.slurm_state(word)
        assert row is not None
        assert row.component == "host_unknown"
    cut = tables.slurm_state("OUT_OF_ME+")
    assert cut is not None
    assert cut.name == "OUT_OF_MEMORY"
    by = tables.slurm_state("CANCELLED by 1002")
    assert by is not None
    assert by.component == "scheduler.cancelled"
    assert tables.slurm_state("NO_SUCH") is None
    down = tables.node_state("DOWN*")
    assert down is not None
    assert down.planned == "unplanned"
    flag = tables.node_state("NOT_RESPONDING")
    assert flag is not None
    reason = tables.slurm_reason("NodeDown")
    assert reason is not None
    assert tables.slurm_exits()["0:125"].component == "software.bug"


@pytest.mark.parametrize(
    ("text", "component", "fields"),
    [
        ("gres/gpu count reported lower than configured (7 < 8)", "gpu.device", {"g": "gpu", "have": "7", "want": "8"}),
        ("Not responding", "host_unknown", {}),
        ("XID 79 on gpu3, ticket 1234", "by_xid", {"x": "79"}),
        ("RMA gpu5, ticket 8812", "maintenance.unplanned", {}),
    ],
)
def test_drain_reasons(text: str, component: str, fields: dict[str, str]) -> None:
    found = tables.drain_reason(text)
    assert found is not None
    assert (found[0].component, found[1]) == (component, fields)


def test_k8s_words() -> None:
    row = tables.k8s_word("container_reason", "OOMKilled")
    assert row is not None
    assert row.component == "software.bug"
    evicted = tables.k8s_word("pod_reason", "PreemptionByScheduler")
    assert evicted is not None
    assert evicted.component == "scheduler.preempted"
    assert tables.k8s_word("event_reason", "Nothing") is None
