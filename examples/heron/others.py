"""Jobs that their owners, the scheduler or nobody stopped."""

from __future__ import annotations

from datetime import timedelta

from heron.printed import agent_ends, traceback, watchdog
from heron.site import DAY, GPUS, SECOND, Job, Site, hosts


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
