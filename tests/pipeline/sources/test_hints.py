"""What paths say."""

from __future__ import annotations

import pytest

from pipeline.sources import hints


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("slurm-682842.out", ("682842",)),
        ("logs/slurm-682842_2.out", ("682842_2",)),
        ("jobs/4711/rank0.log", ("4711",)),
        ("job_4711/err.log.1.gz", ("4711",)),
        ("out/700003.log", ("700003",)),
        ("train-700003_12.err", ("700003_12",)),
        ("20260303.log", ()),
        ("kern.log", ()),
        ("job.log", ()),
        ("hosts/gx-0117/kern.log", ()),
    ],
)
def test_job_ids(path, ids):
    assert hints.job_ids(path) == ids


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("hosts/gx-0117/kern.log", "gx-0117"),
        ("nodes/alpha/syslog", "alpha"),
        ("gx-0117.cluster.example/dmesg", "gx-0117"),
        ("kern-gx-0117.log", "gx-0117"),
        ("gx-0117.kern.log", "gx-0117"),
        ("a/dmesg.gx7.txt", "gx7"),
        ("kern.log", ""),
        ("logs/kern.log", ""),
        ("kern.log.2.gz", ""),
        ("job.log", ""),
    ],
)
def test_hosts(path, host):
    assert hints.host(path) == host
