"""Another run on the same machine: what its agent can, how many runs have failed there, and by whom the last did."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    for name in ("failed_by_host", "can_run_again"):
        op.add_column("leases", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("leases", sa.Column("agent_failures", sa.BigInteger(), nullable=False, server_default="0"))
