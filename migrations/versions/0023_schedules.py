"""Schedules, and which jobs are their firings."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("looked_until", INSTANT, nullable=False),
        sa.Column("fired", sa.BigInteger(), nullable=False),
        sa.Column("last_due", INSTANT, nullable=True),
        sa.Column("last_job", sa.Text(), nullable=True),
        sa.Column("left_out", sa.BigInteger(), nullable=False),
        sa.Column("left_out_at", INSTANT, nullable=True),
        sa.Column("left_out_reason", sa.Text(), nullable=True),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("is_confirmed", sa.Boolean(), nullable=False),
        sa.Column("file_sha256", sa.Text(), nullable=False),
        sa.Column("code_copy_id", sa.Text(), nullable=False),
        sa.Column("code_sha256", sa.Text(), nullable=False),
        sa.Column("code_files", sa.BigInteger(), nullable=False),
        sa.Column("code_bytes", sa.BigInteger(), nullable=False),
        sa.Column("code_parts", sa.BigInteger(), nullable=False),
        sa.Column("code_index_bytes", sa.BigInteger(), nullable=False),
        sa.Column("code_commit", sa.Text(), nullable=False),
        sa.Column("code_is_dirty", sa.Boolean(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
    )
    op.create_index("ix_schedules_status", "schedules", ["status"])
    op.create_index("ix_schedules_owner", "schedules", ["owner"])
    op.create_index("ix_schedules_code_copy_id", "schedules", ["code_copy_id"])
    op.add_column("jobs", sa.Column("schedule_id", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("due_at", INSTANT, nullable=True))
    op.create_index("uq_jobs_firing", "jobs", ["schedule_id", "due_at"], unique=True)
