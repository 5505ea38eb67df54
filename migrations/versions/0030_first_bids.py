"""What was bid at first on a machine. Of those that are there it is what is bid when it is changed next."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("leases", sa.Column("first_bid_nano", sa.BigInteger(), nullable=True))
