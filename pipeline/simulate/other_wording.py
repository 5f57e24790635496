"""The same causes as other versions word them: older and newer drivers, kernels, NCCL, PyTorch, other vendors' parts.

Written to be unlike `wording`, in forms that the programs really print; no rule and no corpus template was made from
these lines, so that a score on them says how far rules carry beyond the words they were written for. Where a form is
from stands at each story (file of the kernel or of the program, vendor's document).
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.simulate.other_job_words import cuda, number, software, watchdog
from pipeline.simulate.scene import PCI, Line, Scene, Story


def _old_xid(s: Scene, dt: float, code: int, rest: str) -> Line:
    """NVRM before 460: no process on the line."""
    return s.kern(dt, f"NVRM: Xid (PCI:{s.bdf}): {code}, {rest}")


def _lost_old_driver(s: Scene) -> Sequence[Line]:
    """NVRM 418 to 450 (osHandleGpuLost): board and serial beside an Xid without a process."""
    return [
        s.kern(-0.01, f"NVRM: GPU at PCI:{s.bdf}: GPU-{s.hex(8)}-{s.hex(4)}-{s.hex(4)}-{s.hex(4)}-{s.hex(12)}", "info"),
        _old_xid(s, 0, 79, "GPU has fallen off the bus."),
        s.kern(0.01, f"NVRM: GPU at {s.bdf}.0 has fallen off the bus."),
        s.kern(
            0.02,
            f"NVRM: A GPU crash dump has been created. If possible, please run nvidia-bug-report.sh as root to collect this data before the NVIDIA kernel module is unloaded. {s.hex(4)}",
        ),
        *cuda(s, 1.2, s.pick("unspecified launch failure", "unknown error"), 719),
    ]


def _lost_new_driver(s: Scene) -> Sequence[Line]:
    """NVRM 570 and later: recovery action without a process; a poller notices too."""
    return [
        s.xid(0, 79, "GPU has fallen off the bus.", process=False),
        _old_xid(s, 0.01, 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
        s.kern(4.0, f"nvidia-smi: Unable to determine the device handle for GPU{s.gpu}: {s.bdf}.0: Unknown Error"),
        *cuda(s, 1.4, "unknown error", 999),
    ]


def _halt_old(s: Scene) -> Sequence[Line]:
    """Xid 62 of drivers before 510: two counters and two words."""
    return [
        _old_xid(s, 0, 62, f"{s.hex(4)}({s.hex(4)}) 00000000 00000000"),
        _old_xid(s, 0.3, 45, f"Ch {number(s, 1, 60):08x}"),
        *cuda(s, 2.0, "unspecified launch failure", 719),
    ]


def _nvlink_old(s: Scene) -> Sequence[Line]:
    """Xid 74 as A100 drivers print it; the NVSwitch driver's own word for the link; fabric manager's log."""
    link = number(s, 0, 12)
    kind = number(s, 0, 3)
    if kind == 0:
        first = [
            _old_xid(
                s, 0, 74, f"NVLink: fatal error detected on link {link}(0x{s.hex(5)}, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
            )
        ]
    elif kind == 1:
        bus = f"PCI:0000:{number(s, 160, 200):02x}:00.0"
        first = [
            s.kern(0, f"nvidia-nvswitch{number(s, 0, 6)}: SXid ({bus}): 20034, Fatal, Link {link + 20} LTSSM Fault Up"),
            s.kern(0.1, f"nv-fabricmanager: detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:{s.hex(2)}:00.0 physical id {number(s, 8, 14)} port {link + 20}"),
        ]  # fmt: skip
    else:
        word = f"0x{int(s.pick('1', '2', '4', '10')):03x}505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000"
        first = [_old_xid(s, 0, 149, f"NETIR_LINK_EVT Fatal   XC0 i0 Link {link:02d} ({word})")]
    words = (
        "uncorrectable NVLink error detected during the execution"
        if s.rng.random() < 0.5
        else "unspecified launch failure"
    )
    return [*first, *cuda(s, 1.5, words, 220)]  # fmt: skip


def _hbm_retired(s: Scene) -> Sequence[Line]:
    """Before Ampere pages are retired instead of rows remapped (NVIDIA, dynamic page retirement)."""
    return [
        _old_xid(s, 0, 48, f"An Uncorrectable Double Bit Error (DBE) has been detected on GPU in the framebuffer at partition {number(s, 0, 12)}, subpartition {number(s, 0, 2)}."),
        _old_xid(s, 0.05, 63, f"Dynamic Page Retirement: New page retired, reboot to activate (0x{s.hex(16)})."),
        _old_xid(s, 0.07, 45, f"Ch {number(s, 1, 60):08x}"),
        *cuda(s, 0.8, "uncorrectable ECC error encountered", 214),
    ]  # fmt: skip


def _hbm_contained(s: Scene) -> Sequence[Line]:
    """R535 and later on H100: containment first, remapping of banks or its failure after it."""
    last = s.pick(f"63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x{s.hex(16)}) marked for remapping, reset gpu to activate.",
                  "64, pid='<unknown>', name=<unknown>, Row Remapper: Failed to remap row, no spare left.")  # fmt: skip
    return [
        s.xid(0, 94, f"Contained: FB DED (0x{number(s, 1, 64):x},0x{number(s, 0, 3):x}). RST: No, D-RST: No"),
        s.xid(0.02, 48, f"An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physAddr 0x{s.hex(9)} partition {number(s, 0, 12)}, subpartition {number(s, 0, 2)}.", False),
        s.kern(0.4, f"NVRM: Xid (PCI:{s.bdf}): {last}"),
        *cuda(s, 0.9, "uncorrectable ECC error encountered", 214),
    ]  # fmt: skip


def _sram_tag(s: Scene) -> Sequence[Line]:
    """Uncontained errors of the caches' own memories (Xid 95, A100 and H100)."""
    unit = s.pick("LTC TAG", "LTC DATA", "SM RF")
    return [
        s.xid(0, 48, f"An uncorrectable double bit error (DBE) has been detected on GPU in the {s.pick('LTC', 'SM')}.", False),
        s.xid(0.04, 95, f"Uncontained: {unit} (0x{number(s, 1, 9):x},0x0). RST: Yes, D-RST: No", False),
        *cuda(s, 0.9, "uncorrectable ECC error encountered", 214),
    ]  # fmt: skip


