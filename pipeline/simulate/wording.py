"""How each cause reads in the logs: several variants a cause, in the formats of drivers, NCCL, PyTorch and Slurm.

Formats follow the knowledge tables' patterns (so that a rule may read them), the words and numbers are drawn here.
No text names a component of the taxonomy or says what the truth is (`check` holds that).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pipeline.simulate.other_wording import OTHER_STORIES
from pipeline.simulate.plan import Attempt
from pipeline.simulate.scene import PCI, Line, Scene, Story
from pipeline.simulate.settings import SimSettings


def _cuda(s: Scene, dt: float, words: str) -> list[Line]:
    """A rank's Python traceback that ends in a CUDA error."""
    where = s.pick("forward_step", "backward_step", "optimizer_step", "all_gather_params")
    return [
        s.job(dt, "Traceback (most recent call last):"),
        s.job(
            dt,
            f'  File "/opt/train/{s.pick("loop", "trainer", "engine")}.py", line {int(s.rng.integers(80, 900))}, in {where}',
        ),
        s.job(dt, f"RuntimeError: CUDA error: {words}"),
    ]


def _gpu_device(s: Scene) -> Sequence[Line]:
    lost = [s.xid(0, 79, "GPU has fallen off the bus.")]
    if s.rng.random() < 0.5:
        lost.append(s.kern(0.02, f"NVRM: GPU {s.bdf}.0: GPU has fallen off the bus."))
    if s.rng.random() < 0.5:
        lost.append(s.xid(0.3, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"))
    return [
        *lost,
        *_cuda(s, 1.2, s.pick("unspecified launch failure", "unknown error", "no CUDA-capable device is detected")),
    ]


def _gpu_device_halt(s: Scene) -> Sequence[Line]:
    words = " ".join(s.hex(8) for _ in range(8))
    return [s.xid(0, 62, words, process=False), s.xid(0.4, 45, f"Ch {int(s.rng.integers(1, 60)):08x}"),
            *_cuda(s, 2.0, "unspecified launch failure")]  # fmt: skip


def _nvlink(s: Scene) -> Sequence[Line]:
    link = int(s.rng.integers(0, 18))
    kind = int(s.rng.integers(0, 3))
    if kind == 0:
        first = [
            s.xid(0, 74, f"NVLink: fatal error detected on link {link}(0x{s.hex(5)}, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)")
        ]
    elif kind == 1:
        switch = int(s.rng.integers(0, 4))
        base = f"nvidia-nvswitch{switch}: SXid (PCI:0000:{int(s.rng.integers(1, 9)):02x}:00.0): 12028,"
        first = [s.kern(0, f"{base} Fatal, Link {link} egress non-posted PRIV error"),
                 s.kern(0.001, f"{base} Severity 1 Engine instance {link} Sub-engine instance 00")]  # fmt: skip
    else:
        first = [s.xid(0, 74, f"NVLink: fatal error detected on link {link}(0x0, 0x0, 0x{s.hex(5)}, 0x0, 0x0, 0x0, 0x0)"),
                 s.xid(0.2, 45, f"Ch {int(s.rng.integers(1, 60)):08x}")]  # fmt: skip
    return [
        *first,
        *_cuda(
            s, 1.5, s.pick("uncorrectable NVLink error detected during the execution", "unspecified launch failure")
        ),
    ]


def _hbm(s: Scene) -> Sequence[Line]:
    part, sub = int(s.rng.integers(0, 12)), int(s.rng.integers(0, 2))
    lines = [
        s.xid(0, 48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer "
              f"at physAddr 0x{s.hex(9)} partition {part}, subpartition {sub}.", process=False),
    ]  # fmt: skip
    if s.rng.random() < 0.7:
        lines.append(
            s.xid(
                0.03, 63, f"Row Remapper: New row (0x{s.hex(16)}) marked for remapping, reset gpu to activate.", False
            )
        )
    else:
        lines.append(s.xid(0.03, 64, "Row Remapper: Failed to mark row for remapping.", False))
    if s.rng.random() < 0.6:
        lines.append(
            s.xid(
                0.06,
                94,
                f"Contained: {s.pick('FB DED', 'CE User Channel')} (0x{int(s.rng.integers(1, 64)):x}). RST: No, D-RST: No",
            )
        )
    return [*lines, *_cuda(s, 0.8, "uncorrectable ECC error encountered")]


def _sram(s: Scene) -> Sequence[Line]:
    unit = s.pick("SM", "L1", "L2")
    where = s.xid(0, 48, f"An uncorrectable double bit error (DBE) has been detected on GPU in the {unit}.", False)
    after = s.xid(
        0.05, int(s.pick("94", "95")), f"{s.pick('Contained', 'Uncontained')}: {unit} (0x1). RST: No, D-RST: No"
    )
    return [where, after, *_cuda(s, 0.9, "uncorrectable ECC error encountered")]


def _gsp(s: Scene) -> Sequence[Line]:
    func = s.pick("76 (GSP_RM_CONTROL) (0x20800a4c 0x4)", "103 (GSP_RM_ALLOC) (0x2080 0x4)", "10 (FREE)")
    code = int(s.pick("119", "119", "120"))
    if code == 119:
        first = [s.xid(45.0 * i, 119, f"Timeout after {6 if i == 0 else 45}s of waiting for RPC response from GPU{s.gpu} GSP! Expected function {func}.")
                 for i in range(int(s.rng.integers(1, 4)))]  # fmt: skip
    else:
        first = [
            s.xid(
                0,
                120,
                f"GSP task exception: {s.pick('invalid instruction', 'load access fault')} (cause:0x{s.hex(1)}) @ pc:0x{s.hex(7)}",
                False,
            )
        ]
    return [*first, *_cuda(s, 8.0, s.pick("unspecified launch failure", "unknown error"))]


def _thermal(s: Scene) -> Sequence[Line]:
    return [
        s.kern(
            -90,
            f"nv-hostengine: Detected clocks event due to thermal violation in GPU {s.gpu}. Verify that the cooling on this machine is functional",
            "warning",
        ),
        s.xid(0, 79, "GPU has fallen off the bus."),
        *_cuda(s, 1.0, "unspecified launch failure"),
    ]


def _sdc(s: Scene) -> Sequence[Line]:
    it = int(s.rng.integers(1000, 90000))
    return [
        s.job(0, f"Possible persistent error!: Unexpected result {s.pick('nan', 'inf')} on rank {s.rank} at iteration #{it} "
              f"invocation #1 (message='{s.pick('found NaN in local forward loss calculation', 'mismatch on re-run of the step')}')"),
        s.job(0.5, f"RuntimeError: rank {s.rank}: result validation failed, aborting"),
    ]  # fmt: skip


def _fabric(s: Scene) -> Sequence[Line]:
    """A leaf loses ports: several hosts see theirs go down and come back; retries run out."""
    n = min(s.settings.hosts_per_leaf, s.settings.hosts - s.host, 6)
    dev = int(s.rng.integers(0, 8))
    out: list[Line] = [Line(0, "switch", s.host // s.settings.hosts_per_leaf,
                            f"%{s.pick('LINEPROTO-5-UPDOWN: Line protocol on Interface', 'ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface')} "
                            f"Ethernet1/{int(s.rng.integers(1, 33))}, changed state to down")]  # fmt: skip
    for i in range(max(n, 1)):
        for k in range(int(s.rng.integers(2, 4))):
            out.append(
                Line(
                    0.2 + 3.0 * k + 0.01 * i,
                    "kern",
                    s.host + i,
                    f"mlx5_core 0000:{PCI[dev]}:00.0 mlx5_{dev}: Port: 1 Link DOWN",
                    None,
                    "info",
                )
            )
            out.append(Line(1.4 + 3.0 * k + 0.01 * i, "kern", s.host + i,
                            f"mlx5_core 0000:{PCI[dev]}:00.0 mlx5_{dev}: Port: 1 Link ACTIVE", None, "info"))  # fmt: skip
        out.append(Line(7 + 0.1 * i, "job", s.host + i,
                        f"{s.name(s.host + i)}:{s.pid}:{s.pid + 40} [{dev}] NCCL WARN NET/IB : Got completion from peer 10.4.{i}.{dev + 9}<{40000 + i}> "
                        f"with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129  hca mlx5_{dev}",
                        (s.host + i) * s.settings.gpus_per_host + dev))  # fmt: skip
    return [*out, *_watchdog(s, s.settings.watchdog_s + 0.1)]


def _nic(s: Scene) -> Sequence[Line]:
    dev = int(s.rng.integers(0, 8))
    bus = f"mlx5_core 0000:{PCI[dev]}:00.0"
    first = [
        [s.kern(0, f"{bus}: {s.pick('mlx5_health_check_fatal_sensors', 'poll_health')}:{int(s.rng.integers(700, 900))}:(pid 0): Fatal error 1 detected", "crit"),
         s.kern(0.1, f"{bus}: print_health_info:{int(s.rng.integers(380, 440))}:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:")],
        [s.kern(0, f"{bus}: mlx5_cmd_check:{int(s.rng.integers(700, 850))}:(pid {s.pid}): ACCESS_REG(0x805) op_mod(0x1) failed, status bad system state(0x4)"),
         s.kern(0.4, f"{bus}: mlx5_error_sw_reset:{int(s.rng.integers(200, 260))}:(pid {s.pid}): start")],
    ][int(s.rng.integers(0, 2))]  # fmt: skip
    wait = s.job(2, f"{s.name(s.host)}:{s.pid}:{s.pid + 51} [{dev}] NCCL WARN NET/IB : mlx5_{dev}:1 Got non-fatal async event: "
                 f"{s.pick('local catastrophic error', 'device fatal')}({int(s.rng.integers(8, 9))})")  # fmt: skip
    return [*first, wait]


def _watchdog(s: Scene, dt: float) -> list[Line]:
    """The time-out as the other ranks see it."""
    seq, ms = int(s.rng.integers(2000, 900000)), int(s.settings.watchdog_s * 1000)
    n = min(4, s.settings.hosts * s.settings.gpus_per_host - 1)
    ranks = sorted({int(r) for r in s.rng.integers(0, s.settings.hosts * s.settings.gpus_per_host, n + 1)})[: max(n, 1)]
    return [
        Line(dt + 0.01 * i, "job", r // s.settings.gpus_per_host,
             f"[Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn={1 << 20}, "
             f"NumelOut={1 << 20}, Timeout(ms)={ms}) ran for {ms + int(s.rng.integers(20, 900))} milliseconds before timing out.", r)
        for i, r in enumerate(ranks)
    ]  # fmt: skip


def _timeout_only(s: Scene) -> Sequence[Line]:
    return _watchdog(s, s.settings.watchdog_s + 0.1)


def _nothing(_: Scene) -> Sequence[Line]:
    return []


def _software(s: Scene) -> Sequence[Line]:
    kind = int(s.rng.integers(0, 5))
    if kind == 0:
        last = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {int(s.rng.integers(1, 30))}.{int(s.rng.integers(10, 99))} GiB. GPU {s.gpu} has a total capacity of 79.11 GiB of which {int(s.rng.integers(100, 900))}.50 MiB is free."
    elif kind == 1:
        last = f"ValueError: {s.pick('sequence', 'sample', 'document')} {int(s.rng.integers(1, 10**7))} has {int(s.rng.integers(8193, 20000))} tokens, the model takes 8192"
    elif kind == 2:
        last = f"KeyError: '{s.pick('loss_mask', 'position_ids', 'router_bias', 'doc_ids')}'"
    elif kind == 3:
        last = f"AssertionError: {s.pick('micro batch', 'sequence length', 'hidden size')} {int(s.rng.integers(3, 99))} is not divisible by {int(s.rng.integers(2, 16))}"
    else:
        last = f"FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus/part-{int(s.rng.integers(0, 99999)):05d}.bin'"
    return [
        s.job(0, "Traceback (most recent call last):"),
        s.job(0, f'  File "/opt/train/{s.pick("data", "model", "loop")}.py", line {int(s.rng.integers(20, 700))}, in {s.pick("collate", "forward", "step", "main")}'),
        s.job(0, last),
    ]  # fmt: skip


def _maintenance(s: Scene) -> Sequence[Line]:
    host = s.name(s.host)
    why = s.pick("operator request", "optic cleaning", "board swap", "vendor visit")
    return [
        Line(-1.0, "ctld", s.host, f"update_node: node {host} reason set to: {why} {int(s.rng.integers(1000, 9999))}"),
        Line(-0.9, "ctld", s.host, f"update_node: node {host} state set to DOWN"),
    ]


def _power(s: Scene) -> Sequence[Line]:
    return [
        Line(0, "sel", s.host, f"Power Supply PS{int(s.rng.integers(1, 5))} | Power Supply AC lost | Asserted"),
        Line(0.5, "sel", s.host, "Power Unit Pwr Unit Status | Power off/down | Asserted"),
        *_boot(s, s.delay + 240),
    ]


def _chassis(s: Scene) -> Sequence[Line]:
    fan = int(s.rng.integers(1, 9))
    return [
        Line(-30, "sel", s.host, f"Fan FAN{fan} | Lower Non-recoverable going low | Asserted"),
        Line(0, "sel", s.host, "Temperature Inlet Temp | Upper Critical going high | Asserted"),
        s.kern(0.4, "ipmi_si: system board sensor reports non-recoverable state", "crit"),
    ]


def _boot(s: Scene, dt: float) -> list[Line]:
    return [
        s.kern(dt, f"Linux version 5.15.0-{int(s.rng.integers(80, 130))}-generic (buildd@lab) (gcc 11.4.0)", "notice"),
        s.kern(dt + 0.01, "Command line: BOOT_IMAGE=/boot/vmlinuz ro console=ttyS0", "info"),
    ]


def _os(s: Scene) -> Sequence[Line]:
    if s.rng.random() < 0.5:
        return [s.kern(0, f"Kernel panic - not syncing: {s.pick('Fatal exception in interrupt', 'hung_task: blocked tasks', 'softlockup: hung tasks')}", "emerg"),
                *_boot(s, s.delay + 260)]  # fmt: skip
    return _boot(s, s.delay + 200)


def _cpu(s: Scene) -> Sequence[Line]:
    cpu, bank = int(s.rng.integers(0, 96)), int(s.rng.integers(0, 12))
    return [
        s.kern(0, f"mce: [Hardware Error]: CPU {cpu}: Machine Check Exception: 5 Bank {bank}: {s.hex(16)}", "emerg"),
        s.kern(
            0.001,
            f"mce: [Hardware Error]: PROCESSOR 0:{s.hex(5)} TIME 17{s.hex(6)} SOCKET {cpu // 48} APIC {cpu:x}",
            "emerg",
        ),
        s.kern(0.002, "Kernel panic - not syncing: Fatal machine check", "emerg"),
        *_boot(s, s.delay + 260),
    ]


def _memory(s: Scene) -> Sequence[Line]:
    return [
        s.kern(0, f"EDAC MC{int(s.rng.integers(0, 4))}: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x{s.hex(7)} offset:0x0 grain:32)", "emerg"),
        s.kern(0.02, f"Memory failure: 0x{s.hex(7)}: Killing python:{s.pid} due to hardware memory corruption", "err"),
    ]  # fmt: skip


def _ssd(s: Scene) -> Sequence[Line]:
    d = int(s.rng.integers(0, 8))
    return [
        s.kern(0, f"nvme nvme{d}: I/O {int(s.rng.integers(0, 900))} QID {int(s.rng.integers(1, 32))} timeout, reset controller", "warning"),
        s.kern(20, f"nvme nvme{d}: Device not ready; aborting reset, CSTS=0x1", "err"),
        s.kern(20.1, f"blk_update_request: I/O error, dev nvme{d}n1, sector {int(s.rng.integers(10**6, 10**9))} op 0x1:(WRITE)", "err"),
        s.job(21, f"OSError: [Errno 5] Input/output error: '/local_nvme/cache/shard_{int(s.rng.integers(0, 9999)):04d}.bin'"),
    ]  # fmt: skip


def _ioboard(s: Scene) -> Sequence[Line]:
    port = f"pcieport 0000:{PCI[s.gpu % 4][0]}0:01.0"
    other = Scene(s.host, (s.gpu + 1) % s.settings.gpus_per_host, s.rank, s.pid, s.rng, s.settings, s.delay, s.name)
    return [
        s.kern(-0.5, f"{port}: AER: Uncorrectable (Fatal) error message received from 0000:{s.hex(2)}:00.0"),
        s.kern(-0.4, f"{port}: DPC: containment event, status:0x{s.hex(4)} source:0x{s.hex(4)}"),
        s.xid(0, 79, "GPU has fallen off the bus."),
        other.xid(0.1, 79, "GPU has fallen off the bus."),
        *_cuda(s, 1.0, "unknown error"),
    ]


def _pcie(s: Scene) -> Sequence[Line]:
    port = f"pcieport 0000:{s.hex(1)}0:01.0"
    return [
        s.kern(-2, f"{port}: AER: Uncorrectable (Fatal) error message received from {s.bdf}.0"),
        s.kern(-1.9, f"{port}: DPC: containment event, status:0x{s.hex(4)} source:0x{s.hex(4)}"),
        s.xid(0, 79, "GPU has fallen off the bus."),
        *_cuda(s, 1.0, s.pick("unknown error", "unspecified launch failure")),
    ]


def _dependency(s: Scene) -> Sequence[Line]:
    if s.rng.random() < 0.5:
        return [
            s.kern(
                -20, f"nfs: server store-{int(s.rng.integers(1, 9))}.ridge.example not responding, timed out", "warning"
            ),
            s.job(0, f"OSError: [Errno 116] Stale file handle: '/shared/ckpt/step_{int(s.rng.integers(100, 99999))}'"),
        ]
    return [
        s.job(0, f"botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: \"https://objects.ridge.example/ckpt/{int(s.rng.integers(0, 999))}\""),
    ]  # fmt: skip


def _weak_gpu(s: Scene) -> Sequence[Line]:
    """A GPU that computes wrong addresses now and then: each time it reads as if the program had."""
    if s.rng.random() < 0.6:
        first = [s.xid(0, 31, f"Ch {int(s.rng.integers(1, 60)):08x}, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_{int(s.rng.integers(0, 6))} "
                       f"faulted @ 0x7f{s.hex(2)}_{s.hex(8)}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ")]  # fmt: skip
    else:
        first = [s.xid(0, 13, f"Graphics SM Warp Exception on (GPC {int(s.rng.integers(0, 8))}, TPC {int(s.rng.integers(0, 9))}, SM {int(s.rng.integers(0, 2))}): Out Of Range Address"),
                 s.xid(0.2, 43, f"Ch {int(s.rng.integers(1, 60)):08x}")]  # fmt: skip
    return [*first, *_cuda(s, 0.6, "an illegal memory access was encountered")]


STORIES: dict[str, tuple[Story, ...]] = {
    "gpu.device": (_gpu_device, _gpu_device, _gpu_device_halt),
    "gpu.nvlink": (_nvlink,),
    "gpu.hbm": (_hbm,),
    "gpu.sram": (_sram,),
    "gpu.gsp": (_gsp,),
    "gpu.thermal": (_thermal,),
    "gpu.sdc": (_sdc,),
    "net.fabric": (_fabric,),
    "net.nic": (_nic,),
    "unknown.nccl_timeout": (_timeout_only,),
    "unknown": (_nothing,),
    "software.bug": (_software,),
    "maintenance.unplanned": (_maintenance,),
    "host.power": (_power,),
    "host.chassis": (_chassis,),
    "host.os": (_os,),
    "host.cpu": (_cpu,),
    "host.memory": (_memory,),
    "host.ssd": (_ssd,),
    "host.ioboard": (_ioboard,),
    "host.pcie": (_pcie,),
    "dependency": (_dependency,),
}


def story(a: Attempt, s: SimSettings, name: Callable[[int], str]) -> list[Line]:
    """The lines of an attempt's fault, deterministic in the attempt; dt relative to the onset."""
    rng = np.random.default_rng([s.seed, a.job_id, a.attempt, a.variant])
    host, gpu = a.host if a.host is not None else int(rng.integers(0, s.hosts)), a.gpu or 0
    scene = Scene(
        host, gpu, host * s.gpus_per_host + gpu, int(rng.integers(20_000, 900_000)), rng, s, a.stop_delay, name
    )
    options = (_weak_gpu,) if a.weak else (OTHER_STORIES if s.wording == "other" else STORIES)[a.component]
    return list(options[a.variant % len(options)](scene))


def mild(component: str, t_variant: int, s: SimSettings, host: int, gpu: int, name: Callable[[int], str]) -> list[Line]:
    """A fault that training survives: the same vocabulary, corrected or retried."""
    rng = np.random.default_rng([s.seed, host, gpu, t_variant])
    scene = Scene(host, gpu, host * s.gpus_per_host + gpu, int(rng.integers(20_000, 900_000)), rng, s, 0.0, name)
    dev = int(rng.integers(0, 8))
    return {
        "gpu.hbm": [scene.xid(0, 63, f"Row Remapper: New row (0x{scene.hex(16)}) marked for remapping, reset gpu to activate.", False)],
        "host.memory": [scene.kern(0, "EDAC MC1: 1 CE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x"
                                   f"{scene.hex(7)} offset:0x0 grain:32 syndrome:0x0)", "warning")],
        "host.pcie": [scene.kern(0, f"pcieport 0000:{scene.hex(1)}0:01.0: AER: Corrected error received: 0000:{PCI[gpu % 16]}:00.0", "warning")],
        "net.nic": [scene.kern(0, f"mlx5_core 0000:{PCI[dev]}:00.0: mlx5_pcie_event:{int(rng.integers(290, 330))}:(pid {scene.pid}): "
                               "Detected insufficient power on the PCIe slot (27W).", "warning")],
        "dependency": [scene.kern(0, "nfs: server store-2.ridge.example not responding, still trying", "warning"),
                       scene.kern(25, "nfs: server store-2.ridge.example OK", "info")],
    }[component]  # fmt: skip


def lethal(component: str, variant: int, s: SimSettings, host: int, gpu: int, name: Callable[[int], str]) -> list[Line]:
    """A real fault on a host where nothing of the main job runs."""
    rng = np.random.default_rng([s.seed, host, gpu, variant, 7])
    scene = Scene(host, gpu, 0, int(rng.integers(20_000, 900_000)), rng, s, 0.0, name)
    options = (OTHER_STORIES if s.wording == "other" else STORIES)[component]
    return [line for line in options[0](scene) if line.channel == "kern"]
