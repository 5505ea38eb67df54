"""Until when the machine of a job that has failed is held."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("leases", sa.Column("held_until", INSTANT, nullable=True))
