"""Tokens of the API."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("number", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("sees_all", sa.Boolean(), nullable=False),
        sa.Column("secrets", sa.JSON(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("revoked_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_tokens"),
    )
    op.create_index("uq_tokens_sha256", "tokens", ["sha256"], unique=True)
    op.create_index("ix_jobs_owner", "jobs", ["owner"])
