"""Answers to requests that carried a key, and the hash of each job's file."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("file_sha256", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "kept_answers",
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_kept_answers"),
    )
    op.create_index("ix_kept_answers_at", "kept_answers", ["at"])
