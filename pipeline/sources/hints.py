"""What the path of an input says: job ids and host names. Hints only; text in the file weighs more.

Job ids: `slurm-123.out`, `slurm-123_4.out`, `job_123/...`, `jobs/123/...`, `123.log`. Hosts: `hosts/<h>/kern.log`,
`<h>/dmesg`, `kern-<h>.log`, `<h>.kern.log`.
"""

from __future__ import annotations

import re

from schemas.identity import logical_path, short_host

_SLURM = re.compile(
    r"(?:^|[/_.-])slurm-(\d{1,10}(?:_\d{1,7})?)(?:[_.-](?:node)?[\w-]{0,40})?\.(?:out|err|log|txt)$", re.I
)
_JOB_NAME = re.compile(r"(?:^|[/_.-])(?:jobs?|jobid|job_id)[_=.-]?(\d{2,10}(?:_\d{1,7})?)(?=[/_.-]|$)", re.I)
_JOB_DIR = re.compile(r"(?:^|/)jobs?/(\d{1,10}(?:_\d{1,7})?)(?=[/.]|$)", re.I)
_BARE = re.compile(r"(?:^|[/_-])(\d{4,10}(?:_\d{1,7})?)\.(?:out|err|log|stdout|stderr)$")
_DATE = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])?(?:\d{2})?$")

_HOST = r"[A-Za-z][A-Za-z0-9-]{0,60}(?:\.[A-Za-z0-9-]{1,60}){0,6}"
_KIND = (
    r"(?:kern|kernel|dmesg|syslog|messages|journal|journalctl|console|sel|ipmi|bmc|nvidia-bug-report|nvidia-smi|dcgm"
    r"|slurmd|host|node|vmcore-dmesg|trace|py-?spy|stack|rasdaemon|mcelog|ibstat|ethtool|df|last|free|lspci)"
)
_HOST_DIR = re.compile(rf"(?:^|/)(?:hosts?|nodes?|machines?)/({_HOST})/")
_PARENT = re.compile(rf"(?:^|/)({_HOST})/{_KIND}(?:[._-][\w.-]*)?$", re.I)
_KIND_FIRST = re.compile(rf"(?:^|/){_KIND}[-_.]({_HOST}?)(?:\.(?:log|txt|out|json|gz))+$", re.I)
_HOST_FIRST = re.compile(rf"(?:^|/)({_HOST}?)[-_.]{_KIND}(?:\.(?:log|txt|out|json|gz))*$", re.I)
_NO_HOST_TEXT = (
    "log logs var host hosts node nodes data files archive archives input output out job jobs current old tmp run runs "
    "cluster system kernel raw case cases incident dump dumps collected evidence err error errors short iso full all "
    "previous boot new prod test combined merged part"
)
_NO_HOST = frozenset(_NO_HOST_TEXT.split())


def job_ids(path: str) -> tuple[str, ...]:
    """Ids of scheduler jobs in a path inside the root, sorted; dates are none."""
    path = logical_path(path)
    found: set[str] = set()
    for pattern in (_SLURM, _JOB_NAME, _JOB_DIR, _BARE):
        found.update(match.group(1) for match in pattern.finditer(path))
    return tuple(sorted(i for i in found if not _DATE.match(i)))


def host(path: str) -> str:
    """The host whose log a path says this is, `short_host` applied, "" if it does not say."""
    path = logical_path(path)
    for pattern in (_HOST_DIR, _PARENT, _KIND_FIRST, _HOST_FIRST):
        for match in pattern.finditer(path):
            name = short_host(match.group(1))
            # a host of a cluster carries a number; a plain word is as likely a folder
            if name not in _NO_HOST and (any(c.isdigit() for c in name) or pattern is _HOST_DIR):
                return name
    return ""
