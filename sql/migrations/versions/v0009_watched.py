"""How far files of watched folders are read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Str

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watch_files",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("folder", Str(), nullable=False, comment="the watched folder, links resolved"),
        sa.Column("file", Str(), nullable=False, comment="device and inode, hexadecimal"),
        sa.Column("path", Str(), nullable=False, comment="inside the folder, as it was when the file was first read"),
        sa.Column("source_id", Str(), nullable=False, comment="empty where the file holds none, or several"),
        sa.Column("position", sa.BigInteger(), nullable=False, comment="bytes whose facts are stored"),
        sa.Column("resume_at", sa.BigInteger(), nullable=False, comment="cell border where reading begins again"),
        sa.Column("mark", Str(), nullable=False, comment="digests of the first bytes and of those before the position"),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="bytes when it was last read in full; -1: never"),
        sa.Column("mtime_ns", sa.BigInteger(), nullable=False, comment="its time of modification then"),
        sa.PrimaryKeyConstraint("cluster", "folder", "file", name=op.f("pk_watch_files")),
        comment="files of watched folders that are there; written in the transaction of their facts",
    )
