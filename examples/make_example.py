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
from datetime import timedelta
from pathlib import Path

from heron import hardware, others
from heron.printed import opening, steps
from heron.site import DAY, GPUS, HOSTS, ROOT, SECOND, Job, Site, squeeze

STORIES = (
    hardware.hbm,
    hardware.lost_gpu,
    hardware.gsp,
    hardware.fabric,
    others.cuda_oom,
    others.cancelled,
    others.time_limit,
    others.completed,
    hardware.storage,
    others.host_memory_limit,
    hardware.reboot,
    others.only_a_timeout,
    others.preempted,
    hardware.adapter,
    others.finished,
)


def everyday(site: Site) -> None:
    """What a kernel says on a good day, and what it says when it starts."""
    texts = (
        "perf: interrupt took too long ({n} > 3130), lowering kernel.perf_event_max_sample_rate to 50000",
        "docker0: port {p}(veth{h:07x}) entered forwarding state",
        "eth0: renamed from veth{h:07x}",
        'audit: type=1400 audit({t}.120:{n}): apparmor="STATUS" operation="profile_replace" name="docker-default"',
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


def job_log(job: Job) -> str:
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
    out.update({f"{ROOT}/jobs/slurm-{job.id}.out": job_log(job) for job in site.jobs})
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
