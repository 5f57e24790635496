"""What a busy cluster sends to a broker, at a given rate: for `benchmarks.stream_load`.

    python -m benchmarks.stream_traffic --bootstrap HOST:PORT --topic T --seconds 60 --plan FILE

Filebeat records of kernel logs and job output, and accounting rows. Three kinds: lines that carry a signal (errors that
harm nobody, and what ranks print), noise, and jobs that start and end all the time; one in three is stopped by a GPU
that falls off the bus of one of its hosts. The plan file gets a JSON line for each job that ended: its id, the time,
whether it failed, and the host.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_NOISE = (
    'audit: type=1400 audit(1772512267.{n}:45): apparmor=\\"ALLOWED\\" operation=\\"open\\" profile=\\"x\\" pid={n}',
    "perf: interrupt took too long ({n} > 3130), lowering kernel.perf_event_max_sample_rate to 50000",
    "docker0: port 3(veth{h}) entered forwarding state",
    "eth0: renamed from veth{h}",
    "nvidia-peermem nvidia_p2p_get_pages registered {n} regions",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{h}: link becomes ready",
)
_SIGNALS = (
    "pcieport 0000:{p}:01.0: AER: Corrected error received: 0000:{p}:00.0",
    "mlx5_core 0000:{p}:00.0: mlx5_pcie_event:301: Detected insufficient power on the PCIe slot (27W).",
    "pcieport 0000:{p}:01.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
)
_BUSES = ("4d", "b1", "c3")
_HEADING = "JobID|JobName|User|State|ExitCode|Submit|Start|End|NNodes|AllocTRES|NodeList"
HOSTS_OF_A_JOB = 8
JOB_S = 60.0
#: Messages of one partition keep their order; what belongs to one host or job goes to one partition.
Item = tuple[int, bytes, list[tuple[str, bytes]]]  # (what it belongs to, value, headers)


@dataclass(slots=True)
class Job:
    """A job on some hosts, by number. ends: wall clock, seconds."""

    number: int
    slot: int
    begins: float
    ends: float
    failed: bool

    @property
    def hosts(self) -> range:
        return range(self.slot * HOSTS_OF_A_JOB, (self.slot + 1) * HOSTS_OF_A_JOB)


def host_name(number: int) -> str:
    """Name of a host."""
    return f"gx{number:04d}"


def _stamp(at: float) -> bytes:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _syslog(at: float) -> bytes:
    """Head of a line of rsyslog's old form."""
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%b} {when.day:2d} {when:%H:%M:%S}".encode()


