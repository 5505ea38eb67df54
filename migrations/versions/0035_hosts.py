"""What machines have shown of themselves over all jobs; a machine's pace of late, beside the job's own.

Of machines and jobs recorded before nothing of it is known: it is learnt from then on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "hosts",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("launches", sa.Double(), nullable=False),
        sa.Column("failed", sa.Double(), nullable=False),
        sa.Column("last_fault", sa.Text(), nullable=True),
        sa.Column("last_fault_at", INSTANT, nullable=True),
        sa.Column("pace", sa.Double(), nullable=True),
        sa.Column("loads", sa.JSON(), nullable=False),
        sa.Column("blocked_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("provider", "machine_id", name="pk_hosts"),
        sqlite_with_rowid=False,
    )
    op.add_column("jobs", sa.Column("slow_on", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("leases", sa.Column("window_work_us", sa.BigInteger(), nullable=True))
    op.add_column("leases", sa.Column("window_progress", sa.Text(), nullable=True))
    op.add_column("leases", sa.Column("recent_pace", sa.Text(), nullable=True))
    op.add_column("leases", sa.Column("slow_windows", sa.BigInteger(), nullable=False, server_default="0"))
