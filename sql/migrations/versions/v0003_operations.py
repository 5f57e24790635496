"""Labels, actions, hourly telemetry, the taxonomy."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from sql.types import Json, Real, Str, UtcMicros

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("action_id", Str(), nullable=False, comment="digest of cluster, incident, kind and target"),
        sa.Column("incident_id", Str(), nullable=False),
        sa.Column("fault_id", Str(), nullable=False),
        sa.Column("kind", Str(), nullable=False),
        sa.Column("target", Str(), nullable=False),
        sa.Column("why", Str(), nullable=False),
        sa.Column("source", Str(), nullable=False, comment="where the recommendation comes from"),
        sa.Column("component", Str(), nullable=False),
        sa.Column("confidence", Real, nullable=False),
        sa.Column("state", Str(), nullable=False, comment="proposed, withdrawn, refused, running, done, failed"),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("policy", Str(), nullable=True, comment="rule of the policy that allowed or refused it"),
        sa.Column("command", Json, nullable=True, comment="what was, or would have been, run"),
        sa.Column("result", Str(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcMicros(), nullable=False, comment="wall clock"),
        sa.Column("started_at", UtcMicros(), nullable=True),
        sa.Column("finished_at", UtcMicros(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "action_id", name=op.f("pk_actions")),
        comment="outbox of recommended actions; one process carries them out",
    )
    op.create_index("ix_actions_state", "actions", ["cluster", "state"], unique=False)
    op.create_index("ix_actions_incident", "actions", ["cluster", "incident_id"], unique=False)
    op.create_table(
        "components",
        sa.Column("component", Str(), nullable=False),
        sa.Column("meaning", Str(), nullable=False),
        sa.Column("llama3_row", Str(), nullable=True),
        sa.Column("domain", Str(), nullable=False),
        sa.Column("who_acts", Str(), nullable=False),
        sa.Column("counts_as", Str(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, comment="order in the taxonomy"),
        sa.PrimaryKeyConstraint("component", name=op.f("pk_components")),
        comment="the taxonomy, filled again by each `db upgrade`",
    )
    op.create_table(
        "labels",
        sa.Column("label_id", sa.Integer(), nullable=False),
        sa.Column("cluster", Str(), nullable=False),
        sa.Column("incident_id", Str(), nullable=False, comment="the id at the time; aliases are resolved when read"),
        sa.Column("component", Str(), nullable=False),
        sa.Column("note", Str(), nullable=False),
        sa.Column("who", Str(), nullable=False),
        sa.Column("labelled_at", UtcMicros(), nullable=False),
        sa.PrimaryKeyConstraint("label_id", name=op.f("pk_labels")),
        comment="what people said; the latest of an incident wins over any decision",
    )
    op.create_index("ix_labels_incident", "labels", ["cluster", "incident_id"], unique=False)
    op.create_table(
        "telemetry_hourly",
        sa.Column("cluster", Str(), nullable=False, comment="name of the cluster given at ingest"),
        sa.Column("host", Str(), nullable=False),
        sa.Column("device", Str(), nullable=False, comment="empty for the host itself"),
        sa.Column("metric", Str(), nullable=False, comment="gpu_temperature_c, gpu_power_w, gpu_sm_clock_mhz ..."),
        sa.Column("hour_at", UtcMicros(), nullable=False),
        sa.Column("source_id", Str(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("total", Real, nullable=False),
        sa.Column("low", Real, nullable=False),
        sa.Column("high", Real, nullable=False),
        sa.PrimaryKeyConstraint(
            "cluster", "host", "device", "metric", "hour_at", "source_id", name=op.f("pk_telemetry_hourly")
        ),
        comment="telemetry by hour; a source's hour is replaced as a whole",
    )
