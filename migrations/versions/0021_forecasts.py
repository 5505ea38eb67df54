"""How open jobs will probably end."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "job_forecasts",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("spent_nano", sa.BigInteger(), nullable=False),
        sa.Column("mean_nano", sa.BigInteger(), nullable=False),
        sa.Column("p10_nano", sa.BigInteger(), nullable=False),
        sa.Column("p50_nano", sa.BigInteger(), nullable=False),
        sa.Column("p90_nano", sa.BigInteger(), nullable=False),
        sa.Column("done_p10", INSTANT, nullable=True),
        sa.Column("done_p50", INSTANT, nullable=True),
        sa.Column("done_p90", INSTANT, nullable=True),
        sa.Column("on_time", sa.Double(), nullable=True),
        sa.Column("finished", sa.Double(), nullable=False),
        sa.Column("parked", sa.Double(), nullable=False),
        sa.Column("preemptions", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_forecasts_job_id_jobs", deferrable=True, initially="DEFERRED"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_forecasts"),
    )
