"""What a stream needs: which lines were counted, which sources changed, and incidents for other systems."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from sql.types import Str

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_CLUSTER = "name of the cluster given at ingest"
_WALL = "wall clock, us since 1970"


def upgrade() -> None:
    op.create_table(
        "signal_lines",
        sa.Column("cluster", Str(), nullable=False, comment=_CLUSTER),
        sa.Column("signal_id", Str(), nullable=False),
        sa.Column("cell", sa.BigInteger(), nullable=False, autoincrement=False, comment="addresses // 65536"),
        sa.Column(
            "lines",
            sa.LargeBinary(),
            nullable=False,
            comment="addresses in the cell, each two bytes, least byte first",
        ),
        sa.Column("changed_us", sa.BigInteger(), nullable=False, comment=_WALL),
        sa.PrimaryKeyConstraint("cluster", "signal_id", "cell", name=op.f("pk_signal_lines")),
        comment="which lines of a stream a signal has counted, until they are too old to come again",
    )
    op.create_index("ix_signal_lines_changed_us", "signal_lines", ["cluster", "changed_us"])
    op.create_table(
        "stream_touched",
        sa.Column("cluster", Str(), nullable=False, comment=_CLUSTER),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column(
            "mark",
            sa.BigInteger(),
            nullable=False,
            comment="one more with every load that changed the source; its facts bear it, negative, as ingest_id",
        ),
        sa.Column("changed_us", sa.BigInteger(), nullable=False, comment=_WALL),
        sa.Column(
            "decided_mark", sa.BigInteger(), nullable=False, comment="the mark up to which what changed is decided"
        ),
        sa.PrimaryKeyConstraint("cluster", "source_id", name=op.f("pk_stream_touched")),
        comment="sources that a stream changed; written in the transaction of their facts",
    )
    op.create_index("ix_stream_touched_changed_us", "stream_touched", ["cluster", "changed_us"])
    op.create_table(
        "incident_outbox",
        sa.Column("seq", sa.Integer(), nullable=False, comment="order in which they are sent"),
        sa.Column("cluster", Str(), nullable=False),
        sa.Column("incident_id", Str(), nullable=False),
        sa.Column("subject_key", Str(), nullable=False),
        sa.Column("what", Str(), nullable=False, comment="new, changed or retracted"),
        sa.Column("revision", sa.BigInteger(), nullable=False, comment="number of distinct facts seen"),
        sa.Column("provisional", sa.Boolean(), nullable=False),
        sa.Column(
            "incident", Str(), nullable=True, comment="the incident as diagnose prints it, JSON; null where retracted"
        ),
        sa.Column(
            "replaced_by",
            Str(),
            nullable=True,
            comment="the id that the incident has now, where a retracted one lives on",
        ),
        sa.Column("created_us", sa.BigInteger(), nullable=False, comment=_WALL),
        sa.Column("sent_us", sa.BigInteger(), nullable=True, comment="wall clock; null: not delivered yet"),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_incident_outbox")),
        comment="incidents for other systems; written with the decision, sent by the stream's relay",
    )
    op.create_index("ix_incident_outbox_sent_us", "incident_outbox", ["sent_us", "seq"])
    op.add_column(
        "sources",
        sa.Column(
            "clock", Str(), nullable=True, comment="digest of the clock and host that it was last decided with; derived"
        ),
    )
    _take_clocks_over()
    op.create_index("ix_signals_rule", "signals", ["cluster", "rule"])
    op.create_index("ix_signals_rule_first_at", "signals", ["cluster", "rule", "first_at"])


def _take_clocks_over() -> None:
    """Digests of clocks stood in one JSON document a cluster."""
    meta = sa.table("meta", sa.column("name", Str()), sa.column("value", Str()))
    sources = sa.table("sources", sa.column("cluster", Str()), sa.column("source_id", Str()), sa.column("clock", Str()))
    connection = op.get_bind()
    held = sa.select(meta.c.name, meta.c.value).where(meta.c.name.startswith("clocks:", autoescape=True))
    for name, value in list(connection.execute(held)):
        rows = [
            {"b_cluster": name.removeprefix("clocks:"), "b_source": source_id, "b_clock": mark}
            for source_id, mark in json.loads(value).items()
        ]
        if rows:
            statement = (
                sa.update(sources)
                .where(sources.c.cluster == sa.bindparam("b_cluster"), sources.c.source_id == sa.bindparam("b_source"))
                .values(clock=sa.bindparam("b_clock"))
            )
            connection.execute(statement, rows)
        connection.execute(sa.delete(meta).where(meta.c.name == name))
