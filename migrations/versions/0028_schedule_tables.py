"""The table that came with a schedule of arrays: each of its firings has a task for each row."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "schedule_tables",
        sa.Column("schedule_id", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["schedules.id"],
            name="fk_schedule_tables_schedule_id_schedules",
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.PrimaryKeyConstraint("schedule_id", name="pk_schedule_tables"),
    )
