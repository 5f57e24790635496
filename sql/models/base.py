"""What all tables share: the metadata with its naming convention, and columns that recur."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, MetaData

from sql.types import Str

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def cluster_column() -> Column[Any]:
    """First part of every key: two clusters in one warehouse never touch each other's rows."""
    return Column("cluster", Str, primary_key=True, comment="name of the cluster given at ingest")


def ingest_column() -> Column[Any]:
    """The ingest that last changed the row; 0 outside of any ingest, negative for a stream (`stream_touched.mark`)."""
    return Column("ingest_id", BigInteger, nullable=False, server_default="0", comment="ingest that last changed it")
