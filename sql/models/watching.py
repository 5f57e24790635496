"""The table of `faultbeam watch`: how far each file of a watched folder has been read."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Table

from sql.models.base import cluster_column, metadata
from sql.types import Str

watch_files = Table(
    "watch_files",
    metadata,
    cluster_column(),
    Column("folder", Str, primary_key=True, comment="the watched folder, links resolved"),
    Column("file", Str, primary_key=True, comment="device and inode, hexadecimal"),
    Column("path", Str, nullable=False, comment="inside the folder, as it was when the file was first read"),
    Column("source_id", Str, nullable=False, comment="empty where the file holds none, or several"),
    Column("position", BigInteger, nullable=False, comment="bytes whose facts are stored"),
    Column("resume_at", BigInteger, nullable=False, comment="cell border where reading begins again"),
    Column("mark", Str, nullable=False, comment="digests of the first bytes and of those before the position"),
    Column("size", BigInteger, nullable=False, comment="bytes when it was last read in full; -1: never"),
    Column("mtime_ns", BigInteger, nullable=False, comment="its time of modification then"),
    comment="files of watched folders that are there; written in the transaction of their facts",
)
