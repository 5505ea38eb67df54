"""Who made a token. Unknown for existing ones: their makers could do everything."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("made_by", sa.BigInteger(), nullable=True))
    op.add_column("tokens", sa.Column("made_under", sa.Text(), nullable=False, server_default=""))
