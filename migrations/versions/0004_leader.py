"""Who leads, where several daemons share a server."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("taken_at", INSTANT, nullable=False),
        sa.Column("renewed_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_leader"),
    )
