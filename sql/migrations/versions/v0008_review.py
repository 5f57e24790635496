"""What the weekly review needs: swings of power, and an index that holds nothing but lines about checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Json, Real, Str, UtcMicros

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_OF_CHECKPOINTS = "rule IN ('mark_ckpt_begin', 'mark_ckpt_saved', 'mark_ckpt_seconds', 'mark_ckpt_load')"


def upgrade() -> None:
    op.create_table(
        "power_hourly",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("host", Str(), nullable=False),
        sa.Column("hour_at", UtcMicros(), nullable=False),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False, comment="changes of GPUs over 1 to 10 s that were looked at"),
        sa.Column("devices", sa.Integer(), nullable=False, comment="GPUs whose samples are 10 s apart or less"),
        sa.Column("typical_w", Real, nullable=False, comment="usual size of a change of one GPU"),
        sa.Column(
            "n_swings", sa.Integer(), nullable=False, comment="changes above 8 times the usual, GPUs of a moment as one"
        ),
        sa.Column("largest_w", Real, nullable=True, comment="the largest swing of all GPUs of the host"),
        sa.Column("swings", Json, nullable=False, comment="[us since 1970, seconds, watts, GPUs]"),
        sa.PrimaryKeyConstraint("cluster", "host", "hour_at", "source_id", name=op.f("pk_power_hourly")),
        comment="swings of power within seconds; a source's hour is replaced as a whole",
    )
    op.drop_index("ix_signals_rule", table_name="signals")
    op.create_index(
        "ix_signals_checkpoint",
        "signals",
        ["cluster", "source_id", "first_offset"],
        sqlite_where=sa.text(_OF_CHECKPOINTS),
        postgresql_where=sa.text(_OF_CHECKPOINTS),
    )
