"""Who submitted a job, and the copy of the user's code that it runs."""

import os

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    # Jobs from before were anybody's who could reach the daemon: they are its own user's now.
    owner = str(os.getuid())
    op.add_column("jobs", sa.Column("owner", sa.BigInteger(), nullable=False, server_default=owner))
    for name in ("copy_id", "sha256", "commit"):
        op.add_column("jobs", sa.Column(f"code_{name}", sa.Text(), nullable=False, server_default=""))
    for name in ("files", "bytes", "parts", "index_bytes"):
        op.add_column("jobs", sa.Column(f"code_{name}", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("code_is_dirty", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_jobs_code_copy_id", "jobs", ["code_copy_id"])
    op.create_table(
        "code_copies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("part_count", sa.BigInteger(), nullable=False),
        sa.Column("index_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sent_at", INSTANT, nullable=False),
        sa.Column("withdrawn_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_code_copies"),
    )
    op.create_index("ix_code_copies_owner_sha256", "code_copies", ["owner", "sha256"])
