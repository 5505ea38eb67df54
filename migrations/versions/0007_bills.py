"""What a bill lacks, how long money for a disk is reserved, and which spans of a machine's life were not observed."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("leases", sa.Column("bill_waits_for", sa.Text(), nullable=True))
    op.add_column("leases", sa.Column("disk_tail_us", sa.BigInteger(), nullable=True))
    op.add_column("lease_spans", sa.Column("is_observed", sa.Boolean(), nullable=False, server_default=sa.true()))
