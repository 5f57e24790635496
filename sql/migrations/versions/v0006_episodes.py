"""When decided episodes of hosts were, so that a load reads only what it may have changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Str

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "episodes",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("subject_key", Str(), nullable=False),
        sa.Column(
            "from_us", sa.BigInteger(), nullable=True, comment="first event, us since 1970; null without a clock"
        ),
        sa.Column("to_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "subject_key", name=op.f("pk_episodes")),
        comment="times of the host episodes that have a decision",
    )
