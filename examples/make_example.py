#!/usr/bin/env python3
"""Makes the example archive: five days of a small site of our own invention, sixteen hosts with eight GPUs each.

    python examples/make_example.py examples/example-site.tar.gz

Raw logs in their true formats, all in UTC: accounting rows, the controller's log, a kernel log for every host (half of
them in the old syslog form that has no year), and the output of every job. Hosts, users, serials and addresses are
invented. The same call gives the same bytes. How each job really ended is in `examples/causes.tsv`, which
`faultbeam` never sees.
"""

from __future__ import annotations

import gzip
import io
import random
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = "example-site"
GPUS = 8
#: PCI buses of the GPUs and names of the adapters of every host, by index.
BUS = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
DAY = datetime(2026, 3, 9, tzinfo=UTC)
BOOT = datetime(2026, 2, 20, 5, 30, tzinfo=UTC)
HOSTS = tuple(f"hn{n:02d}" for n in range(1, 17))
SECOND = timedelta(seconds=1)


@dataclass
class Job:
    """One job: what the scheduler knows of it, and how its output goes on."""

    id: int
    name: str
    user: str
    hosts: tuple[str, ...]
    start: datetime
    minutes: float
    state: str
    exit: str
    step_s: float
    first_step: int
    lines: list[tuple[datetime, str]] = field(default_factory=list)
    stop_steps: float | None = None  # minutes after the start at which steps stop, None: at the end
    save_every: int = 100

    @property
    def end(self) -> datetime:
        return self.start + timedelta(minutes=self.minutes)

    def at(self, minutes: float) -> datetime:
        return self.start + timedelta(minutes=minutes)

    def host_of(self, rank: int) -> str:
        return self.hosts[rank // GPUS]

    def say(self, when: datetime, *texts: str) -> None:
        for n, text in enumerate(texts):
            self.lines.append((when + n * timedelta(milliseconds=1), text))


class Site:
    """Collects every log while jobs are told; `files()` gives them with their paths."""

    def __init__(self, seed: int = 405) -> None:
        self.rng = random.Random(seed)
        self.kernel: dict[str, list[tuple[datetime, str]]] = {h: [] for h in HOSTS}
        self.boots: dict[str, list[datetime]] = {h: [BOOT] for h in HOSTS}
        self.controller: list[tuple[datetime, str]] = []
        self.jobs: list[Job] = []

    def kern(self, host: str, when: datetime, text: str) -> None:
        self.kernel[host].append((when, text))

    def ctl(self, when: datetime, text: str) -> None:
        self.controller.append((when, text))

    def nvrm(self, host: str, when: datetime, gpu: int, xid: int, text: str, *, name: bool = True) -> None:
        who = "pid='<unknown>', name=<unknown>, " if not name else f"pid={48200 + gpu}, name=python3, "
        self.kern(host, when, f"NVRM: Xid (PCI:0000:{BUS[gpu]}:00): {xid}, {who}{text}")

    def add(self, job: Job) -> Job:
        self.jobs.append(job)
        self.ctl(
            job.start - 2 * SECOND,
            f"sched: Allocate JobId={job.id} NodeList={squeeze(job.hosts)} #CPUs={96 * len(job.hosts)} Partition=train",
        )
        return job


def squeeze(hosts: tuple[str, ...]) -> str:
    """`hn[01-03,05]`, as Slurm prints a node list."""
    numbers = sorted(int(h[2:]) for h in hosts)
    if len(numbers) == 1:
        return f"hn{numbers[0]:02d}"
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return "hn[" + ",".join(f"{a:02d}" if a == b else f"{a:02d}-{b:02d}" for a, b in runs) + "]"


def hosts(*numbers: int) -> tuple[str, ...]:
    return tuple(f"hn{n:02d}" for n in numbers)


def glog(when: datetime) -> str:
    """Time as glog prints it in C++ (`310 04:12:01.123456789`, no leading zero of the month)."""
    return f"{when.month}{when.day:02d} {when:%H:%M:%S}.{when.microsecond:06d}000"


def pylog(when: datetime) -> str:
    """Time as the elastic agent prints it (`0310 04:12:01.123000`)."""
    return f"{when:%m%d %H:%M:%S}.{when.microsecond // 1000:03d}000"


# ---- what every job prints -----------------------------------------------------------------------------------


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


# ---- the stories -----------------------------------------------------------------------------------------------


def hbm(site: Site) -> None:
    """A double-bit error in the memory of one GPU; the other ranks only see a collective that never ends."""
    job = site.add(
        Job(
            5101,
            "gpt-27b",
            "mara",
            hosts(1, 2, 3, 4),
            DAY + timedelta(hours=1, minutes=10),
            192,
            "FAILED",
            "1:0",
            6.1,
            12000,
            stop_steps=189,
        )
    )
    when, rank = job.at(189.4), 18
    site.nvrm(
        "hn03",
        when,
        2,
        48,
        "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6, subpartition 0.",
        name=False,
    )
    site.nvrm(
        "hn03",
        when + 0.02 * SECOND,
        2,
        63,
        "Row Remapper: New row marked for remapping, reset gpu to activate.",
        name=False,
    )
    site.nvrm("hn03", when + 0.04 * SECOND, 2, 94, "Contained: DRAM (0x1). RST: No, D-RST: No")
    job.say(
        when + SECOND,
        *traceback(
            rank, when, "loss = model(batch)", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
        ),
    )
    job.say(when + 3 * SECOND, *agent_ends(job, rank, when + 3 * SECOND, 1))


def lost_gpu(site: Site) -> None:
    """The restart of that job, without the bad host, loses a GPU an afternoon later."""
    job = site.add(
        Job(
            5102,
            "gpt-27b",
            "mara",
            hosts(1, 2, 4, 5),
            DAY + timedelta(hours=5),
            317,
            "FAILED",
            "1:0",
            6.1,
            13800,
            stop_steps=304,
        )
    )
    when = job.at(304.5)
    site.kern(
        "hn02",
        when,
        f"NVRM: Xid (PCI:0000:{BUS[5]}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    )
    site.kern("hn02", when + 0.01 * SECOND, f"NVRM: GPU 0000:{BUS[5]}:00.0: GPU has fallen off the bus.")
    site.nvrm(
        "hn02",
        when + 0.2 * SECOND,
        5,
        154,
        "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        name=False,
    )
    site.boots["hn02"].append(job.end + timedelta(minutes=34))
    for rank in (0, 7, 14, 30):
        job.say(job.at(314.6 + rank / 1000), *watchdog(rank, job.at(314.6 + rank / 1000), 912345, 600080 + rank))
    job.say(job.at(315), *agent_ends(job, 0, job.at(315), -6, "Signal 6 (SIGABRT) received by PID 48200"))


def gsp(site: Site) -> None:
    """A GPU's system processor stops answering; a monitor's call is what waits for it."""
    job = site.add(
        Job(
            5103,
            "vit-large",
            "ilse",
            hosts(6, 7),
            DAY + timedelta(hours=3, minutes=30),
            141,
            "FAILED",
            "1:0",
            2.4,
            0,
            stop_steps=124,
        )
    )
    for n in range(6):
        site.kern(
            "hn06",
            job.at(124.3) + n * 45 * SECOND,
            f"NVRM: Xid (PCI:0000:{BUS[1]}:00): 119, pid=2213, name=nvidia-smi, Timeout after 45s of waiting for RPC response from GPU1 GSP! Expected function 76 (GSP_RM_CONTROL) sequence {4100 + n} (0x20808513 0x598).",
        )
    for rank in (0, 9):
        job.say(job.at(134.4), *watchdog(rank, job.at(134.4), 55120, 600031 + rank))
    job.say(job.at(135), *agent_ends(job, 9, job.at(135), -6, "Signal 6 (SIGABRT) received by PID 48201"))


def fabric(site: Site) -> None:
    """All ports of four hosts of one leaf go down and come back, again and again."""
    job = site.add(
        Job(
            5104,
            "gpt-70b",
            "mara",
            hosts(9, 10, 11, 12),
            DAY + timedelta(days=1, hours=2),
            222,
            "FAILED",
            "1:0",
            9.7,
            4000,
            stop_steps=211,
        )
    )
    for flap in range(5):
        for n, host in enumerate(job.hosts):
            down = job.at(211.2) + (flap * 14 + n * 0.4) * SECOND
            for port in (0, 1):
                site.kern(
                    host,
                    down + port * 0.05 * SECOND,
                    f"mlx5_core 0000:{('5c', '9a')[port]}:00.0 mlx5_{port}: Port: 1 Link DOWN",
                )
                site.kern(
                    host,
                    down + (6 + port * 0.05) * SECOND,
                    f"mlx5_core 0000:{('5c', '9a')[port]}:00.0 mlx5_{port}: Port: 1 Link ACTIVE",
                )
    when = job.at(213)
    for rank in (3, 12, 17):
        host, local, peer = job.host_of(rank), rank % GPUS, job.host_of((rank + 8) % 32)
        job.say(
            when + rank * SECOND / 10,
            f"{host}:{48200 + local}:{48900 + local} [{local}] transport/net_ib.cc:1895 NCCL WARN NET/IB: Got completion from peer 10.20.0.{peer[2:]}<41822> "
            "with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGid fe80::2 hca mlx5_0",
            f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.23.4",
        )
    job.say(when + 8 * SECOND, *agent_ends(job, 3, when + 8 * SECOND, 1))


def cuda_oom(site: Site) -> None:
    """A batch that does not fit."""
    job = site.add(
        Job(
            5105,
            "moe-probe",
            "tariq",
            hosts(8),
            DAY + timedelta(hours=9),
            14,
            "FAILED",
            "1:0",
            3.0,
            0,
            stop_steps=13,
            save_every=1000,
        )
    )
    when = job.at(13.3)
    job.say(
        when,
        *traceback(
            4,
            when,
            "loss.backward()",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.25 GiB. GPU 4 has a total capacity of 79.11 GiB of which 1.62 GiB is free. Process 48204 has 77.48 GiB memory in use.",
        ),
    )
    job.say(when + 2 * SECOND, *agent_ends(job, 4, when + 2 * SECOND, 1))


def cancelled(site: Site) -> None:
    """Its owner cancels it. The driver cleans up after the killed processes, which looks like a fault of eight GPUs."""
    job = site.add(
        Job(5106, "ablate-lr", "ilse", hosts(7, 8), DAY + timedelta(hours=11), 95, "CANCELLED by 2003", "0:0", 2.6, 0)
    )
    site.ctl(job.end - SECOND, f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={job.id} uid 2003")
    job.say(
        job.end,
        f"slurmstepd: error: *** STEP {job.id}.0 ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} ***",
        f"slurmstepd: error: *** JOB {job.id} ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} ***",
    )
    for gpu in range(GPUS):
        site.nvrm("hn08", job.end + (1 + gpu / 50) * SECOND, gpu, 45, f"Ch 0000000{gpu}")


def time_limit(site: Site) -> None:
    """Six hours were asked for, and six hours it got."""
    job = site.add(
        Job(
            5107,
            "gpt-7b-long",
            "tariq",
            hosts(15, 16),
            DAY + timedelta(days=1, hours=6),
            360,
            "TIMEOUT",
            "0:0",
            4.4,
            30000,
        )
    )
    site.ctl(job.end, f"Time limit exhausted for JobId={job.id}")
    job.say(
        job.end,
        f"slurmstepd: error: *** JOB {job.id} ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***",
        f"slurmstepd: error: *** STEP {job.id}.0 ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***",
    )


def completed(site: Site) -> None:
    """It ends well, though a DIMM of its host corrects an error now and then."""
    job = site.add(
        Job(5108, "eval-suite", "ilse", hosts(13), DAY + timedelta(days=1, hours=9), 88, "COMPLETED", "0:0", 1.9, 0)
    )
    for n in range(5):
        site.kern(
            "hn13",
            job.at(10 + 14 * n),
            "EDAC MC1: 1 CE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x8f1a2b offset:0x4c0 grain:32 syndrome:0x0)",
        )
    job.say(job.end - SECOND, f"[after training is done] datetime: {job.end - SECOND:%Y-%m-%d %H:%M:%S}")


def storage(site: Site) -> None:
    """The file server goes away in the middle of a checkpoint; in the end the collective is what gives up."""
    job = site.add(
        Job(
            5109,
            "gpt-13b",
            "mara",
            hosts(5, 6),
            DAY + timedelta(days=1, hours=13),
            131,
            "FAILED",
            "1:0",
            4.0,
            8000,
            stop_steps=115,
        )
    )
    for n, host in enumerate(job.hosts):
        for k in range(4):
            site.kern(
                host,
                job.at(115.2) + (n + k * 180) * SECOND,
                "nfs: server nas2.heron.example not responding, still trying",
            )
    job.say(job.at(115.1), "saving checkpoint at iteration    9680 to /ckpt/gpt-13b in torch_dist format")
    for host in job.hosts:
        site.kern(host, job.at(118), "INFO: task python3:48200 blocked for more than 120 seconds.")
    for rank in (8, 11):
        job.say(job.at(125.6), *watchdog(rank, job.at(125.6), 71823, 600055 + rank, "BROADCAST"))
    job.say(job.at(126), *agent_ends(job, 8, job.at(126), -6, "Signal 6 (SIGABRT) received by PID 48200"))


def host_memory_limit(site: Site) -> None:
    """A data loader outgrows the memory that the job asked for."""
    job = site.add(
        Job(
            5110,
            "webtext-prep",
            "tariq",
            hosts(14),
            DAY + timedelta(days=2, hours=1),
            42,
            "OUT_OF_MEMORY",
            "0:125",
            2.2,
            0,
            stop_steps=41,
        )
    )
    when = job.at(41.2)
    site.kern("hn14", when, "pt_data_worker invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0")
    site.kern(
        "hn14",
        when + 0.3 * SECOND,
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/system.slice/slurmstepd.scope/job_{job.id},task_memcg=/system.slice/slurmstepd.scope/job_{job.id}/step_0/user/task_0,task=pt_data_worker,pid=48311,uid=2004",
    )
    site.kern(
        "hn14",
        when + 0.31 * SECOND,
        "Memory cgroup out of memory: Killed process 48311 (pt_data_worker) total-vm:412345678kB, anon-rss:262012345kB, file-rss:0kB, shmem-rss:1048576kB, UID:2004 pgtables:512345kB oom_score_adj:0",
    )
    job.say(
        when + SECOND,
        *traceback(2, "batch = next(it)", "RuntimeError: DataLoader worker (pid(s) 48311) exited unexpectedly"),
    )
    job.say(
        when + 3 * SECOND,
        f"slurmstepd: error: Detected 1 oom_kill event in StepId={job.id}.0. Some of the step tasks have been OOM Killed.",
        "srun: error: hn14: task 0: Out Of Memory",
    )


def reboot(site: Site) -> None:
    """One host goes away and comes back by itself. Nothing says why."""
    job = site.add(
        Job(
            5111,
            "gpt-70b",
            "mara",
            hosts(9, 10, 11, 13),
            DAY + timedelta(days=2, hours=4),
            163,
            "NODE_FAIL",
            "0:0",
            9.7,
            5200,
            stop_steps=154,
        )
    )
    back = job.at(158.5)
    site.boots["hn11"].append(back)
    site.ctl(job.at(158), "error: Nodes hn11 not responding")
    site.ctl(job.end, "error: Nodes hn11 not responding, setting DOWN")
    site.ctl(job.end + SECOND, f"Killing JobId={job.id} on failed node hn11")
    site.ctl(
        job.end + 200 * SECOND,
        f"validate_node_specs: Node hn11 unexpectedly rebooted boot_time={int(back.timestamp())} last response={int(job.at(154.2).timestamp())}",
    )
    job.say(
        job.end,
        "srun: error: Node failure on hn11",
        f"slurmstepd: error: *** STEP {job.id}.0 ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    )


def only_a_timeout(site: Site) -> None:
    """A collective times out and no log says why: the honest answer is that nobody knows."""
    job = site.add(
        Job(
            5112,
            "moe-8x7b",
            "tariq",
            hosts(1, 2, 4, 8),
            DAY + timedelta(days=2, hours=10),
            187,
            "FAILED",
            "1:0",
            7.3,
            900,
            stop_steps=172,
        )
    )
    for rank in (1, 6, 20, 28):
        job.say(
            job.at(182.4 + rank / 1000),
            *watchdog(rank, job.at(182.4 + rank / 1000), 300417, 600040 + rank, "ALLGATHER"),
        )
    job.say(job.at(183), *agent_ends(job, 1, job.at(183), -6, "Signal 6 (SIGABRT) received by PID 48201"))


def preempted(site: Site) -> None:
    """A more important job takes its host."""
    job = site.add(
        Job(5113, "sweep-17", "ilse", hosts(15), DAY + timedelta(days=3, hours=2), 57, "PREEMPTED", "0:0", 2.0, 0)
    )
    site.ctl(job.end, f"preempted JobId={job.id} has been killed to reclaim resources for JobId=5114")
    job.say(
        job.end,
        f"slurmstepd: error: *** JOB {job.id} ON {job.hosts[0]} CANCELLED AT {job.end:%Y-%m-%dT%H:%M:%S} DUE TO PREEMPTION ***",
    )


def adapter(site: Site) -> None:
    """The firmware of one network adapter dies; its peers see it as a network error."""
    job = site.add(
        Job(
            5114,
            "gpt-27b",
            "mara",
            hosts(15, 16),
            DAY + timedelta(days=3, hours=3),
            116,
            "FAILED",
            "1:0",
            5.2,
            14100,
            stop_steps=110,
        )
    )
    when = job.at(110.1)
    site.kern("hn16", when, "mlx5_core 0000:9a:00.0: print_health_info:432:(pid 0): synd 0x1: firmware internal error")
    site.kern(
        "hn16",
        when + SECOND,
        "mlx5_core 0000:9a:00.0: mlx5_fw_fatal_reporter_err_work:777:(pid 7291): health recovery failed",
    )
    job.say(
        when + 20 * SECOND,
        "hn15:48202:48902 [2] transport/net_ib.cc:1895 NCCL WARN NET/IB: Got completion from peer 10.20.0.16<41822> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGid fe80::2 hca mlx5_1",
        "[rank2]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.23.4",
    )
    job.say(when + 25 * SECOND, *agent_ends(job, 2, when + 25 * SECOND, 1))


def finished(site: Site) -> None:
    """The last part of the long run ends as it should."""
    job = site.add(
        Job(
            5115,
            "gpt-7b-long",
            "tariq",
            hosts(7, 12),
            DAY + timedelta(days=3, hours=8),
            240,
            "COMPLETED",
            "0:0",
            4.4,
            34900,
        )
    )
    job.say(job.end - SECOND, f"[after training is done] datetime: {job.end - SECOND:%Y-%m-%d %H:%M:%S}")


STORIES = (
    hbm, lost_gpu, gsp, fabric, cuda_oom, cancelled, time_limit, completed, storage, host_memory_limit, reboot,
    only_a_timeout, preempted, adapter, finished,
)  # fmt: skip


# ---- writing ---------------------------------------------------------------------------------------------------


def everyday(site: Site) -> None:
    """What a kernel says on a good day, and what it says when it starts."""
    texts = (
        "perf: interrupt took too long ({n} > 3130), lowering kernel.perf_event_max_sample_rate to 50000",
        "docker0: port {p}(veth{h:07x}) entered forwarding state",
        "eth0: renamed from veth{h:07x}",
        "audit: type=1400 audit({t}.120:{n}): apparmor=\"STATUS\" operation=\"profile_replace\" name=\"docker-default\"",
        "nvidia-peermem nvidia_p2p_get_pages registered {p} regions",
    )  # fmt: skip
    for host in HOSTS:
        at = DAY + site.rng.uniform(0, 2400) * SECOND
        while at < DAY + timedelta(days=4):
            text = site.rng.choice(texts)
            site.kern(
                host,
                at,
                text.format(
                    n=site.rng.randrange(3200, 9000),
                    p=site.rng.randrange(1, 9),
                    h=site.rng.getrandbits(28),
                    t=int(at.timestamp()),
                ),
            )
            at += site.rng.uniform(300, 5400) * SECOND
        for boot in site.boots[host][1:]:
            site.kern(
                host, boot, "Linux version 5.15.0-1066-nvidia (build@heron) (gcc (Ubuntu 11.4.0) 11.4.0) #67-Ubuntu SMP"
            )
            site.kern(
                host,
                boot + 9 * SECOND,
                "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.08  Tue Oct  8 01:23:45 UTC 2024",
            )


def kernel_log(site: Site, host: str) -> str:
    """One host's kernel log: odd hosts in ISO form with a zone, even hosts in the old form without a year."""
    out = []
    for when, text in sorted(site.kernel[host]):
        boot = max(b for b in site.boots[host] if b <= when)
        since = (when - boot) / SECOND
        if int(host[2:]) % 2:
            stamp = when.isoformat(timespec="microseconds")
        else:
            stamp = f"{when:%b} {when.day:2d} {when:%H:%M:%S}"
        out.append(f"{stamp} {host} kernel: [{since:12.6f}] {text}\n")
    return "".join(out)


def accounting(site: Site) -> str:
    rows = ["JobID|JobName|User|Account|Partition|State|ExitCode|Submit|Start|End|Elapsed|NNodes|AllocTRES|NodeList"]
    for job in sorted(site.jobs, key=lambda j: j.id):
        elapsed = job.end - job.start
        hours, rest = divmod(int(elapsed.total_seconds()), 3600)
        times = [f"{t:%Y-%m-%dT%H:%M:%S}" for t in (job.start - timedelta(minutes=3), job.start, job.end)]
        took = f"{hours:02d}:{rest // 60:02d}:{rest % 60:02d}"
        n = len(job.hosts)
        tres = f"billing={96 * n},cpu={96 * n},gres/gpu={GPUS * n},mem={1900 * n}G,node={n}"
        nodes = squeeze(job.hosts)
        rows.append(
            "|".join(
                [
                    str(job.id),
                    job.name,
                    job.user,
                    "research",
                    "train",
                    job.state,
                    job.exit,
                    *times,
                    took,
                    str(n),
                    tres,
                    nodes,
                ]
            )
        )
        step = "CANCELLED" if job.state.startswith(("CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL")) else job.state
        rows.append(
            "|".join([f"{job.id}.0", "torchrun", "", "research", "", step, job.exit, *times, took, str(n), tres, nodes])
        )
    return "\n".join(rows) + "\n"


def controller_log(site: Site) -> str:
    for job in site.jobs:
        if job.state == "COMPLETED" or job.state == "FAILED":
            site.ctl(job.end, f"_job_complete: JobId={job.id} WEXITSTATUS {job.exit[0]}")
            site.ctl(job.end + SECOND / 1000, f"_job_complete: JobId={job.id} done")
    return "".join(
        f"[{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}] {text}\n" for when, text in sorted(site.controller)
    )


def job_log(site: Site, job: Job) -> str:
    rng = random.Random(job.id)
    lines = [*opening(job, rng), *steps(job, rng), *job.lines]
    return "".join(f"{text}\n" for _, text in sorted(lines, key=lambda line: line[0]))


def files(seed: int = 405) -> dict[str, str]:
    """Every file of the site by its path inside the archive."""
    site = Site(seed)
    for story in STORIES:
        story(site)
    everyday(site)
    out = {f"{ROOT}/slurm/sacct.txt": accounting(site), f"{ROOT}/slurm/slurmctld.log": controller_log(site)}
    out.update({f"{ROOT}/hosts/{host}/kern.log": kernel_log(site, host) for host in HOSTS})
    out.update({f"{ROOT}/jobs/slurm-{job.id}.out": job_log(site, job) for job in site.jobs})
    return out


def write(target: Path) -> None:
    """Pack the site. Owners and times are fixed, so the bytes depend on nothing but this file."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in sorted(files().items()):
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            info.mtime = int((DAY + timedelta(days=4)).timestamp())
            archive.addfile(info, io.BytesIO(data))
    with (
        target.open("wb") as out,
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0, filename="") as packed,
    ):
        packed.write(raw.getvalue())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_example.py TARGET.tar.gz")
    write(Path(sys.argv[1]))
