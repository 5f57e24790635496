"""What jobs print: start-up, progress, tracebacks, time-outs and the end as the launchers tell it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime

from heron.site import BUS, GPUS, SECOND, Job, glog, pylog, squeeze


def opening(job: Job, rng: random.Random) -> Iterator[tuple[datetime, str]]:
    world = len(job.hosts) * GPUS
    at = job.start
    yield (
        at,
        f"[{at:%Y-%m-%d %H:%M:%S}] SLURM_JOB_ID={job.id} SLURM_JOB_NODELIST={squeeze(job.hosts)} WORLD_SIZE={world}",
    )
    ident = f"{rng.getrandbits(64):x}"
    at = job.at(1.2)
    yield at, f"{job.hosts[0]}:48200:48200 [0] NCCL INFO NCCL version 2.23.4+cuda12.6"
    for rank in range(world):
        local = rank % GPUS
        comm = f"0x{0x55D0C0000000 + rank * 0x1000:x}"
        yield (
            at + (8 + rank * 0.01) * SECOND,
            f"{job.host_of(rank)}:{48200 + local}:{48900 + local} [{local}] NCCL INFO ncclCommInitRankConfig comm {comm} rank {rank} "
            f"nranks {world} cudaDev {local} nvmlDev {local} busId {BUS[local]}000 commId 0x{ident} - Init COMPLETE",
        )
    at = job.at(2.0)
    if job.first_step:
        yield at, f" loading release checkpoint from /ckpt/{job.name} at iteration {job.first_step}"
        yield (
            at + 40 * SECOND,
            f"  successfully loaded checkpoint from /ckpt/{job.name} [ t 1/1, p 1/1 ] at iteration {job.first_step}",
        )
    yield job.at(2.8), f"[before the start of training step] datetime: {job.at(2.8):%Y-%m-%d %H:%M:%S}"


def steps(job: Job, rng: random.Random) -> Iterator[tuple[datetime, str]]:
    """Progress in Megatron's form every ten steps, and a checkpoint every `save_every`."""
    stop = job.end if job.stop_steps is None else job.at(job.stop_steps)
    at, step, total = job.at(3.0), job.first_step, job.first_step + 20000
    batch = 64 * len(job.hosts)
    while True:
        ms = job.step_s * 1000 * (1 + rng.uniform(-0.01, 0.01))
        at += 10 * ms / 1000 * SECOND
        step += 10
        if at >= stop:
            return
        loss = 1.7 + 2.2 / (1 + step / 900) + rng.uniform(-0.02, 0.02)
        yield (
            at,
            f" [{at:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{total:8d} | consumed samples: {step * batch:12d} | "
            f"elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.500000E-04 | global batch size: {batch:5d} | "
            f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {rng.uniform(0.2, 0.6):.3f} | "
            f"number of skipped iterations:   0 | number of nan iterations:   0 |",
        )
        if step % job.save_every == 0:
            yield at + SECOND / 10, f"saving checkpoint at iteration {step:7d} to /ckpt/{job.name} in torch_dist format"
            at += 9 * SECOND
            if at < stop:
                yield (
                    at,
                    f"  successfully saved checkpoint from iteration {step:7d} to /ckpt/{job.name} [ t 1/1, p 1/1 ]",
                )


def traceback(rank: int, where: str, error: str) -> list[str]:
    lead = f"[rank{rank}]: "
    return [
        f"{lead}Traceback (most recent call last):",
        f'{lead}  File "/opt/train/pretrain.py", line 212, in <module>',
        f"{lead}    main()",
        f'{lead}  File "/opt/train/loop.py", line 148, in train_step',
        f"{lead}    {where}",
        f"{lead}{error}",
    ]


def watchdog(rank: int, when: datetime, seq: int, ran_ms: int, op: str = "ALLREDUCE") -> list[str]:
    head = f"[rank{rank}]:[E{glog(when)} ProcessGroupNCCL.cpp"
    return [
        f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
        f"NumelIn=25165824, NumelOut=25165824, Timeout(ms)=600000) ran for {ran_ms} milliseconds before timing out.",
        f"{head}:684] [Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
        "kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        f"{head}:690] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
    ]


def agent_ends(job: Job, rank: int, when: datetime, code: int, detail: str = "") -> list[str]:
    """What torchrun and srun print once one rank is gone."""
    host, local = job.host_of(rank), rank % GPUS
    exit_line = f"exitcode  : {code} (pid: {48200 + local})"
    return [
        f"E{pylog(when)} 48100 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code}) "
        f"local_rank: {local} (pid: {48200 + local}) of binary: /opt/conda/bin/python3",
        "============================================================",
        "/opt/train/pretrain.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        f"  time      : {when:%Y-%m-%d_%H:%M:%S}",
        f"  host      : {host}.heron.example",
        f"  rank      : {rank} (local_rank: {local})",
        f"  {exit_line}",
        f"  error_file: {'<N/A>' if not detail else '/tmp/torchelastic/error.json'}",
        f"  traceback : {detail or 'To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html'}",
        "============================================================",
        f"srun: error: {host}: task {job.hosts.index(host)}: Exited with exit code 1",
        f"srun: Terminating StepId={job.id}.0",
        f"slurmstepd: error: *** STEP {job.id}.0 ON {job.hosts[0]} CANCELLED AT {when + 2 * SECOND:%Y-%m-%dT%H:%M:%S} ***",
    ]
