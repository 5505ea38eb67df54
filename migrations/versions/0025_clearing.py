"""What spot machines paid, where a market tells that apart from the bid that wins."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("price_observations", sa.Column("clearing_price_nano", sa.BigInteger(), nullable=True))