def _gsp_old(s: Scene) -> Sequence[Line]:
    """Drivers 510 to 525 (rpc.c): no seconds in the message; 120 by task."""
    if s.rng.random() < 0.6:
        first = [s.xid(45.0 * i, 119, f"Timeout waiting for RPC from GSP! Expected function {s.pick('76 (GSP_RM_CONTROL)', '103 (GSP_RM_ALLOC)')} (0x{s.hex(8)} 0x{s.hex(3)}).")
                 for i in range(number(s, 1, 3))]  # fmt: skip
    else:
        first = [s.xid(0, 120, f"GSP Error: Task {number(s, 1, 4)} raised error code 0x{s.hex(1)} for reason 0x0 at 0x{s.hex(7)} ({number(s, 0, 9)} more errors skipped)", False)]  # fmt: skip
    return [*first, *cuda(s, 8.0, "unspecified launch failure", 719)]


def _thermal_bmc(s: Scene) -> Sequence[Line]:
    """The BMC sees the heat of the GPU before the driver loses it."""
    return [
        Line(-100, "sel", s.host, f"Temperature GPU{s.gpu + 1} Temp | Upper Non-recoverable going high | Asserted"),
        _old_xid(s, 0, 79, "GPU has fallen off the bus."),
        *cuda(s, 1.0, "unspecified launch failure", 719),
    ]


