"""Lines that the end of a growing source cut: facts of them say where, and sources how far they are known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sources",
        sa.Column(
            "reach",
            sa.BigInteger(),
            nullable=False,
            server_default="0",
            comment="bytes of the file whose stream this is",
        ),
    )
    op.add_column(
        "signals",
        sa.Column(
            "torn",
            sa.BigInteger(),
            nullable=False,
            server_default="-1",
            comment="size at which the source cut the line",
        ),
    )
    op.add_column(
        "training_progress",
        sa.Column(
            "upto", sa.BigInteger(), nullable=False, server_default="-1", comment="end of the last line that was read"
        ),
    )
