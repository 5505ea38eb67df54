"""Certificates of markets, what the certifications behind them saw, and how far each of them is."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def of_job(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["job_id"], ["jobs.id"], name=f"fk_{table}_job_id_jobs", deferrable=True, initially="DEFERRED"
    )


def upgrade() -> None:
    op.add_column("jobs", sa.Column("certifies", sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_jobs_certifies", "jobs", ["certifies"])
    op.create_table(
        "certificates",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("issued_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.Column("ended_because", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_certificates"),
        of_job("certificates"),
    )
    op.create_table(
        "certify_findings",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("accepted_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("job_id", "claim", name="pk_certify_findings"),
        of_job("certify_findings"),
    )
    op.create_table(
        "certify_steps",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("begun_at", INSTANT, nullable=False),
        sa.Column("over_at", INSTANT, nullable=True),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "step", name="pk_certify_steps"),
        of_job("certify_steps"),
    )
