"""The market's own lines, traffic, and disks billed apart by whether the machine is stopped."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
LEASE_COLUMNS = (
    sa.Column("reconciled_at", INSTANT, nullable=True),
    sa.Column("permit_ttl_s", sa.BigInteger(), nullable=True),
    sa.Column("upload_price_nano", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("download_price_nano", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("download_gb", sa.Text(), nullable=False, server_default="0"),
    sa.Column("upload_gb", sa.Text(), nullable=False, server_default="0"),
    sa.Column("agent_sent_bytes", sa.BigInteger(), nullable=False, server_default="0"),
    sa.Column("sent_bytes", sa.JSON(), nullable=False, server_default="[]"),
)


def upgrade() -> None:
    for column in LEASE_COLUMNS:
        op.add_column("leases", column)
    op.add_column("ledger_entries", sa.Column("line_id", sa.Text(), nullable=True))
    op.create_table(
        "invoice_lines",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_invoice_lines_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("id", name="pk_invoice_lines"),
    )
    op.create_index("ix_invoice_lines_lease_id", "invoice_lines", ["lease_id"])
    op.create_index("ix_invoice_lines_day", "invoice_lines", ["day"])
    _rename_entries()


def _rename_entries() -> None:
    """The one change that entries ever see: running disks and reserves get the names that they go by from now on."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER IF EXISTS ledger_entries_refuse_update")
    else:
        op.execute("DROP TRIGGER IF EXISTS ledger_entries_refuse ON ledger_entries")
    op.execute("UPDATE ledger_entries SET kind = 'storage_running' WHERE kind = 'storage'")
    op.execute("UPDATE ledger_entries SET id = lease_id || ':reserve:1' WHERE type = 'reserve'")
    op.execute(
        "UPDATE ledger_entries SET id = lease_id || ':reserve:2', corrects = lease_id || ':reserve:1'"
        " WHERE type = 'void'"
    )
