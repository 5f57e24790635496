"""An index that holds all that a mean over the fleet by hour reads."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_telemetry_hourly_metric",
        "telemetry_hourly",
        ["cluster", "metric", "hour_at", "host", "n", "total", "low", "high"],
    )
