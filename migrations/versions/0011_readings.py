"""What machines read of themselves: the newest with the lease, a sparse history in a table; and stalls."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("leases", sa.Column("readings", sa.JSON(), nullable=True))
    op.add_column("leases", sa.Column("stalled_since", INSTANT, nullable=True))
    op.create_table(
        "machine_readings",
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("gpu_busy", sa.Double(), nullable=True),
        sa.Column("gpu_memory_share", sa.Double(), nullable=True),
        sa.Column("disk_free", sa.BigInteger(), nullable=True),
        sa.Column("load", sa.Double(), nullable=True),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("lease_id", "at", name="pk_machine_readings"),
        sa.ForeignKeyConstraint(
            ["lease_id"],
            ["leases.id"],
            name="fk_machine_readings_lease_id_leases",
            deferrable=True,
            initially="DEFERRED",
        ),
        sqlite_with_rowid=False,
    )
