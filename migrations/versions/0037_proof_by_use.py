"""What the use of a market by ordinary jobs showed of each claim: the newest."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "use_findings",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("claim", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("numbers", sa.JSON(), nullable=False),
        sa.Column("accepted_at", INSTANT, nullable=True),
        sa.Column("used_on", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("claim", "used_on", name="pk_use_findings"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_use_findings_job_id_jobs", deferrable=True, initially="DEFERRED"
        ),
    )
