"""How rows get their ids: short digests of what a thing is, never of where or when it was read.

Every id is the first 20 hex digits of a SHA-256 over length-prefixed parts, so that no two part lists collide by
concatenation. Secrets are masked before a text takes part in an id.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

_ROTATION = re.compile(r"(?:[.-]\d{8}(?:-\d+)?|\.\d{1,3})?(?:\.(?:gz|zst|xz|bz2))?$")


def digest(*parts: str | bytes | int | None) -> str:
    """20 hex digits that name the list of parts."""
    h = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str("" if part is None else part).encode("utf-8", "surrogateescape")
        h.update(len(raw).to_bytes(8, "big"))
        h.update(raw)
    return h.hexdigest()[:20]


def logical_path(inner_path: str) -> str:
    """A path inside its input root, without rotation and compression endings: `kern.log.2.gz` -> `kern.log`."""
    return _ROTATION.sub("", inner_path) or inner_path


def source_id(inner_path: str, head: bytes) -> str:
    """Id of an input file: its logical path inside the root and its first line (at most 4 KiB of it).

    A file that grew, was compressed or rotated keeps its id; a moved root changes nothing. Two files with one
    path and one first line are told apart by what follows (`schemas.trail`).
    """
    first_line = head[:4096].split(b"\n", 1)[0]
    return digest("source", logical_path(inner_path), first_line)


def signal_id(source: str, rule: str, key: str, host: str, template: str, bucket: str, torn: int = -1) -> str:
    """Id of a folded signal; of a line that the end of the source cut, it is the cut's own."""
    parts = (source, rule, key, host, template, bucket)
    return digest(*parts) if torn < 0 else digest(*parts, "torn", torn)


def stream_id(source: str, key: str) -> str:
    """The source id of one stream of a shipped file."""
    return digest("stream", source, key)


def run_key(scheduler: str, cluster: str, job_id: str, start: str, attempt_stamp: str = "") -> str:
    """Key of one attempt of a job that a scheduler knows. `start` is the stamp as printed by the scheduler."""
    return digest("run", scheduler, cluster, job_id, start, attempt_stamp)


def log_run_key(source: str, offset: int) -> str:
    """Key of one attempt that is known only from a log: the source and the offset of its first line."""
    return digest("run-log", source, offset)


def incident_id(kind: str, *identity: str | int | None) -> str:
    """Id of an incident: its kind with the run key, or with (host, device, cause family, first minute)."""
    return digest("incident", kind, *identity)


@lru_cache(maxsize=65_536)  # clusters have few hosts, and node lists name them over and over
def short_host(name: str) -> str:
    """The name by which a host is joined: lower case, no domain, no trailing dot; addresses stay whole."""
    name = name.strip().strip(".").lower()
    if not name or re.fullmatch(r"[\d.]+|[0-9a-f:]+:[0-9a-f:]*", name):
        return name
    return name.split(".", 1)[0]
