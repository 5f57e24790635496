"""Trails of sources: what tells files of one path and first line apart, over separate loads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Str

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "sources",
        sa.Column(
            "base", Str(), nullable=False, server_default=sa.text("''"), comment="id of path and first line alone"
        ),
    )
    op.add_column(
        "sources",
        sa.Column(
            "trail",
            Str(),
            nullable=False,
            server_default=sa.text("''"),
            comment="digests that tell files of one base apart",
        ),
    )
    op.create_index("ix_sources_base", "sources", ["cluster", "base"], unique=False)
