"""When the jobs that a job waits for had ended."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("predecessors_ended_at", INSTANT, nullable=True))
