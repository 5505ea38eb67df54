"""What machines had and jobs need beside GPUs: memory that was rented, hosts that were left unfit, kills for memory."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.add_column("leases", sa.Column("ram_gb", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("left_for", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("jobs", sa.Column("memory_kill", sa.JSON(), nullable=False, server_default="[]"))
