"""Machines in a row on which a job never ran, each with its host, its fault and its cost, beside their number."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("failed_starts", sa.JSON(), nullable=False, server_default="[]"))
