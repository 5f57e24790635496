"""What a job itself prints of a failure in other versions than `wording` has: CUDA errors, time-outs, exceptions."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.simulate.scene import Line, Scene


def number(s: Scene, low: int, high: int) -> int:
    """A number from low to high - 1."""
    return int(s.rng.integers(low, high))


def cuda(s: Scene, dt: float, words: str, code: int) -> list[Line]:
    """A CUDA error as PyTorch 2.8 (AcceleratorError), C++ (c10::Error), NCCL 2.20 or JAX say it."""
    kind = number(s, 0, 4)
    where = f'  File "/srv/run/{s.pick("stage", "fit", "runner")}.py", line {number(s, 30, 900)}, in {s.pick("advance", "reduce_grads", "run_block")}'
    if kind == 0:
        return [
            s.job(dt, "Traceback (most recent call last):"),
            s.job(dt, where),
            s.job(dt, f"torch.AcceleratorError: CUDA error: {words}"),
            s.job(dt, "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect."),
        ]  # fmt: skip
    if kind == 1:
        return [
            s.job(dt, "terminate called after throwing an instance of 'c10::Error'"),
            s.job(dt, f"  what():  CUDA error: {words}"),
            s.job(dt, "Fatal Python error: Aborted"),
        ]
    if kind == 2:
        return [
            s.job(dt, f"{s.name(s.host)}:{s.pid}:{s.pid + 7} [{s.gpu}] enqueue.cc:1402 NCCL WARN Cuda failure {code} '{words}'"),
            s.job(dt, "Traceback (most recent call last):"),
            s.job(dt, where),
            s.job(dt, "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"),
        ]  # fmt: skip
    return [
        s.job(dt, "Traceback (most recent call last):"),
        s.job(dt, where),
        s.job(dt, f"jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA error: {s.pick('Could not synchronize CUDA stream', 'Failed to synchronize GPU')}: {words}"),
    ]  # fmt: skip


def watchdog(s: Scene, dt: float) -> list[Line]:
    """PyTorch 1.13 (no sizes) or 2.4 and later (process group in front)."""
    seq, ms = number(s, 2000, 900000), int(s.settings.watchdog_s * 1000)
    old = s.rng.random() < 0.5
    total = s.settings.hosts * s.settings.gpus_per_host
    ranks = sorted({int(r) for r in s.rng.integers(0, total, min(4, total) + 1)})
    out = []
    for i, r in enumerate(ranks):
        head = f"[Rank {r}]" if old else f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        size = "" if old else f"NumelIn={1 << 21}, NumelOut={1 << 21}, "
        out.append(Line(dt + 0.01 * i, "job", r // s.settings.gpus_per_host,
                        f"{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=_REDUCE_SCATTER_BASE, {size}"
                        f"Timeout(ms)={ms}) ran for {ms + number(s, 20, 900)} milliseconds before timing out.", r))  # fmt: skip
    if not old:
        out.append(Line(dt + 0.2, "job", 0, f"[PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from rank {ranks[0]} and we will try our best to dump the debug info.", 0))  # fmt: skip
    return out


def software(s: Scene) -> Sequence[Line]:
    """Uncaught exceptions of other kinds, out of memory as PyTorch 1.x to 2.4 and JAX word it."""
    last = [
        f"RuntimeError: The size of tensor a ({number(s, 2048, 9000)}) must match the size of tensor b ({number(s, 2048, 9000)}) at non-singleton dimension {number(s, 0, 3)}",
        f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {number(s, 1, 30)}.00 GiB (GPU {s.gpu}; 79.15 GiB total capacity; 70.{number(s, 10, 99)} GiB already allocated; {number(s, 100, 900)}.00 MiB free; 73.10 GiB reserved in total by PyTorch)",
        f"AttributeError: 'NoneType' object has no attribute '{s.pick('shape', 'grad', 'numel')}'",
        f"IndexError: list index out of range ({number(s, 1, 99)})",
        "TypeError: forward() got an unexpected keyword argument 'position_bias'",
        f"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate {number(s, 10**9, 9 * 10**10)} bytes.",
        "omegaconf.errors.ConfigAttributeError: Missing key optimizer.betas",
    ][number(s, 0, 7)]  # fmt: skip
    return [
        s.job(0, "Traceback (most recent call last):"),
        s.job(
            0,
            f'  File "/srv/run/{s.pick("feed", "net", "fit")}.py", line {number(s, 20, 700)}, in {s.pick("pack", "attend", "advance")}',
        ),
        s.job(0, last),
    ]
