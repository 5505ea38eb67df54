"""Checkpoints that may be torn, and those that are passed over for an older one. None of those that are there is."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.add_column("checkpoints", sa.Column("is_suspect", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("checkpoints", sa.Column("is_set_aside", sa.Boolean(), nullable=False, server_default=sa.false()))
