"""Made-up logs of any size for benchmarks: one block of lines, repeated with new stamps."""

from __future__ import annotations

import random
from pathlib import Path

_NOISE = (
    "systemd[1]: run-docker-runtime\\x2drunc-moby-{h}-runc.{n}.mount: Deactivated successfully.",
    'kernel: [{u}] audit: type=1400 audit(1772512267.{n}:45): apparmor="ALLOWED" operation="open" profile="x" pid={n}',
    'containerd[1422]: time="2026-03-03T04:31:07.{n}Z" level=info msg="shim gone" id={h} namespace=moby',
    "kubelet[2201]: I0303 04:31:07.{n}   2201 reconciler_common.go:253] operationExecutor.VerifyAttachedVolume",
    "node_exporter[1822]: ts=2026-03-03T04:31:07.{n}Z caller=collector.go:169 level=info collector={h} duration={n}",
    'dockerd[1555]: time="2026-03-03T04:31:07.{n}Z" level=info msg="ignoring event" container={h} topic=/tasks/delete',
)
_SIGNALS = (
    "kernel: [{u}] NVRM: Xid (PCI:0000:{p}:00): 94, pid={n}, name=python3, Contained: CE User Channel (0x9).",
    "kernel: [{u}] pcieport 0000:{p}:01.0: AER: Corrected error received: 0000:{p}:00.0",
    "kernel: [{u}] nvme nvme2: I/O {n} QID 1 timeout, reset controller",
    "kernel: [{u}] mlx5_core 0000:{p}:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).",
)
STORM = "kernel: [{u}] NVRM: Xid (PCI:0000:4d:00): 31, pid=4242, name=python3, Ch 00000008, intr 00000000. MMU Fault"


def clock_of(second: int) -> str:
    """A second as a time of day."""
    return f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def write_syslog(path: Path, size: int, signals: float = 0.001, storm: float = 0.0, seed: int = 1) -> None:
    """About `size` bytes of a host's syslog: a share `signals` of lines with a signal, `storm` of one repeated one."""
    rng = random.Random(seed)
    with path.open("wb") as out:
        second, written = 0.0, 0
        while written < size:
            block = []
            for _ in range(8000):
                second += 0.02
                roll = rng.random()
                text = STORM if roll < storm else rng.choice(_SIGNALS if roll < storm + signals else _NOISE)
                clock = int(second)
                stamp = f"Mar {3 + clock // 86400 % 28:2d} {clock_of(clock)}"
                values = {
                    "n": rng.randrange(100000, 999999),
                    "h": f"{rng.getrandbits(96):024x}",
                    "p": rng.choice(("4d", "b1", "c3")),
                    "u": f"{1000 + second:.6f}",
                }
                block.append(f"{stamp} gx-0117 {text.format(**values)}\n")
            data = "".join(block).encode()
            out.write(data)
            written += len(data)


def write_job_log(path: Path, size: int, signals: float = 0.001, seed: int = 1) -> None:
    """About `size` bytes of a training job's output."""
    rng = random.Random(seed)
    failures = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 MiB. GPU 0 has a capacity of 79 GiB",
        "gx-0117:{n}:{n} [0] net_ib.cc:102 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<1> with status=12",
    )
    with path.open("wb") as out:
        step = written = 0
        while written < size:
            block = []
            for _ in range(8000):
                step += 1
                if rng.random() < signals:
                    block.append(rng.choice(failures).format(n=rng.randrange(1000, 99999)) + "\n")
                    continue
                clock = step // 8
                block.append(
                    f"[2026-03-{3 + clock // 86400 % 28:02d} {clock_of(clock)}] "
                    f"iteration {step:8d}/ 9000000 | samples: {step * 512:12d} | elapsed time per "
                    f"iteration (ms): "
                    f"{7000 + rng.random() * 9:.1f} | lr: 1.5E-04 | lm loss: 2.{rng.randrange(10**6):06d}E+00 |\n"
                )
            data = "".join(block).encode()
            out.write(data)
            written += len(data)
