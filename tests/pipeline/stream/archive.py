"""The example archive as messages of a broker, and as the files that a shipper would have written.

Kernel logs and job output come as Filebeat records with the place of each line in its file; the controller's log comes
as text with headers; accounting rows come as documents, the heading and one row each.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.formats.base import LineFormat, registry, sniff
from pipeline.scanning.lookback import NoBack
from pipeline.stream.messages import Message
from schemas.facts import Stamp

ARCHIVE = Path(__file__).parents[3] / "examples" / "example-site.tar.gz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Sent:
    """One message before it is sent. file: the file that would hold the same, "" for a shipper's record."""

    value: bytes
    time_us: int
    headers: tuple[tuple[str, str], ...] = ()
    file: str = ""

    def fields(self) -> dict[str, Any]:
        """Keywords of `Producer.produce`."""
        return {"value": self.value, "timestamp": self.time_us // 1000, "headers": list(self.headers)}


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in data.splitlines(keepends=True):
        yield at, line.rstrip(b"\n")
        at += len(line)


def _utc(stamp: Stamp, last_us: int) -> int:
    """The archive is of 2026 and in UTC."""
    if stamp.kind in ("utc", "local"):
        return stamp.us
    if stamp.kind == "noyear":
        then = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=stamp.us)
        return (then.replace(year=2026) - _EPOCH) // timedelta(microseconds=1)
    return last_us


def _stamps(fmt: LineFormat, data: bytes) -> Iterator[tuple[int, str, int]]:
    """(offset, line, time of the line or of the one before it)."""
    last = 0
    for at, raw in _lines(data):
        text = raw.decode()
        last = _utc(fmt.frame(text, NoBack()).stamp, last)
        yield at, text, last


def _filebeat(host: str, path: str, at: int, text: str, us: int) -> bytes:
    when = (_EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    record = {
        "@timestamp": when,
        "agent": {"type": "filebeat"},
        "host": {"name": host},
        "log": {"file": {"path": path}, "offset": at},
        "message": text,
    }
    return json.dumps(record).encode()


def _line_format(name: str) -> LineFormat:
    fmt = registry()[name]
    assert isinstance(fmt, LineFormat)
    return fmt


def _sniffed(data: bytes) -> LineFormat:
    fmt = sniff(data, "")
    assert isinstance(fmt, LineFormat)
    return fmt


def archive_messages(path: Path = ARCHIVE) -> list[Sent]:
    """All lines and records of the archive by time; lines of one file stay in order."""
    out: list[Sent] = []
    with tarfile.open(path) as tar:
        members = [(m.name.partition("/")[2], tar.extractfile(m)) for m in tar.getmembers() if m.isfile()]
        files = {name: f.read() for name, f in members if f is not None}
    for name, data in sorted(files.items()):
        if name.endswith("kern.log"):
            host = name.split("/")[1]
            for at, text, us in _stamps(_sniffed(data), data):
                out.append(Sent(_filebeat(host, "/var/log/kern.log", at, text, us), us))
        elif name.startswith("jobs/"):
            for at, text, us in _stamps(_line_format("joblog"), data):
                if us:
                    out.append(Sent(_filebeat("login01", f"/scratch/{name}", at, text, us), us))
        elif name == "slurm/slurmctld.log":
            headers = (("source", name), ("host", "ctl01"), ("format", "slurm_daemon"))
            for at, text, us in _stamps(_line_format("slurm_daemon"), data):
                out.append(Sent(text.encode(), us, (*headers, ("offset", str(at))), name))
        elif name == "slurm/sacct.txt":
            out.extend(_rows(name, data))
        else:
            msg = f"the archive has a file that this does not know: {name}"
            raise AssertionError(msg)
    return sorted(out, key=lambda s: s.time_us)


def _rows(name: str, data: bytes) -> Iterator[Sent]:
    heading, *rows = data.decode().splitlines()
    names = heading.split("|")
    end = names.index("End")
    for row in rows:
        us = (datetime.fromisoformat(row.split("|")[end]).replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
        yield Sent(f"{heading}\n{row}\n".encode(), us, (("source", name), ("format", "sacct")), name)


def write_files(sent: Sequence[Sent], folder: Path) -> None:
    """The same as files: shippers' records in one, the rest as they were."""
    files: dict[str, list[bytes]] = {}
    for one in sent:
        name = one.file or "shipped.ndjson"
        body = one.value
        if name.endswith("sacct.txt") and name in files:
            body = body.split(b"\n", 1)[1]
        files.setdefault(name, []).append(body.rstrip(b"\n") + b"\n")
    for name, lines in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(lines))


def as_messages(sent: Iterable[Sent], topic: str = "events", partitions: int = 1) -> list[Message]:
    """Messages as a broker would give them back, spread over partitions in turn."""
    offsets = [0] * partitions
    out = []
    for n, one in enumerate(sent):
        part = n % partitions
        out.append(Message(topic, part, offsets[part], one.time_us, one.value, dict(one.headers)))
        offsets[part] += 1
    return out
