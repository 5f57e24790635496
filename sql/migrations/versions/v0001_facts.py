"""Facts: sources, signals, progress, fragments, quarantine, coverage, ingests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Json, Real, Str, UtcMicros

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coverage",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("host", Str(), nullable=False),
        sa.Column("what", Str(), nullable=False, comment="kernel log, job log, scheduler record, bmc log"),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("from_at", UtcMicros(), nullable=True),
        sa.Column("to_at", UtcMicros(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "host", "what", "source_id", name=op.f("pk_coverage")),
        comment="which kinds of logs of a host were there, and when; derived when sources are placed",
    )
    op.create_index("ix_coverage_source", "coverage", ["cluster", "source_id"], unique=False)
    op.create_table(
        "ingests",
        sa.Column("ingest_id", sa.Integer(), nullable=False),
        sa.Column("cluster", Str(), nullable=False),
        sa.Column("started_at", UtcMicros(), nullable=False, comment="wall clock"),
        sa.Column("finished_at", UtcMicros(), nullable=True, comment="null: running, or it died"),
        sa.Column("args", Json, nullable=False),
        sa.Column("stats", Json, nullable=True),
        sa.PrimaryKeyConstraint("ingest_id", name=op.f("pk_ingests")),
        comment="one row a load",
    )
    op.create_index("ix_ingests_cluster", "ingests", ["cluster", "ingest_id"], unique=False)
    op.create_table(
        "meta",
        sa.Column("name", Str(), nullable=False),
        sa.Column("value", Str(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_meta")),
        comment="digest of the views, ruleset number in use",
    )
    op.create_table(
        "quarantine",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("quarantine_id", Str(), nullable=False),
        sa.Column("path", Str(), nullable=False),
        sa.Column("source_id", Str(), nullable=False, comment="empty where the file could not be opened"),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("reason", Str(), nullable=False),
        sa.Column(
            "ingest_id", sa.BigInteger(), server_default="0", nullable=False, comment="ingest that last changed it"
        ),
        sa.PrimaryKeyConstraint("cluster", "quarantine_id", name=op.f("pk_quarantine")),
        comment="parts of inputs that could not be used, and why",
    )
    op.create_table(
        "run_fragments",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", Str(), nullable=False),
        sa.Column("step", Str(), nullable=False, comment="empty for the job itself"),
        sa.Column("line", sa.BigInteger(), nullable=True),
        sa.Column("scheduler", Str(), nullable=False),
        sa.Column("scheduler_cluster", Str(), nullable=False, comment="cluster as the record names it"),
        sa.Column("state", Str(), nullable=False),
        sa.Column("submit_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("submit_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column(
            "submit_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"
        ),
        sa.Column("start_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("start_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column(
            "start_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"
        ),
        sa.Column("end_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("end_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column("end_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("exit_signal", sa.Integer(), nullable=True),
        sa.Column("nodes", Json, nullable=False),
        sa.Column("n_nodes", sa.Integer(), nullable=True),
        sa.Column("n_gpus", sa.Integer(), nullable=True),
        sa.Column("user", Str(), nullable=False),
        sa.Column("account", Str(), nullable=False),
        sa.Column("name", Str(), nullable=False),
        sa.Column("reason", Str(), nullable=False),
        sa.Column("extra", Json, nullable=False),
        sa.Column(
            "ingest_id", sa.BigInteger(), server_default="0", nullable=False, comment="ingest that last changed it"
        ),
        sa.PrimaryKeyConstraint("cluster", "source_id", "offset", "job_id", "step", name=op.f("pk_run_fragments")),
        comment="what one record says about one job run",
    )
    op.create_index("ix_run_fragments_job", "run_fragments", ["cluster", "job_id"], unique=False)
    op.create_table(
        "signals",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("signal_id", Str(), nullable=False),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("rule", Str(), nullable=False),
        sa.Column("fact_key", Str(), nullable=False, comment="identity fields, name=value joined by ;"),
        sa.Column("printed_host", Str(), nullable=False, comment="as printed in the line; empty if none"),
        sa.Column("template", Str(), nullable=False, comment="text with numbers, addresses and hex masked"),
        sa.Column("bucket", Str(), nullable=False, comment="minute of the stamp's frame, else 64 KiB cell"),
        sa.Column("first_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("first_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column(
            "first_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"
        ),
        sa.Column("first_offset", sa.BigInteger(), nullable=False, comment="byte in the decompressed member"),
        sa.Column("first_line", sa.BigInteger(), nullable=True, comment="1-based, null where unknown"),
        sa.Column("last_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("last_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column("last_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.Column("text", Str(), nullable=False, comment="secrets masked"),
        sa.Column("fields", Json, nullable=False, comment="[name, value]"),
        sa.Column("ranks", Json, nullable=False, comment="[us, offset, rank], the smallest, one a rank"),
        sa.Column("counts", Json, nullable=False, comment="[64 KiB cell, count]"),
        sa.Column("count", sa.BigInteger(), nullable=False, comment="sum of counts: lines in this source"),
        sa.Column("host", Str(), nullable=True, comment="host the signal belongs to (host.name)"),
        sa.Column("first_at", UtcMicros(), nullable=True),
        sa.Column("last_at", UtcMicros(), nullable=True),
        sa.Column("signal", Str(), nullable=True, comment="name of the signal, such as xid.94"),
        sa.Column("component", Str(), nullable=True),
        sa.Column("device", Str(), nullable=True, comment="normalised device (hw.id)"),
        sa.Column(
            "ingest_id", sa.BigInteger(), server_default="0", nullable=False, comment="ingest that last changed it"
        ),
        sa.PrimaryKeyConstraint("cluster", "signal_id", name=op.f("pk_signals")),
        comment="folded signals: one row a rule, identity, masked text, host, minute and source",
    )
    op.create_index("ix_signals_first_at", "signals", ["cluster", "first_at"], unique=False)
    op.create_index("ix_signals_host_first_at", "signals", ["cluster", "host", "first_at"], unique=False)
    op.create_index("ix_signals_source", "signals", ["cluster", "source_id"], unique=False)
    op.create_table(
        "sources",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("source_id", Str(), nullable=False, comment="names the file by content, whatever its path"),
        sa.Column("path", Str(), nullable=False, comment="first of inner_paths (OpenTelemetry log.file.path)"),
        sa.Column("inner_paths", Json, nullable=False, comment="paths inside the input roots"),
        sa.Column("root", Str(), nullable=False, comment="name of the input root"),
        sa.Column("format", Str(), nullable=False),
        sa.Column("family", Str(), nullable=False, comment="kernel, syslog, scheduler, job, cluster, bmc or other"),
        sa.Column("size", sa.BigInteger(), nullable=False, comment="decompressed bytes accounted for"),
        sa.Column("mtime_us", sa.BigInteger(), nullable=True),
        sa.Column("host", Str(), nullable=False, comment="from path or header; empty if unknown (host.name)"),
        sa.Column("spans", Json, nullable=False, comment="[kind, least us, greatest us]"),
        sa.Column("clocks", Json, nullable=False, comment="[kind of wall clock, mono us, us]"),
        sa.Column("names", Json, nullable=False, comment="[host name printed in the lines, count]"),
        sa.Column("job_ids", Json, nullable=False),
        sa.Column("rank_hosts", Json, nullable=False, comment="[rank, host]"),
        sa.Column("facts", Json, nullable=False, comment="name=value found in the text"),
        sa.Column("lines", sa.BigInteger(), nullable=True),
        sa.Column("signal_lines", sa.BigInteger(), nullable=False),
        sa.Column("unparsed_lines", sa.BigInteger(), nullable=False),
        sa.Column("ranges", Json, nullable=False, comment="[start, end, lines, signal lines, unparsed lines]"),
        sa.Column("note", Str(), nullable=True),
        sa.Column(
            "ingest_id", sa.BigInteger(), server_default="0", nullable=False, comment="ingest that last changed it"
        ),
        sa.PrimaryKeyConstraint("cluster", "source_id", name=op.f("pk_sources")),
        comment="one row an input file or archive member",
    )
    op.create_table(
        "stream_progress",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("topic", Str(), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.Column("event_at", UtcMicros(), nullable=True, comment="event time up to which the partition was read"),
        sa.PrimaryKeyConstraint("cluster", "topic", "partition", name=op.f("pk_stream_progress")),
        comment="how far a stream is durable; written in the transaction that makes its facts durable",
    )
    op.create_table(
        "training_progress",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("cell", sa.BigInteger(), autoincrement=False, nullable=False, comment="64 KiB cell of the offset"),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("first_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("first_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column(
            "first_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"
        ),
        sa.Column("first_offset", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_kind", Str(), nullable=False, comment="utc, local, noyear, time, mono or none"),
        sa.Column("last_us", sa.BigInteger(), nullable=False, comment="microseconds in that frame"),
        sa.Column("last_borrowed", sa.Boolean(), nullable=False, comment="taken from the nearest earlier stamped line"),
        sa.Column("last_offset", sa.BigInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False, comment="progress lines read in the cell"),
        sa.Column("step_s", Real, nullable=True, comment="median seconds a step"),
        sa.Column("series", Str(), nullable=False, comment="what was counted, and by which kind of line"),
        sa.Column("points", Json, nullable=False, comment="[offset, step, us in the stamp's frame or -1]"),
        sa.Column("run_key", Str(), nullable=True, comment="job run, derived when placed"),
        sa.Column("first_at", UtcMicros(), nullable=True),
        sa.Column("last_at", UtcMicros(), nullable=True),
        sa.Column(
            "ingest_id", sa.BigInteger(), server_default="0", nullable=False, comment="ingest that last changed it"
        ),
        sa.PrimaryKeyConstraint("cluster", "source_id", "cell", name=op.f("pk_training_progress")),
        comment="sampled training progress",
    )
    op.create_index("ix_training_progress_run", "training_progress", ["cluster", "run_key", "first_at"], unique=False)