def _second(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"


class _File:
    """A file that a shipper follows: its offset only grows."""

    def __init__(self, host: str, path: str, owner: int) -> None:
        self.owner = owner
        self._offset = 0
        self._host = host.encode()
        self._head = (
            b'{"@timestamp":"%b","agent":{"type":"filebeat"},"ecs":{"version":"8.0.0"},"host":{"name":"'
            + host.encode()
            + b'"},"input":{"type":"filestream"},"log":{"file":{"path":"'
            + path.encode()
            + b'"},"offset":%d},"message":"%b"}'
        )

    def kernel(self, stamp: bytes, head: bytes, text: bytes) -> Item:
        """A line of the kernel log. head: time in the line."""
        return self.line(stamp, b"%b %b kernel: %b" % (head, self._host, text))

    def line(self, stamp: bytes, text: bytes) -> Item:
        self._offset += len(text) + 1
        return self.owner, self._head % (stamp, self._offset, text), []


class Traffic:
    """Makes the messages of moments in order. hosts: a multiple of eight. rates: messages a second."""

    def __init__(self, hosts: int, signals: float, noise: float, seed: int, began: float) -> None:
        self._rng = random.Random(seed)
        self._rates = (signals, noise)
        self._due = [0.0, 0.0]
        self._at = began
        self._began = began
        names = [host_name(n) for n in range(hosts)]
        self._kernel = [_File(name, "/var/log/kern.log", n) for n, name in enumerate(names)]
        self._texts = tuple(self._pool(texts) for texts in (_SIGNALS, _NOISE))
        self._numbers = itertools.count(100_001)
        self._jobs: list[Job] = []
        self.ended: list[dict[str, Any]] = []
        self._to_begin = [
            self._job(slot, began - self._rng.random() * JOB_S) for slot in range(hosts // HOSTS_OF_A_JOB)
        ]

    def until(self, now: float) -> Iterator[Item]:
        """Everything that is sent from the last call to this moment."""
        passed, self._at = now - self._at, now
        stamp, head = _stamp(now), _syslog(now)
        for job in self._to_begin:
            yield from self._begin(job)
        self._to_begin = []
        for job in [j for j in self._jobs if j.ends <= now]:
            self._jobs.remove(job)
            yield from self._end(job)
            self._to_begin.append(self._job(job.slot, now))
        for kind, rate in enumerate(self._rates):
            self._due[kind] += rate * passed
            count = int(self._due[kind])
            self._due[kind] -= count
            files, texts = self._kernel, self._texts[kind]
            for host, text in zip(self._choices(len(files), count), self._choices(len(texts), count), strict=True):
                yield files[host].kernel(stamp, head, texts[text])

    def _choices(self, below: int, count: int) -> list[int]:
        start, step = self._rng.randrange(below), self._rng.choice((7, 11, 13, 17, 19, 23, 29, 31, 37))
        return [(start + step * n) % below for n in range(count)]

    def _pool(self, texts: tuple[str, ...]) -> list[bytes]:
        pool = []
        for number in range(4001):
            values = {"n": self._rng.randrange(1000, 99999), "h": f"{self._rng.getrandbits(28):07x}", "u": number}
            values["p"] = self._rng.choice(_BUSES)
            pool.append(f"[{1000 + number / 7:.6f}] {self._rng.choice(texts).format(**values)}".encode())
        return pool

    def _job(self, slot: int, begins: float) -> Job:
        failed = self._rng.random() < 1 / 3
        return Job(next(self._numbers), slot, begins, begins + JOB_S * self._rng.uniform(0.8, 1.2), failed)

    def _begin(self, job: Job) -> Iterator[Item]:
        self._jobs.append(job)
        yield self._row(job, "RUNNING", "0:0", "Unknown")

    def _end(self, job: Job) -> Iterator[Item]:
        """What is printed around the end, in its order; the row of the scheduler comes last and says the end."""
        # always the same of a slot's hosts: the window before a job's end reaches into the jobs before it
        culprit = job.hosts[job.slot % HOSTS_OF_A_JOB]
        log = _File("login01", f"/scratch/jobs/slurm-{job.number}.out", job.number)
        at = job.ends
        for step in range(5):
            stamp = _stamp(at - 12 + step)
            text = f"{_second(at - 12 + step)} step: {step + 1} loss: 2.{self._rng.randrange(10**4)} grad_norm: 0.4"
            yield log.line(stamp, text.encode())
        if job.failed:
            text = "[4242.424242] NVRM: Xid (PCI:0000:b1:00): 79, pid=4242, name=python3, GPU has fallen off the bus."
            yield self._kernel[culprit].kernel(_stamp(at - 5), _syslog(at - 5), text.encode())
            for rank in range(HOSTS_OF_A_JOB):
                host = host_name(job.hosts[rank])
                said = (
                    f"[rank{rank * 8}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, "
                    "unhandled system error"
                )
                yield log.line(_stamp(at - 3), f"{host}: {said}".encode())
        yield self._row(job, "FAILED" if job.failed else "COMPLETED", "1:0" if job.failed else "0:0", _second(at))
        told = {"job": job.number, "end": at, "failed": job.failed, "host": host_name(culprit) if job.failed else ""}
        self.ended.append(told)

    def _row(self, job: Job, state: str, code: str, end: str) -> Item:
        first, last = job.hosts[0], job.hosts[-1]
        row = (
            f"{job.number}|pretrain|user1|{state}|{code}|{_second(job.begins - 60)}|{_second(job.begins)}|{end}|"
            f"{HOSTS_OF_A_JOB}|gres/gpu={HOSTS_OF_A_JOB * 8}|gx[{first:04d}-{last:04d}]"
        )
        headers = [("format", b"sacct"), ("source", b"slurm/sacct.txt"), ("host", b"ctl01")]
        return job.number, f"{_HEADING}\n{row}\n".encode(), headers


@dataclass(slots=True)
class Sent:
    """What was sent. behind_s: how far the sender fell behind at worst."""

    messages: int = 0
    seconds: float = 0.0
    behind_s: float = 0.0


def send(bootstrap: str, topic: str, traffic: Traffic, seconds: float) -> Sent:
    """Send in step with the clock for so long, and wait until the broker has all."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 512 * 1024,
        }
    )
    partitions = len(producer.list_topics(topic, timeout=10).topics[topic].partitions)
    sent, began = Sent(), time.time()
    while (now := time.time()) < began + seconds:
        for owner, value, headers in traffic.until(now):
            while True:
                try:
                    producer.produce(topic, value, partition=owner % partitions, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.05)
            sent.messages += 1
        producer.poll(0)
        took = time.time() - now
        sent.behind_s = max(sent.behind_s, took - 0.02)
        time.sleep(max(0.0, 0.02 - took))
    sent.seconds = time.time() - began
    left = producer.flush(120)
    if left:
        raise SystemExit(f"{left} messages were not taken by the broker within 120 s")
    return sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--signals", type=float, default=5000, help="messages a second that carry a signal")
    parser.add_argument("--noise", type=float, default=50000, help="noise lines a second, one a message")
    parser.add_argument("--hosts", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plan", type=Path, required=True)
    args = parser.parse_args()
    traffic = Traffic(args.hosts, args.signals, args.noise, args.seed, time.time())
    sent = send(args.bootstrap, args.topic, traffic, args.seconds)
    lines = [{"messages": sent.messages, "seconds": sent.seconds, "behind_s": sent.behind_s}, *traffic.ended]
    args.plan.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
