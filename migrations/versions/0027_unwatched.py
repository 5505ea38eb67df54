"""How long a machine that cannot end its own bill is provided for should nobody watch it."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("leases", sa.Column("unwatched_us", sa.BigInteger(), nullable=True))
