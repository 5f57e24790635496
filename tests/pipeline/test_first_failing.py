"""The first failing rank and host, from what each launcher and framework prints of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from schemas.settings import Settings

STEPS = "\n".join(f"2026-05-17 09:{n:02d}:11 iteration {n * 10}/5000 loss {3 - n / 50:.3f}" for n in range(1, 12))
BLOCK = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-05-17_09:13:05
  host      : kt-19
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 9102)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-05-17_09:13:02
  host      : kt-19.cluster
  rank      : 12 (local_rank: 4)
  exitcode  : 1 (pid: 9105)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
NCCL = (
    "kt-2:{pid}:{pid} [{dev}] NCCL INFO comm 0x55d0 rank {rank} nranks {size} cudaDev {dev} nvmlDev {dev} "
    "busId 4d000 {end}"
)
COMPLETE = "commId 0x77 - Init COMPLETE"
#: name -> (text behind the steps, host, rank)
SAID: dict[str, tuple[str, str | None, int | None]] = {
    "torchelastic, torchrun, accelerate, torchtitan": (
        f"RuntimeError: found no tensor with that name\n{BLOCK}", "kt-19", 12,
    ),
    "torchelastic: the agent's line alone, one host": (
        "ValueError: bad shape\nE0517 09:13:02.000000 88001 torch/distributed/elastic/multiprocessing/api.py:869] "
        "failed (exitcode: 1) local_rank: 3 (pid: 88231) of binary: /usr/bin/python3",
        None, 3,
    ),
    "torch.multiprocessing.spawn": (
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 3 terminated with the following error:\n"
        "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\nKeyError: 'lr'",
        None, 3,
    ),
    "Lightning": (
        "KeyError: 'lr'\n[rank: 2] Child process with PID 13117 terminated with code 1. Forcefully terminating all "
        "other processes to avoid zombies",
        None, 2,
    ),
    "Megatron": (
        "AssertionError: Rank 11: found NaN in local grad norm in backward pass before data-parallel communication "
        "collective. Device: 3, node: kt-22",
        "kt-22", 11,
    ),
    "NeMo": ("[RankMonitorServer rank=3] Did not get subsequent heartbeat. Waited 600.00 seconds.", None, 3),
    "DeepSpeed": (
        "kt-4: KeyError: 'lr'\nkt-4: [2026-05-17 09:13:02,123] [ERROR] [launch.py:325:sigkill_handler] "
        "['/usr/bin/python3', '-u', 'train.py', '--local_rank=3'] exits with return code = 1",
        "kt-4", 3,
    ),
    "Ray": (
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: create_colocated_worker_cls.<locals>.WorkerDict\n\tactor_id: 31f0\n\tpid: 27497\n"
        "\tname: x9WorkerDict_0:3\n\tnamespace: 11\n\tip: 10.0.0.7\nValueError: bad batch",
        "10.0.0.7", 3,
    ),
    "JAX": (
        "E0517 09:13:02.123456 88231 coordination_service.cc:1189] The following tasks are unhealthy (stopped sending "
        "heartbeats): /job:jax_worker/replica:0/task:17",
        None, 17,
    ),
    "Open MPI": (
        "mpirun noticed that process rank 7 with PID 6291 on node kt-5 exited on signal 9 (Killed).", "kt-5", 7,
    ),
    "PRRTE": (
        "prterun noticed that process rank 7 with PID 6291 on node kt-5 exited on signal 11 (Segmentation fault).",
        "kt-5", 7,
    ),
    "MPI_Abort": (
        "MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n--\n"
        "Primary job  terminated normally, but 1 process returned\na non-zero exit code.",
        None, 5,
    ),
    "Hydra": (
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 6 PID 4411 RUNNING AT kt-8\n"
        "=   KILLED BY SIGNAL: 11 (Segmentation fault)",
        "kt-8", 6,
    ),
    "srun": (
        "KeyError: 'lr'\nsrun: error: kt-9: task 21: Exited with exit code 1\n"
        "srun: error: kt-9: tasks 16-20,22-23: Terminated",
        "kt-9", 21,
    ),
    "NCCL: the device in front of the message": (
        "\n".join(NCCL.format(pid=400 + r, dev=r % 4, rank=8 + r % 4, size=16, end=COMPLETE) for r in range(4))
        + "\n" + "\n".join(NCCL.format(pid=400 + r, dev=r, rank=r, size=4, end=COMPLETE) for r in range(4))
        + "\nkt-2:402:530 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.4.147<38560> "
        "with error 12, opcode 0, len 0, vendor err 129",
        "kt-2", 10,
    ),
    "NCCL: the ring that rank 0 prints": (
        "kt-2:411:502 [0] NCCL INFO Channel 00/02 :    0   8\n"
        "kt-2:411:530 [0] transport/net_ib.cc:1096 NCCL WARN NET/IB : Got completion from peer 10.1.4.147<38560> with "
        "error 12, opcode 0, len 0, vendor err 129",
        "kt-2", 0,
    ),
    "NCCL: only parts of the job are known": (
        "world_size=64\n" + NCCL.format(pid=402, dev=2, rank=1, size=4, end=COMPLETE)
        + "\nkt-2:402:530 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.4.147<38560> "
        "with error 12, opcode 0, len 0, vendor err 129",
        "kt-2", None,
    ),
    "NCCL: the host of a rank": (
        "\n".join(NCCL.format(pid=400 + r, dev=r, rank=8 + r, size=16, end=COMPLETE) for r in range(4))
        + "\n[rank10]: Traceback (most recent call last):\n[rank10]: KeyError: 'lr'",
        "kt-2", 10,
    ),
    "Slurm: the host of a task": (
        "SLURM_PROCID=4 SLURM_LOCALID=0 SLURMD_NODENAME=kt-6\nSLURM_PROCID=9 SLURM_LOCALID=1 SLURMD_NODENAME=kt-7\n"
        "[rank9]: Traceback (most recent call last):\n[rank9]: KeyError: 'lr'",
        "kt-7", 9,
    ),
    "nothing says it": ("KeyError: 'lr'", None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_first_failing_is_what_the_launcher_says(tmp_path: Path, name: str):
    text, host, rank = SAID[name]
    (tmp_path / "job.log").write_text(f"{STEPS}\n{text}\n")
    incidents = diagnose([tmp_path], Settings(tz="UTC", engine="re2")).document.incidents
    assert len(incidents) == 1
    first = incidents[0].first_failing
    assert (first.host, first.rank) == (host, rank)


def test_a_local_rank_is_global_by_the_scheduler_record(tmp_path: Path):
    (tmp_path / "sacct.txt").write_text(
        "JobID|State|Start|End|ExitCode|NodeList|NNodes|AllocTRES\n"
        "700|FAILED|2026-05-17T09:00:00|2026-05-17T09:13:30|1:0|kt-[1-4]|4|gres/gpu=32,node=4\n"
    )
    (tmp_path / "slurm-700.out").write_text(
        f"{STEPS}\nkt-3: KeyError: 'lr'\nkt-3: [2026-05-17 09:13:02,123] [ERROR] [launch.py:325:sigkill_handler] "
        "['/usr/bin/python3', '-u', 'train.py', '--local_rank=5'] exits with return code = 1\n"
    )
    (incident,) = diagnose([tmp_path], Settings(tz="UTC", engine="re2")).document.incidents
    assert (incident.first_failing.host, incident.first_failing.rank) == ("kt-3", 21)
