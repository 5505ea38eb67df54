"""Until when the machine of a job that has failed is held."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("leases", sa.Column("held_until", INSTANT, nullable=True))
