"""How long money is reserved for an unwatched machine that cannot end its own bill."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("leases", sa.Column("unwatched_us", sa.BigInteger(), nullable=True))
