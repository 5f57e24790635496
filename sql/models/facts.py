"""Fact tables: what the bytes of the inputs say. They only grow; merging is done by `schemas.facts.merge_*`.

Stamps keep the frame in which they were printed (`*_kind`, `*_us`, `*_borrowed`). Columns named `*_at`, and `host`,
`signal`, `component`, `device` of `signals`, are derived when sources are placed and may change with later facts.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, Table, text

from sql.models.base import cluster_column, ingest_column, metadata
from sql.types import Json, Real, Str, UtcMicros


def _stamp(name: str) -> tuple[Column[Any], ...]:
    return (
        Column(f"{name}_kind", Str, nullable=False, comment="utc, local, noyear, time, mono or none"),
        Column(f"{name}_us", BigInteger, nullable=False, comment="microseconds in that frame"),
        Column(f"{name}_borrowed", Boolean, nullable=False, comment="taken from the nearest earlier stamped line"),
    )


sources = Table(
    "sources",
    metadata,
    cluster_column(),
    Column("source_id", Str, primary_key=True, comment="names the file by content, whatever its path"),
    Column("path", Str, nullable=False, comment="first of inner_paths (OpenTelemetry log.file.path)"),
    Column("inner_paths", Json, nullable=False, comment="paths inside the input roots"),
    Column("root", Str, nullable=False, comment="name of the input root"),
    Column("format", Str, nullable=False),
    Column("family", Str, nullable=False, comment="kernel, syslog, scheduler, job, cluster, bmc or other"),
    Column("size", BigInteger, nullable=False, comment="decompressed bytes accounted for"),
    Column("mtime_us", BigInteger),
    Column("host", Str, nullable=False, comment="from path or header; empty if unknown (host.name)"),
    Column("spans", Json, nullable=False, comment="[kind, least us, greatest us]"),
    Column("clocks", Json, nullable=False, comment="[kind of wall clock, mono us, us]"),
    Column("names", Json, nullable=False, comment="[host name printed in the lines, count]"),
    Column("job_ids", Json, nullable=False),
    Column("rank_hosts", Json, nullable=False, comment="[rank, host]"),
    Column("facts", Json, nullable=False, comment="name=value found in the text"),
    Column("lines", BigInteger),
    Column("signal_lines", BigInteger, nullable=False),
    Column("unparsed_lines", BigInteger, nullable=False),
    Column("ranges", Json, nullable=False, comment="[start, end, lines, signal lines, unparsed lines]"),
    Column("note", Str),
    ingest_column(),
    Column("reach", BigInteger, nullable=False, server_default="0", comment="bytes of the file whose stream this is"),
    Column("base", Str, nullable=False, server_default=text("''"), comment="id of path and first line alone"),
    Column(
        "trail", Str, nullable=False, server_default=text("''"), comment="digests that tell files of one base apart"
    ),
    Column("clock", Str, comment="digest of the clock and host that it was last decided with; derived"),
    Index("ix_sources_base", "cluster", "base"),
    comment="one row an input file or archive member",
)

#: A hundredth of the signals; as `review_checkpoint_marks` says it, word for word, or its index would not be used.
_OF_CHECKPOINTS = "rule IN ('mark_ckpt_begin', 'mark_ckpt_saved', 'mark_ckpt_seconds', 'mark_ckpt_load')"

signals = Table(
    "signals",
    metadata,
    cluster_column(),
    Column("signal_id", Str, primary_key=True),
    Column("source_id", Str, nullable=False),
    Column("rule", Str, nullable=False),
    Column("fact_key", Str, nullable=False, comment="identity fields, name=value joined by ;"),
    Column("printed_host", Str, nullable=False, comment="as printed in the line; empty if none"),
    Column("template", Str, nullable=False, comment="text with numbers, addresses and hex masked"),
    Column("bucket", Str, nullable=False, comment="minute of the stamp's frame, else 64 KiB cell"),
    *_stamp("first"),
    Column("first_offset", BigInteger, nullable=False, comment="byte in the decompressed member"),
    Column("first_line", BigInteger, comment="1-based, null where unknown"),
    *_stamp("last"),
    Column("last_offset", BigInteger, nullable=False),
    Column("text", Str, nullable=False, comment="secrets masked"),
    Column("fields", Json, nullable=False, comment="[name, value]"),
    Column("ranks", Json, nullable=False, comment="[us, offset, rank], the smallest, one a rank"),
    Column("counts", Json, nullable=False, comment="[64 KiB cell, count]"),
    Column("count", BigInteger, nullable=False, comment="sum of counts: lines in this source"),
    # derived when placed
    Column("host", Str, comment="host the signal belongs to (host.name)"),
    Column("first_at", UtcMicros),
    Column("last_at", UtcMicros),
    Column("signal", Str, comment="name of the signal, such as xid.94"),
    Column("component", Str),
    Column("device", Str, comment="normalised device (hw.id)"),
    ingest_column(),
    Column("torn", BigInteger, nullable=False, server_default="-1", comment="size at which the source cut the line"),
    Index("ix_signals_source", "cluster", "source_id"),
    Index("ix_signals_host_first_at", "cluster", "host", "first_at"),
    Index("ix_signals_first_at", "cluster", "first_at"),
    Index("ix_signals_rule_first_at", "cluster", "rule", "first_at"),
    Index(
        "ix_signals_checkpoint",
        "cluster",
        "source_id",
        "first_offset",
        sqlite_where=text(_OF_CHECKPOINTS),
        postgresql_where=text(_OF_CHECKPOINTS),
    ),
    comment="folded signals: one row a rule, identity, masked text, host, minute and source",
)

signal_lines = Table(
    "signal_lines",
    metadata,
    cluster_column(),
    Column("signal_id", Str, primary_key=True),
    Column("cell", BigInteger, primary_key=True, autoincrement=False, comment="addresses // 65536"),
    Column("lines", LargeBinary, nullable=False, comment="addresses in the cell, each two bytes, least byte first"),
    Column("changed_us", BigInteger, nullable=False, comment="wall clock, us since 1970"),
    Index("ix_signal_lines_changed_us", "cluster", "changed_us"),
    comment="which lines of a stream a signal has counted, until they are too old to come again",
)

training_progress = Table(
    "training_progress",
    metadata,
    cluster_column(),
    Column("source_id", Str, primary_key=True),
    Column("cell", BigInteger, primary_key=True, autoincrement=False, comment="64 KiB cell of the offset"),
    Column("first_step", BigInteger, nullable=False),
    *_stamp("first"),
    Column("first_offset", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    *_stamp("last"),
    Column("last_offset", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False, comment="progress lines read in the cell"),
    Column("step_s", Real, comment="median seconds a step"),
    Column("series", Str, nullable=False, comment="what was counted, and by which kind of line"),
    Column("points", Json, nullable=False, comment="[offset, step, us in the stamp's frame or -1]"),
    Column("run_key", Str, comment="job run, derived when placed"),
    Column("first_at", UtcMicros),
    Column("last_at", UtcMicros),
    ingest_column(),
    Column("upto", BigInteger, nullable=False, server_default="-1", comment="end of the last line that was read"),
    Index("ix_training_progress_run", "cluster", "run_key", "first_at"),
    comment="sampled training progress",
)

run_fragments = Table(
    "run_fragments",
    metadata,
    cluster_column(),
    Column("source_id", Str, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", Str, primary_key=True),
    Column("step", Str, primary_key=True, comment="empty for the job itself"),
    Column("line", BigInteger),
    Column("scheduler", Str, nullable=False),
    Column("scheduler_cluster", Str, nullable=False, comment="cluster as the record names it"),
    Column("state", Str, nullable=False),
    *_stamp("submit"),
    *_stamp("start"),
    *_stamp("end"),
    Column("exit_code", BigInteger),
    Column("exit_signal", Integer),
    Column("nodes", Json, nullable=False),
    Column("n_nodes", Integer),
    Column("n_gpus", Integer),
    Column("user", Str, nullable=False),
    Column("account", Str, nullable=False),
    Column("name", Str, nullable=False),
    Column("reason", Str, nullable=False),
    Column("extra", Json, nullable=False),
    ingest_column(),
    Index("ix_run_fragments_job", "cluster", "job_id"),
    comment="what one record says about one job run",
)

quarantine = Table(
    "quarantine",
    metadata,
    cluster_column(),
    Column("quarantine_id", Str, primary_key=True),
    Column("path", Str, nullable=False),
    Column("source_id", Str, nullable=False, comment="empty where the file could not be opened"),
    Column("offset", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("reason", Str, nullable=False),
    ingest_column(),
    comment="parts of inputs that could not be used, and why",
)

coverage = Table(
    "coverage",
    metadata,
    cluster_column(),
    Column("host", Str, primary_key=True),
    Column("what", Str, primary_key=True, comment="kernel log, job log, scheduler record, bmc log"),
    Column("source_id", Str, primary_key=True),
    Column("from_at", UtcMicros),
    Column("to_at", UtcMicros),
    Index("ix_coverage_source", "cluster", "source_id"),
    comment="which kinds of logs of a host were there, and when; derived when sources are placed",
)

stream_progress = Table(
    "stream_progress",
    metadata,
    cluster_column(),
    Column("topic", Str, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("event_at", UtcMicros, comment="event time up to which the partition was read"),
    comment="how far a stream is durable; written in the transaction that makes its facts durable",
)

stream_touched = Table(
    "stream_touched",
    metadata,
    cluster_column(),
    Column("source_id", Str, primary_key=True),
    Column(
        "mark",
        BigInteger,
        nullable=False,
        comment="one more with every load that changed the source; its facts bear it, negative, as ingest_id",
    ),
    Column("changed_us", BigInteger, nullable=False, comment="wall clock, us since 1970"),
    Column("decided_mark", BigInteger, nullable=False, comment="the mark up to which what changed is decided"),
    Index("ix_stream_touched_changed_us", "cluster", "changed_us"),
    comment="sources that a stream changed; written in the transaction of their facts",
)
