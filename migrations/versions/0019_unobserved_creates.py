"""What a create of unknown outcome can have cost in gaps between the lists."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("leases", sa.Column("unobserved_nano", sa.BigInteger(), nullable=False, server_default="0"))
