"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(27), "sqlite")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("seq", SEQUENCE, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("lease_id", sa.Text(), nullable=True),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_index("ix_events_job_id", "events", ["job_id"])
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("submitted_at", INSTANT, nullable=False),
        sa.Column("run_epoch", sa.BigInteger(), nullable=False),
        sa.Column("launches", sa.BigInteger(), nullable=False),
        sa.Column("fruitless", sa.BigInteger(), nullable=False),
        sa.Column("parked_at", INSTANT, nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("work_done_us", sa.BigInteger(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("paces", sa.JSON(), nullable=False),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("decisions", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_name", "jobs", ["name"])
    op.create_index("ix_jobs_status", "jobs", ["status"])
    op.create_index("ix_jobs_submitted_at", "jobs", ["submitted_at"])
    op.create_table(
        "notes",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_notes"),
    )
    op.create_table(
        "price_observations",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.Column("floor_nano", sa.BigInteger(), nullable=True),
        sa.Column("on_demand_rate_nano", sa.BigInteger(), nullable=True),
        sa.Column("observed_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("provider", "machine_id", "num_gpus", "observed_at", name="pk_price_observations"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "decisions",
        sa.Column("seq", SEQUENCE, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actions", sa.JSON(), nullable=False),
        sa.Column("vetoes", sa.JSON(), nullable=False),
        sa.Column("notes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_decisions_job_id_jobs", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_decisions"),
    )
    op.create_index("ix_decisions_job_id", "decisions", ["job_id"])
    op.create_index("uq_decisions_id", "decisions", ["id"], unique=True)
    op.create_table(
        "leases",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("slot", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("capacity_type", sa.Text(), nullable=False),
        sa.Column("offer_id", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.Text(), nullable=False),
        sa.Column("host_id", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.Column("disk_gb", sa.Text(), nullable=False),
        sa.Column("rate_nano", sa.BigInteger(), nullable=False),
        sa.Column("storage_rate_nano", sa.BigInteger(), nullable=False),
        sa.Column("on_demand_rate_nano", sa.BigInteger(), nullable=True),
        sa.Column("reserved_nano", sa.BigInteger(), nullable=False),
        sa.Column("intended_at", INSTANT, nullable=False),
        sa.Column("not_after", INSTANT, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Text(), nullable=True),
        sa.Column("instance_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("create_unknown", sa.Boolean(), nullable=False),
        sa.Column("acquired_at", INSTANT, nullable=True),
        sa.Column("running_since", INSTANT, nullable=True),
        sa.Column("paused_at", INSTANT, nullable=True),
        sa.Column("pause_cause", sa.Text(), nullable=True),
        sa.Column("bid_changed_at", INSTANT, nullable=True),
        sa.Column("highest_bid_nano", sa.BigInteger(), nullable=True),
        sa.Column("rebids", sa.BigInteger(), nullable=False),
        sa.Column("offline_since", INSTANT, nullable=True),
        sa.Column("last_seen_at", INSTANT, nullable=True),
        sa.Column("absences", sa.BigInteger(), nullable=False),
        sa.Column("absent_at", INSTANT, nullable=True),
        sa.Column("lists_since_intent", sa.BigInteger(), nullable=False),
        sa.Column("destroy_requested_at", INSTANT, nullable=True),
        sa.Column("destroy_sent_at", INSTANT, nullable=True),
        sa.Column("destroy_attempts", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", INSTANT, nullable=True),
        sa.Column("settled_at", INSTANT, nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("stop_ordered_at", INSTANT, nullable=True),
        sa.Column("run_epoch", sa.BigInteger(), nullable=False),
        sa.Column("permit_seq", sa.BigInteger(), nullable=False),
        sa.Column("permit_renewed_at", INSTANT, nullable=True),
        sa.Column("stop_seq", sa.BigInteger(), nullable=False),
        sa.Column("agent_boot", sa.BigInteger(), nullable=False),
        sa.Column("agent_seq", sa.BigInteger(), nullable=False),
        sa.Column("agent_state", sa.Text(), nullable=False),
        sa.Column("agent_seen_at", INSTANT, nullable=True),
        sa.Column("agent_saved", sa.Boolean(), nullable=False),
        sa.Column("last_checkpoint_number", sa.BigInteger(), nullable=True),
        sa.Column("log_count", sa.BigInteger(), nullable=False),
        sa.Column("anchor_work_us", sa.BigInteger(), nullable=True),
        sa.Column("anchor_progress", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_leases_job_id_jobs", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("id", name="pk_leases"),
    )
    op.create_index("ix_leases_intended_at", "leases", ["intended_at"])
    op.create_index("ix_leases_job_id", "leases", ["job_id"])
    op.create_index("ix_leases_label", "leases", ["label"])
    op.create_index("ix_leases_state", "leases", ["state"])
    op.create_index(
        "uq_leases_wanted_slot",
        "leases",
        ["job_id", "slot"],
        unique=True,
        sqlite_where=sa.text("state IN ('active', 'intent', 'paused') AND job_id IS NOT NULL"),
        postgresql_where=sa.text("state IN ('active', 'intent', 'paused') AND job_id IS NOT NULL"),
    )
    op.create_table(
        "bids",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("bid_nano", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_bids_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("id", name="pk_bids"),
    )
    op.create_index("ix_bids_lease_id", "bids", ["lease_id"])
    op.create_table(
        "checkpoints",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("run_epoch", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("work_done_us", sa.BigInteger(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("part_count", sa.BigInteger(), nullable=False),
        sa.Column("verified_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_checkpoints_job_id_jobs", initially="DEFERRED", deferrable=True
        ),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_checkpoints_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("lease_id", "number", name="pk_checkpoints"),
    )
    op.create_index("ix_checkpoints_job_id", "checkpoints", ["job_id"])
    op.create_table(
        "lease_spans",
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("rate_nano", sa.BigInteger(), nullable=False),
        sa.Column("storage_rate_nano", sa.BigInteger(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_lease_spans_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("lease_id", "seq", name="pk_lease_spans"),
    )
    op.create_table(
        "ledger_entries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("lease_id", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.Column("posted_at", INSTANT, nullable=False),
        sa.Column("corrects", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["corrects"],
            ["ledger_entries.id"],
            name="fk_ledger_entries_corrects_ledger_entries",
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_ledger_entries_job_id_jobs", initially="DEFERRED", deferrable=True
        ),
        sa.ForeignKeyConstraint(
            ["lease_id"], ["leases.id"], name="fk_ledger_entries_lease_id_leases", initially="DEFERRED", deferrable=True
        ),
        sa.PrimaryKeyConstraint("id", name="pk_ledger_entries"),
    )
    op.create_index("ix_ledger_entries_day_type_amount_nano", "ledger_entries", ["day", "type", "amount_nano"])
    op.create_index("ix_ledger_entries_job_id_type_amount_nano", "ledger_entries", ["job_id", "type", "amount_nano"])
    op.create_index(
        "ix_ledger_entries_lease_id_type_kind_day_amount_nano",
        "ledger_entries",
        ["lease_id", "type", "kind", "day", "amount_nano"],
    )
