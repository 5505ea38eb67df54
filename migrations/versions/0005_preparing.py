"""Since when a machine's agent has been getting ready for the command."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("leases", sa.Column("preparing_since", INSTANT, nullable=True))
