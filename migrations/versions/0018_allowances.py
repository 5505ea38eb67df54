"""The allowances of tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("allowance_nano", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("is_monthly", sa.Boolean(), nullable=False, server_default=sa.false()))
