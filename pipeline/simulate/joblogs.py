"""Job output in the style of a framework, streamed line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pipeline.simulate.pace import ends_of_steps, jitter, step_seconds
from pipeline.simulate.plan import Attempt
from pipeline.simulate.scene import Line
from pipeline.simulate.settings import SimSettings
from pipeline.simulate.stamps import Calendar

Timed = tuple[float, str]


def _header(a: Attempt, s: SimSettings, cal: Calendar, skew: float) -> Iterator[Timed]:
    world = len(a.hosts) * s.gpus_per_host
    at = cal.logging(a.start, skew)
    if a.in_job:
        return
    if a.framework == "megatron":
        yield (
            a.start,
            f"using world size: {world}, data-parallel size: {max(1, world // 128)}, tensor-model-parallel size: 8",
        )
        yield a.start, "setting random seeds to 1234 ..."
    elif a.framework == "torchtitan":
        yield a.start, f"[rank0]:{at} - root - INFO - Starting job: pretrain, world size {world}"
    elif a.framework == "nemo":
        yield (
            a.start,
            f"[NeMo I {cal.local(a.start, skew):%Y-%m-%d %H:%M:%S} exp_manager:386] Experiments will be logged, {world} devices",
        )
    else:
        yield a.start, f"distributed_backend=nccl, starting with {world} processes"
    if a.first_step > 1:
        yield a.start + 20, f"{at} loading checkpoint from /shared/ckpt/step_{a.first_step - 1}"


def _progress(a: Attempt, cal: Calendar, skew: float, step: int, t: float, pace: float, loss: float) -> str:
    at = cal.local(t, skew)
    if a.framework == "megatron":
        return (
            f" [{at:%Y-%m-%d %H:%M:%S.%f}] iteration {step:8d}/ 2000000 | consumed samples: {step * 2048:12d} | "
            f"elapsed time per iteration (ms): {pace * 1000:.1f} | learning rate: 8.000E-05 | lm loss: {loss:.6E} | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    if a.framework == "torchtitan":
        return f"[rank0]:{cal.logging(t, skew)} - root - INFO - step: {step}  loss: {loss:.4f}  memory: 61.20GiB(77.30%)  tps: {8192 / pace:,.0f}  mfu: 41.3%"
    if a.framework == "nemo":
        return f"{at:%Y-%m-%d %H:%M:%S} Training epoch 0, iteration {step}/1999999 | lr: 8e-05 | global_step: {step} | reduced_train_loss: {loss:.4f} | train_step_timing in s: {pace:.3f}"
    share = 100 * step // 2_000_000
    return f"Epoch 0: {share:3d}%|{'#' * (share // 10):10}| {step}/2000000 [{at:%H:%M:%S}<99:59:59, {pace:.3f}s/it, v_num=0, train_loss={loss:.3f}]"


def _saved(a: Attempt, cal: Calendar, skew: float, t: float, seconds: float, step: int) -> Iterator[Timed]:
    path = f"/shared/ckpt/step_{step}"
    if a.framework == "megatron":
        yield t, f"saving checkpoint at iteration {step:7d} to {path}"
        yield t + seconds, f"  successfully saved checkpoint at iteration {step:7d} to {path}"
        yield (
            t + seconds,
            f"(min, max) time across ranks (ms): save-checkpoint ....: ({seconds * 990:.2f}, {seconds * 1000:.2f})",
        )
    elif a.framework == "torchtitan":
        yield t, f"[rank0]:{cal.logging(t, skew)} - root - INFO - Saving the checkpoint at step {step}."
        yield (
            t + seconds,
            f"[rank0]:{cal.logging(t + seconds, skew)} - root - INFO - Finished saving the checkpoint in {seconds:.2f} seconds.",
        )
    else:
        yield t, f"{cal.logging(t, skew)} Saving checkpoint at step {step} to {path}"
        yield (
            t + seconds,
            f"{cal.logging(t + seconds, skew)} Checkpoint saved at step {step} to {path} in {seconds:.2f} s",
        )


def training(a: Attempt, s: SimSettings, cal: Calendar, skew: float) -> Iterator[Timed]:
    """Header, progress and saves of one attempt in time order."""
    yield from _header(a, s, cal, skew)
    if a.first_progress is None:
        return
    rng = np.random.default_rng([s.seed, a.job_id, a.attempt, 11])
    t, step = a.first_progress, a.first_step - 1
    until = a.onset if a.onset is not None else a.end
    stops = [*((b, sec, n) for b, sec, n in a.saves), (until, 0.0, a.last_step)]
    for begin, seconds, at_step in stops:
        n = at_step - step
        printed = [k for k in range(step + 1, at_step + 1) if k % s.log_every == 0 or k == a.first_step]
        numbers = np.array(printed, dtype=float) - step
        moments = ends_of_steps(s, t, numbers) + jitter(s, rng, numbers, n)
        moments = np.minimum(np.maximum.accumulate(moments), begin)  # in order, and before the save
        for k, moment in zip(printed, moments.tolist(), strict=True):
            pace = step_seconds(s, moment) * (1 + s.step_noise * float(rng.standard_normal()))
            loss = 1.9 + 6.0 / (1 + k / 400) + 0.02 * float(rng.standard_normal())
            yield moment, _progress(a, cal, skew, k, moment, pace, loss)
        t, step = begin, step + n
        if seconds:
            yield from _saved(a, cal, skew, begin, seconds, at_step)
            t = begin + seconds


def ending(
    a: Attempt, s: SimSettings, cal: Calendar, skew: float, story: Sequence[Line], name: Callable[[int], str]
) -> Iterator[Timed]:
    """The job's lines of the fault, the tear-down, and what srun says last."""
    onset = a.onset if a.onset is not None else a.end
    for line in sorted((x for x in story if x.channel == "job"), key=lambda x: x.dt):
        prefix = f"[rank{line.rank}]: " if line.rank is not None and a.framework != "megatron" else f"{line.rank}: "
        if "Watchdog caught" in line.text:
            prefix = f"[rank{line.rank}]:[E{cal.torch(onset + line.dt, skew)} ProcessGroupNCCL.cpp:629] "
        elif "NCCL WARN" in line.text:
            prefix = f"[{cal.local(onset + line.dt, skew):%Y-%m-%d %H:%M:%S}] "
        yield onset + line.dt, prefix + line.text
    if a.kind == "unexpected" and a.component != "unknown":
        rng = np.random.default_rng([s.seed, a.job_id, a.attempt, 13])
        for i in range(min(s.teardown_lines, 4 * len(a.hosts))):
            h = int(rng.integers(0, len(a.hosts)))
            if a.hosts[h] == a.host:
                continue
            yield a.end - 1.0 + i * 0.01, _torn_down(s, i, name(a.hosts[h]), name(a.hosts[0]))
    when = cal.slurm(a.end)
    if a.kind == "planned":
        yield (
            a.end,
            f"slurmstepd: error: *** JOB {a.job_id} ON {name(a.hosts[0])} CANCELLED AT {when} DUE TO JOB REQUEUE ***",
        )
        yield a.end, "slurmstepd: error: *** REASON: planned maintenance window ***"
    elif a.kind == "completed":
        done = {"megatron": "[after training is done] datetime: " + when.replace("T", " "), "torchtitan": "Training completed",
                "nemo": "`Trainer.fit` stopped: `max_steps` reached.", "lightning": "`Trainer.fit` stopped: `max_steps` reached."}  # fmt: skip
        yield a.end, done[a.framework]
    elif a.kind == "cancelled":
        yield a.end, f"slurmstepd: error: *** JOB {a.job_id} ON {name(a.hosts[0])} CANCELLED AT {when} ***"
    elif a.kind == "timed_out":
        yield (
            a.end,
            f"slurmstepd: error: *** JOB {a.job_id} ON {name(a.hosts[0])} CANCELLED AT {when} DUE TO TIME LIMIT ***",
        )
    elif a.kind == "preempted":
        yield (
            a.end,
            f"slurmstepd: error: *** JOB {a.job_id} ON {name(a.hosts[0])} CANCELLED AT {when} DUE TO PREEMPTION ***",
        )
    elif a.component in NODE_DOWN:
        what = f"JOB {a.job_id}" if s.wording == "usual" else f"STEP {a.job_id}.0"
        yield a.end, f"srun: error: Node failure on {name(a.host or 0)}"
        yield (
            a.end,
            f"slurmstepd: error: *** {what} ON {name(a.hosts[0])} CANCELLED AT {when} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        )
    elif a.component != "unknown":
        h = a.host if a.host is not None else a.hosts[0]
        if s.wording == "other":  # srun --kill-on-bad-exit
            yield (
                a.end,
                f"slurmstepd: error: *** STEP {a.job_id}.0 ON {name(a.hosts[0])} CANCELLED AT {when} DUE TO TASK FAILURE ***",
            )
        yield a.end, f"srun: error: {name(h)}: task {h * s.gpus_per_host + (a.gpu or 0)}: Exited with exit code 1"
        if s.wording == "other":
            yield a.end, f"srun: Force Terminated StepId={a.job_id}.0"


def _torn_down(s: SimSettings, i: int, host: str, peer: str) -> str:
    """What the i-th process that lost its peer says."""
    head = f"{host}:{20000 + i}:{20100 + i} [{i % 8}]"
    if s.wording == "usual":
        return f"{head} NCCL WARN socketProgress: Connection closed by remote peer {peer}<{41000 + i}>"
    if i % 3 == 0:
        return f"{head} misc/socket.cc:{50 + i % 9} NCCL WARN socketProgress: Connection closed by remote peer {peer}.ridge.example<{41000 + i}>"
    if i % 3 == 1:
        return f"{head} NCCL INFO [Service thread] Connection closed by localRank {i % 8}"
    return (
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
        "remote process exited or there was a network error, NCCL version 2.21.5"
    )


#: Components whose host is gone for the scheduler.
NODE_DOWN = frozenset({"host.power", "host.os", "host.cpu", "host.chassis", "maintenance.unplanned", "gpu.thermal"})
