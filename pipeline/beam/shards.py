"""Shard files: what a graph wrote, for the one process that may write the warehouse.

A shard is lines of JSON: a head with rows and parts by kind, then `[kind, parts, payload]` sorted, then a trailer that
counts them. It gets its final name only when it is whole, and the name depends on nothing but the shard's number, so a
bundle that is run again writes the same file again. Paths may be local or of any file system that Beam knows (`s3://`,
`gs://`, `hdfs://`).
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from pipeline.beam.elements import Value
from pipeline.beam.errors import ReceiptError

_PATTERN = "shard-*.jsonl"


def shard_path(folder: str, number: str) -> str:
    """Where the shard of this number lies once it is whole."""
    return str(FileSystems.join(folder, f"shard-{number}.jsonl"))


def write_shard(folder: str, number: str, values: Sequence[Value]) -> int:
    """Writes the values of one shard; returns how many. Overwrites an earlier try of the same shard."""
    rows: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for kind, parts, _ in values:
        rows[kind] += 1
        sums[kind] += parts
    head = json.dumps({kind: [rows[kind], sums[kind]] for kind in sorted(rows)}).encode("ascii")
    final = shard_path(folder, number)
    temporary = FileSystems.join(folder, f"tmp-{number}-{uuid.uuid4().hex}")
    with FileSystems.create(temporary, compression_type=CompressionTypes.UNCOMPRESSED) as out:
        out.write(b'["head",%d,%s]\n' % (len(values), head))
        for kind, parts, payload in values:
            out.write(b'["%s",%d,%s]\n' % (kind.encode("ascii"), parts, payload))
        out.write(b'["end",%d,null]\n' % len(values))
    FileSystems.rename([temporary], [final])
    return len(values)


def below(folder: str, name: str) -> str:
    """A new folder inside `folder`, made now. Raises BeamIOError where it is there already."""
    path = str(FileSystems.join(folder, name))
    FileSystems.mkdirs(path)
    return path


def remove(folder: str) -> None:
    """Deletes a folder of shards with all that is in it."""
    FileSystems.delete([folder])


def shard_paths(folder: str) -> list[str]:
    """Finished shards of a folder, by name."""
    [found] = FileSystems.match([FileSystems.join(folder, _PATTERN)])
    return sorted(meta.path for meta in found.metadata_list)


def read_shard(path: str) -> Iterator[Value]:
    """Values of one shard in the order written. Raises ReceiptError where the trailer is missing or miscounts."""
    n = 0
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as lines:
        for line in lines:
            kind, count, body = _cut(line)
            if kind == "head":
                continue
            if kind == "end":
                if count != n:
                    raise ReceiptError(f"shard {path} holds {n} rows and its trailer says {count}; run it again")
                return
            n += 1
            yield kind, count, body
    raise ReceiptError(f"shard {path} ends after {n} rows without its trailer: it was cut; run the ingest again")


def read_head(path: str) -> dict[str, tuple[int, int]]:
    """(rows, parts) by kind of one shard, from its first line alone."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as lines:
        kind, _, body = _cut(lines.readline())
    if kind != "head":
        raise ReceiptError(f"shard {path} does not begin with its head; it was not written by this version")
    return {name: (rows, parts) for name, (rows, parts) in json.loads(body).items()}


def _cut(line: bytes) -> tuple[str, int, bytes]:
    """Kind, count and payload of a line. The payload is cut out, not parsed: whoever needs it parses it by type."""
    kind, _, rest = line.partition(b",")
    count, _, body = rest.partition(b",")
    return kind[2:-1].decode("ascii"), int(count or 0), body.rstrip(b"\n")[:-1]