def _sdc_rerun(s: Scene) -> Sequence[Line]:
    """Megatron Core's rerun state machine: the step is run again on the same and then on another GPU."""
    it = number(s, 1000, 90000)
    what = f"Unexpected result {s.pick('nan', 'inf')} on rank {s.rank} at iteration #{it} invocation #{number(s, 1, 9)}"
    return [
        s.job(0, f"{what} (message='Rank {s.rank}: found NaN in local grad norm for bucket #{number(s, 0, 30)} in backward pass before data-parallel communication collective')"),
        s.job(4, f"First rerun: unexpected result is reproducible within the tolerance (validation_result = nan) on rank {s.rank}"),
        s.job(60, "Second rerun: unexpected result is not reproducible on a different GPU, therefore was likely incorrect"),
        s.job(60.5, "Possible persistent error!: " + what),
    ]  # fmt: skip


def _fabric_roce(s: Scene) -> Sequence[Line]:
    """RoCE: the Ethernet side of the adapters (mlx5 en_main.c, bnxt_en) and another vendor's switch."""
    n = max(min(s.settings.hosts_per_leaf, s.settings.hosts - s.host, 6), 1)
    dev, broadcom = number(s, 0, 8), s.rng.random() < 0.3
    port = number(s, 1, 33)
    said = s.pick(
        f"mib2d[4821]: SNMP_TRAP_LINK_DOWN: ifIndex {500 + port}, ifAdminStatus up(1), ifOperStatus down(2), ifName et-0/0/{port}",
        f"switchd[2210]: swp{port}: Link Down",
    )
    out: list[Line] = [Line(0, "switch", s.host // s.settings.hosts_per_leaf, said)]
    for i in range(n):
        for k in range(number(s, 2, 4)):
            at = 0.2 + 3.0 * k + 0.01 * i
            if broadcom:
                bus = f"bnxt_en 0000:{PCI[dev]}:00.0 eth{dev}np0: NIC Link is"
                out += [Line(at, "kern", s.host + i, f"{bus} Down"),
                        Line(at + 1.2, "kern", s.host + i, f"{bus} Up, 400000 Mbps (PAM4 112) full duplex, Flow control: none", None, "info")]  # fmt: skip
            else:
                bus = f"mlx5_core 0000:{PCI[dev]}:00.0 eth{dev}np0:"
                out += [Line(at, "kern", s.host + i, f"{bus} Link down", None, "info"),
                        Line(at + 1.2, "kern", s.host + i, f"{bus} Link up", None, "info")]  # fmt: skip
        out.append(Line(7 + 0.1 * i, "job", s.host + i,
                        f"{s.name(s.host + i)}:{s.pid}:{s.pid + 40} [{dev}] transport/net_ib.cc:{number(s, 1100, 1300)} NCCL WARN NET/IB : Got completion from peer 10.8.{i}.{dev + 9}<{40000 + i}> "
                        "with error 12, opcode 0, len 0, vendor err 129",
                        (s.host + i) * s.settings.gpus_per_host + dev))  # fmt: skip
    return [*out, *watchdog(s, s.settings.watchdog_s + 0.1)]


def _nic_other(s: Scene) -> Sequence[Line]:
    """mlx5 health.c and cmd.c of other kernels; bnxt_en's firmware heartbeat."""
    dev = number(s, 0, 8)
    kind = number(s, 0, 3)
    if kind == 0:
        bus = f"mlx5_core 0000:{PCI[dev]}:00.0"
        first = [s.kern(0, f"{bus}: poll_health:{number(s, 780, 860)}:(pid 0): device's health compromised - reached miss count"),
                 s.kern(0.1, f"{bus}: print_health_info:{number(s, 420, 470)}:(pid 0): assert_var[0] 0x{s.hex(8)}")]  # fmt: skip
    elif kind == 1:
        bus = f"mlx5_core 0000:{PCI[dev]}:00.0"
        first = [s.kern(0, f"{bus}: wait_func:{number(s, 1100, 1200)}:(pid {s.pid}): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource"),
                 s.kern(0.4, f"{bus}: mlx5_health_try_recover:{number(s, 330, 400)}:(pid {s.pid}): health recovery flow aborted, PCI reads still not working")]  # fmt: skip
    else:
        bus = f"bnxt_en 0000:{PCI[dev]}:00.0 eth{dev}np0"
        first = [s.kern(0, f"{bus}: Firmware heartbeat stopped, initiating reset", "crit"),
                 s.kern(2.0, f"{bus}: Firmware reset aborted, bnxt_init_one failed: -110")]  # fmt: skip
    wait = s.job(
        2,
        f"{s.name(s.host)}:{s.pid}:{s.pid + 51} [{dev}] misc/ibvwrap.cc:{number(s, 100, 300)} NCCL WARN Call to ibv_modify_qp failed with error No such device",
    )
    return [*first, wait]  # fmt: skip


def _timeout_only(s: Scene) -> Sequence[Line]:
    return watchdog(s, s.settings.watchdog_s + 0.1)


def _nothing(_: Scene) -> Sequence[Line]:
    return []


def _maintenance(s: Scene) -> Sequence[Line]:
    """scontrol update by other hands: the state goes through DRAIN, reasons of other sites."""
    host = s.name(s.host)
    why = s.pick("taken for rack move", "cabling work row 4", "swap of riser ordered by vendor", "inventory check")
    return [
        Line(-1.0, "ctld", s.host, f"update_node: node {host} reason set to: {why}"),
        Line(-0.9, "ctld", s.host, f"update_node: node {host} state set to DRAINING"),
        Line(-0.2, "ctld", s.host, f"update_node: node {host} state set to DOWN"),
    ]


def _boot(s: Scene, dt: float) -> list[Line]:
    """Banners of other distributions."""
    banner = s.pick(
        f"Linux version 6.8.0-{number(s, 31, 60)}-generic (buildd@forge) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0) 13.2.0, GNU ld 2.42) #45-Ubuntu SMP PREEMPT_DYNAMIC",
        f"Linux version 5.14.0-{number(s, 300, 570)}.el9.x86_64 (mockbuild@forge) (gcc (GCC) 11.4.1, GNU ld version 2.35.2-43.el9) #1 SMP PREEMPT_DYNAMIC",
    )
    return [
        s.kern(dt, banner, "notice"),
        s.kern(dt + 0.01, "Command line: BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=/dev/md0 ro", "info"),
    ]


def _power(s: Scene) -> Sequence[Line]:
    """SEL of other boards: input lost, redundancy lost, then the unit goes off."""
    unit = number(s, 1, 7)
    return [
        Line(0, "sel", s.host, f"Power Supply PSU{unit} Status | Power Supply input lost (AC/DC) | Asserted"),
        Line(0.2, "sel", s.host, "Power Supply PS Redundancy | Redundancy Lost | Asserted"),
        Line(0.7, "sel", s.host, "Power Unit Power Unit | AC lost | Asserted"),
        *_boot(s, s.delay + 240),
    ]


def _chassis(s: Scene) -> Sequence[Line]:
    """SEL: a cooling unit loses its redundancy, the board shuts itself off."""
    return [
        Line(-45, "sel", s.host, f"Fan FAN_SYS{number(s, 1, 9)}_F | Lower Critical going low | Asserted"),
        Line(-40, "sel", s.host, "Cooling Unit Fan Redundancy | Non-redundant: Insufficient Resources | Asserted"),
        Line(0, "sel", s.host, "Temperature System Board Temp | Upper Non-recoverable going high | Asserted"),
        *_boot(s, s.delay + 300),
    ]


def _os(s: Scene) -> Sequence[Line]:
    """fault.c, watchdog.c, exit.c, or nothing but the next boot."""
    kind = number(s, 0, 4)
    cpu = number(s, 0, 96)
    first = [
        [s.kern(-0.1, f"BUG: unable to handle page fault for address: ffff{s.hex(12)}", "emerg"),
         s.kern(0, "Kernel panic - not syncing: Fatal exception", "emerg")],
        [s.kern(-20, f"watchdog: BUG: soft lockup - CPU#{cpu} stuck for {number(s, 22, 60)}s! [kworker/{cpu}:1:{s.pid}]", "emerg"),
         s.kern(0, "Kernel panic - not syncing: softlockup: hung tasks", "emerg")],
        [s.kern(0, "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009", "emerg")],
        [],
    ][kind]  # fmt: skip
    return [*first, *_boot(s, s.delay + 220)]


def _cpu(s: Scene) -> Sequence[Line]:
    """AMD (mce_amd.c) and firmware-first reports (ghes.c)."""
    if s.rng.random() < 0.5:
        first = [
            s.kern(0, "mce: [Hardware Error]: Machine check events logged", "emerg"),
            s.kern(0.01, f"[Hardware Error]: CPU:{number(s, 0, 128)} (19:1:1) MC{number(s, 0, 6)}_STATUS[Over|UE|MiscV|AddrV|-|TCC|SyndV|-|-|-]: 0xbea{s.hex(13)}", "emerg"),
            s.kern(0.02, "[Hardware Error]: Load Store Unit Ext. Error Code: 1, An ECC error or L2 poison was detected on a data cache read by a load.", "emerg"),
        ]  # fmt: skip
    else:
        first = [
            s.kern(0, "{1}[Hardware Error]: event severity: fatal", "emerg"),
            s.kern(0.01, "{1}[Hardware Error]:   section_type: general processor error", "emerg"),
        ]
    return [
        *first,
        s.kern(0.05, "Kernel panic - not syncing: Fatal hardware error!", "emerg"),
        *_boot(s, s.delay + 260),
    ]


def _memory(s: Scene) -> Sequence[Line]:
    """EDAC of other controllers, and what memory-failure.c says when the page was in use."""
    return [
        s.kern(0, f"EDAC skx MC{number(s, 0, 4)}: HANDLING MCE MEMORY ERROR", "emerg"),
        s.kern(0.01, f"EDAC MC{number(s, 0, 8)}: {number(s, 1, 4)} UE memory scrubbing error on CPU_SrcID#1_MC#{number(s, 0, 4)}_Chan#{number(s, 0, 2)}_DIMM#0 (channel:1 slot:0 page:0x{s.hex(7)} offset:0x0 grain:32 -  err_code:0x0101:0x0091)", "emerg"),
        s.kern(0.02, f"mce: Uncorrected hardware memory error in user-access at {s.hex(9)}", "err"),
        s.kern(0.03, f"Memory failure: 0x{s.hex(7)}: Sending SIGBUS to python3:{s.pid} due to hardware memory corruption", "err"),
    ]  # fmt: skip


def _ssd(s: Scene) -> Sequence[Line]:
    """nvme (pci.c, core.c) and the file systems above it."""
    d = number(s, 0, 8)
    fs = [
        [s.kern(1.2, f"EXT4-fs error (device nvme{d}n1p1): ext4_journal_check_start:83: comm python3: Detected aborted journal", "crit"),
         s.kern(1.3, f"EXT4-fs (nvme{d}n1p1): Remounting filesystem read-only", "crit")],
        [s.kern(1.2, f"XFS (nvme{d}n1): log I/O error -5", "alert"),
         s.kern(1.3, f"XFS (nvme{d}n1): Filesystem has been shut down due to log error (0x2).", "alert")],
    ][number(s, 0, 2)]  # fmt: skip
    return [
        s.kern(0, f"nvme nvme{d}: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "warning"),
        s.kern(1.0, f"nvme nvme{d}: Disabling device after reset failure: -19", "warning"),
        s.kern(
            1.1, f"Buffer I/O error on dev nvme{d}n1, logical block {number(s, 0, 10**8)}, lost async page write", "err"
        ),
        *fs,
        s.job(3, f"OSError: [Errno 30] Read-only file system: '/local_nvme/cache/part_{number(s, 0, 9999):04d}.bin'"),
    ]


def _link_loss(s: Scene, port: str) -> list[Line]:
    """pciehp_ctrl.c: the slot says that its card is gone."""
    slot = number(s, 1, 60)
    return [s.kern(-0.5, f"pcieport {port}: pciehp: Slot({slot}): Link Down"),
            s.kern(-0.4, f"pcieport {port}: pciehp: Slot({slot}): Card not present")]  # fmt: skip


def _ioboard(s: Scene) -> Sequence[Line]:
    """Two cards below one bridge go together, as hot-plug and the old AER wording tell it."""
    port = f"0000:{PCI[s.gpu % 4][0]}0:01.0"
    other = Scene(s.host, (s.gpu + 1) % s.settings.gpus_per_host, s.rank, s.pid, s.rng, s.settings, s.delay, s.name)
    return [
        s.kern(-0.7, f"pcieport {port}: AER: Uncorrected (Fatal) error received: 0000:{s.hex(2)}:00.0"),
        *_link_loss(s, port),
        _old_xid(s, 0, 79, "GPU has fallen off the bus."),
        _old_xid(other, 0.1, 79, "GPU has fallen off the bus."),
        *cuda(s, 1.0, "unknown error", 999),
    ]


def _pcie(s: Scene) -> Sequence[Line]:
    """Kernels before 6.10 (aer.c) and the device's own report; or hot-plug alone."""
    port = f"0000:{s.hex(1)}0:01.0"
    if s.rng.random() < 0.6:
        first = [
            s.kern(-2, f"pcieport {port}: AER: Uncorrected (Fatal) error received: {s.bdf}.0"),
            s.kern(-1.9, f"nvidia {s.bdf}.0: PCIe Bus Error: severity=Uncorrected (Fatal), type={s.pick('Transaction Layer', 'Data Link Layer')}, (Receiver ID)"),
            s.kern(-1.8, f"nvidia {s.bdf}.0: AER: can't recover (no error_detected callback)"),
        ]  # fmt: skip
    else:
        first = _link_loss(s, port)
    return [*first, _old_xid(s, 0, 79, "GPU has fallen off the bus."), *cuda(s, 1.0, "unknown error", 999)]


def _dependency(s: Scene) -> Sequence[Line]:
    """Lustre, object stores and name services as their clients word it."""
    ost = f"scratch-OST{number(s, 0, 64):04x}-osc-ffff{s.hex(12)}"
    return [
        [s.kern(-30, f"LustreError: {s.pid}:0:(client.c:1291:ptlrpc_import_delay_req()) @@@ IMP_CLOSED  req@{s.hex(16)}"),
         s.kern(-20, f"Lustre: {ost}: Connection to scratch-OST{number(s, 0, 64):04x} (at 10.12.0.{number(s, 2, 200)}@o2ib) was lost; in progress operations using this service will wait for recovery to complete", "warning"),
         s.job(0, f"OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/ckpt/step_{number(s, 100, 99999)}'")],
        [s.job(0, "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): Please reduce your request rate.")],
        [s.job(0, "google.api_core.exceptions.ServiceUnavailable: 503 GET https://storage.ridge.example/b/ckpt/o: backend unavailable")],
    ][number(s, 0, 3)]  # fmt: skip


OTHER_STORIES: dict[str, tuple[Story, ...]] = {
    "gpu.device": (_lost_old_driver, _lost_new_driver, _halt_old),
    "gpu.nvlink": (_nvlink_old,),
    "gpu.hbm": (_hbm_retired, _hbm_contained),
    "gpu.sram": (_sram_tag,),
    "gpu.gsp": (_gsp_old,),
    "gpu.thermal": (_thermal_bmc,),
    "gpu.sdc": (_sdc_rerun,),
    "net.fabric": (_fabric_roce,),
    "net.nic": (_nic_other,),
    "unknown.nccl_timeout": (_timeout_only,),
    "unknown": (_nothing,),
    "software.bug": (software,),
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
