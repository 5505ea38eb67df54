"""Spend rolled up by lease, kind and day; prices with all that a replay needs, and by the hour."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
PRICE_COLUMNS = (
    sa.Column("host_id", sa.Text(), nullable=True),
    sa.Column("storage_price_nano", sa.BigInteger(), nullable=True),
    sa.Column("upload_price_nano", sa.BigInteger(), nullable=True),
    sa.Column("download_price_nano", sa.BigInteger(), nullable=True),
    sa.Column("reliability", sa.Text(), nullable=True),
    sa.Column("verified", sa.Boolean(), nullable=True),
    sa.Column("ends_at", INSTANT, nullable=True),
    sa.Column("floor_low_nano", sa.BigInteger(), nullable=True),
    sa.Column("floor_high_nano", sa.BigInteger(), nullable=True),
    sa.Column("samples", sa.BigInteger(), nullable=False, server_default="1"),
)


def upgrade() -> None:
    for column in PRICE_COLUMNS:
        op.add_column("price_observations", column)
    op.create_index("ix_price_observations_gpu_observed_at", "price_observations", ["gpu", "observed_at"])
    op.create_index("ix_price_observations_observed_at", "price_observations", ["observed_at"])
    op.create_table(
        "spend_daily",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_spend_daily_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("day", "lease_id", "kind", name="pk_spend_daily"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_spend_daily_lease_id", "spend_daily", ["lease_id"])
    op.execute(
        "INSERT INTO spend_daily (day, lease_id, kind, amount_nano)"
        " SELECT day, lease_id, kind, sum(amount_nano) FROM ledger_entries"
        " WHERE type IN ('accrue', 'settle', 'adjust') GROUP BY day, lease_id, kind"
    )
