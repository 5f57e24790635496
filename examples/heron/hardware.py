"""Jobs that a part of the site stopped."""

from __future__ import annotations

from datetime import timedelta

from heron.printed import agent_ends, traceback, watchdog
from heron.site import BUS, DAY, GPUS, SECOND, Job, Site, hosts


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
            rank, "loss = model(batch)", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
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
    site.kern("hn02", job.end + timedelta(minutes=30), "reboot: Restarting system")
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
