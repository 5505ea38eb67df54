"""Machines that take one task of an array after another: which tasks used them, and what their failures say of them."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("excused", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("is_blamed", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("leases", sa.Column("working_since", INSTANT, nullable=True))
    op.add_column("leases", sa.Column("can_take_next", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "lease_uses",
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("ordered_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_lease_uses_lease_id_leases", deferrable=True, initially="DEFERRED"
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_lease_uses_job_id_jobs", deferrable=True, initially="DEFERRED"
        ),
        sa.PrimaryKeyConstraint("lease_id", "seq", name="pk_lease_uses"),
    )
    op.create_index("ix_lease_uses_job_id", "lease_uses", ["job_id"])
