"""Above which amount a token's jobs take a person's word."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("ask_above_nano", sa.BigInteger(), nullable=True))
