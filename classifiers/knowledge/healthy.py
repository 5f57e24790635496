"""Made-up healthy text: what logs look like when nothing is wrong, for measuring how often anchors hit.

Invented values in the true formats of trainers, kernels and daemons; the same bytes for the same size.
"""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import random
from collections.abc import Callable

_HOSTS = ("node003", "node017", "gpu-a12", "trn2-0044")


def _megatron(r: random.Random, i: int) -> str:
    return (
        f" [2026-03-03 04:{i // 60 % 60:02d}:{i % 60:02d}.{r.randrange(10**6):06d}] iteration {i:8d}/  500000 | "
        f"consumed samples: {i * 2048:12d} | elapsed time per iteration (ms): {r.uniform(5000, 5300):.1f} | "
        f"learning rate: {r.uniform(1e-5, 3e-4):.6E} | global batch size:  2048 | lm loss: {r.uniform(1.8, 2.4):.6E} | "
        f"loss scale: 1.0 | grad norm: {r.uniform(0.1, 0.9):.3f} | number of skipped iterations:   0 | "
        f"number of nan iterations:   0 |"
    )


def _lightning(r: random.Random, i: int) -> str:
    done = i % 100
    bar = "█" * (done // 10) + " " * (10 - done // 10)
    return f"Epoch {i // 100}: {done:3d}%|{bar}| {i}/50000 [02:{i % 60:02d}<05:11,  1.{r.randrange(10, 99)}it/s, v_num=3, train_loss={r.uniform(1, 3):.3f}]"


def _deepspeed(r: random.Random, i: int) -> str:
    return (
        f"[2026-03-03 04:12:{i % 60:02d},{r.randrange(1000):03d}] [INFO] [logging.py:96:log_dist] [Rank 0] step={i}, skipped=0, "
        f"lr=[{r.uniform(1e-5, 3e-4)}, 0.0], mom=[(0.9, 0.95)]"
    )


def _timers(r: random.Random, _i: int) -> str:
    return (
        f"    forward-backward ...............................: ({r.uniform(800, 900):.2f}, {r.uniform(900, 990):.2f})"
    )


def _mllog(r: random.Random, i: int) -> str:
    return (
        f':::MLLOG {{"namespace": "", "time_ms": {1709000000000 + i * 1000}, "event_type": "POINT_IN_TIME", "key": '
        f'"tracked_stats", "value": {{"throughput": {r.uniform(400, 500):.4f}}}, "metadata": {{"file": "train.py", "lineno": 212, "step": {i}}}}}'
    )


def _nccl(r: random.Random, i: int) -> str:
    return r.choice(
        (
            f"{_HOSTS[i % 4]}:88{i % 1000:03d}:88911 [{i % 8}] NCCL INFO Channel {i % 24:02d}/0 : {i % 64}[{i % 8}] -> {(i + 1) % 64}[{(i + 1) % 8}] via P2P/CUMEM",
            f"{_HOSTS[i % 4]}:88231:88911 [{i % 8}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.1.2.{i % 250}<0>",
            f"{_HOSTS[i % 4]}:88231:88911 [{i % 8}] NCCL INFO ncclCommInitRank comm 0x55d{r.randrange(16**6):06x} rank {i % 64} nranks 64 cudaDev {i % 8} - Init COMPLETE",
        )
    )


def _python(r: random.Random, i: int) -> str:
    if i % 20_000 == 19_999:  # a save comes once in many thousand lines
        return f"  successfully saved checkpoint from iteration {i:8d} to /ckpt/run"
    return r.choice(
        (
            f"2026-03-03 04:12:{i % 60:02d},{r.randrange(1000):03d} - INFO - trainer - step {i} loss {r.uniform(1, 3):.4f} tokens/s {r.randrange(9000, 12000)} error_rate 0.000",
            f"INFO:root:eval accuracy {r.uniform(0.4, 0.9):.4f} err@1 {r.uniform(0.1, 0.5):.4f} failed 0 timeouts 0",
            "UserWarning: The given NumPy array is not writable, and PyTorch does not support non-writable tensors.",
            f"wandb: Synced 5 W&B file(s), 0 media file(s), {i % 9} artifact file(s)",
            f"throughput: {r.uniform(100, 900):.1f} samples/s, memory allocated {r.randrange(40, 79)} GiB, reserved {r.randrange(60, 79)} GiB",
        )
    )


def _kernel(r: random.Random, i: int) -> str:
    t = f"[{i * 7.13:12.6f}]"
    return r.choice(
        (
            f'{t} audit: type=1400 audit(17725{i % 100000:05d}.123:4{i % 100}): apparmor="ALLOWED" operation="open" comm="python3"',
            f"{t} IPv6: ADDRCONF(NETDEV_CHANGE): eth{i % 8}: link becomes ready",
            f"{t} perf: interrupt took too long ({r.randrange(2500, 9000)} > 2500), lowering kernel.perf_event_max_sample_rate to 63000",
            f"{t} nvidia-uvm: Loaded the UVM driver, major device number 511.",
            f"{t} docker0: port {i % 9}(veth{r.randrange(16**6):06x}) entered forwarding state",
            f"{t} systemd-journald[611]: Time spent on flushing to /var/log/journal is {r.randrange(10, 90)}ms for 1200 entries.",
            f"{t} usb 1-{i % 9}: new high-speed USB device number {i % 40} using xhci_hcd",
        )
    )


def _daemons(r: random.Random, i: int) -> str:
    head = f"Mar  3 04:{i // 60 % 60:02d}:{i % 60:02d} {_HOSTS[i % 4]}"
    return r.choice(
        (
            f"{head} systemd[1]: Started Session {i} of user operator.",
            f"{head} CRON[{r.randrange(1000, 99999)}]: (root) CMD (test -x /usr/sbin/anacron)",
            f"{head} sshd[{r.randrange(1000, 99999)}]: Accepted publickey for operator from 10.0.0.{i % 250} port 50122 ssh2",
            f"{head} slurmd[2011]: launch task StepId={700000 + i}.0 request from UID:1002 GID:1002 HOST:10.0.0.4 PORT:40122",
            f'{head} kubelet[1499]: I0303 04:12:{i % 60:02d}.{r.randrange(10**6):06d}    1499 kubelet.go:2431] "SyncLoop (PLEG): event for pod" pod="train/w-{i % 64}"',
        )
    )


_MAKERS: tuple[tuple[Callable[[random.Random, int], str], int], ...] = (
    (_megatron, 10),
    (_lightning, 4),
    (_deepspeed, 4),
    (_timers, 4),
    (_mllog, 4),
    (_nccl, 2),
    (_python, 4),
    (_kernel, 4),
    (_daemons, 4),
)


def healthy_text(size: int = 2 << 20, seed: int = 0) -> bytes:
    """About `size` bytes of healthy lines (not less), always the same for one seed."""
    r = random.Random(seed)
    makers = [maker for maker, weight in _MAKERS for _ in range(weight)]
    lines: list[bytes] = []
    total = 0
    i = 0
    while total < size:
        line = r.choice(makers)(r, i).encode()
        lines.append(line)
        total += len(line) + 1
        i += 1
    return b"\n".join(lines) + b"\n"
