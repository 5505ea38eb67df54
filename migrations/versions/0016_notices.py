"""The outbox of notices."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("lease_id", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("digest_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", "sink", name="pk_notices"),
    )
    op.create_index("ix_notices_sink_due_at", "notices", ["sink", "due_at"])
