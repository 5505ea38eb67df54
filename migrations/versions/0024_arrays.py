"""Tasks of arrays: jobs with a parent, and the table that came with an array."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("array_id", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("task", sa.BigInteger(), nullable=True))
    op.create_index("ix_jobs_array_id_task", "jobs", ["array_id", "task"], unique=True)
    op.create_index("ix_jobs_array_id_status", "jobs", ["array_id", "status"])
    op.create_table(
        "array_tables",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_array_tables_job_id_jobs", deferrable=True, initially="DEFERRED"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_array_tables"),
    )
