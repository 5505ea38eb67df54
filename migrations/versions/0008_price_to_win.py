"""What bid brings a paused machine back, where the market says it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("leases", sa.Column("price_to_win_nano", sa.BigInteger(), nullable=True))
