"""Why a machine was stopped, by each stretch of its time: what is no loss must not count in the odds.

The cause of stops recorded before is unknown: they count as they did.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column("lease_spans", sa.Column("cause", sa.Text(), nullable=True))
