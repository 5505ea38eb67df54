"""The tables. Foreign keys are checked at commit, so the order of writes within a transaction does not matter.

``REVISION`` names the migration that makes exactly this schema; tests hold the two together.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Date,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
)

from autopilot.domain.certificate import Certificate, ClaimFinding, StepMark
from autopilot.domain.code import CodeCopy
from autopilot.domain.drift import Drift
from autopilot.domain.hosts import HostRecord
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.lease import WANTED, Lease, Span, TaskUse
from autopilot.domain.ledger import InvoiceLine, LedgerEntry
from autopilot.domain.prices import PriceObservation
from autopilot.domain.readings import MachineReading
from autopilot.domain.schedule import Schedule
from autopilot.domain.token import Token
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord, KeptAnswer, PendingNotice
from autopilot.store.columns import PATHS, columns_of
from autopilot.store.types import Code, Instant, NanoUSD

REVISION = "0037"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _refers(column: str, target: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint([column], [target], deferrable=True, initially="DEFERRED")


def _sequence(name: str) -> Column[int]:
    """The order of arrival; SQLite fills only an INTEGER key by itself."""
    return Column(name, BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


JOB_PATHS = {
    "code_copy_id": ("code", "copy_id"),
    "code_sha256": ("code", "sha256"),
    "code_files": ("code", "files"),
    "code_bytes": ("code", "size_bytes"),
    "code_parts": ("code", "part_count"),
    "code_index_bytes": ("code", "index_bytes"),
    "code_commit": ("code", "commit"),
    "code_is_dirty": ("code", "is_dirty"),
}
"""Columns of a job that fill a field of one of its records: (record, field)."""

jobs = Table(
    "jobs",
    metadata,
    *columns_of(
        Job,
        key=("id",),
        not_money=("progress",),
        leave_out=(
            "checkpoint",
            "spent",
            "held",
            "is_estimate",
            "leases",
        ),  # they are read from the tables that own them
        paths=JOB_PATHS,
    ),
    Column("name", Text, nullable=False),
    Index(None, "status"),
    Index(None, "name"),
    Index(None, "submitted_at"),
    Index(None, "code_copy_id"),
    Index(None, "certifies"),
    Index(None, "owner"),
    # A firing is made once: by two daemons, and by one whose clock was set back.
    Index(None, "array_id", "task", unique=True),
    Index(None, "array_id", "status"),
    Index("uq_jobs_firing", "schedule_id", "due_at", unique=True),
    info={PATHS: JOB_PATHS},
)

schedules = Table(
    "schedules",
    metadata,
    *columns_of(Schedule, key=("id",), paths=JOB_PATHS),
    Column("name", Text, nullable=False),
    Index(None, "status"),
    Index(None, "owner"),
    Index(None, "code_copy_id"),
    info={PATHS: JOB_PATHS},
)

schedule_tables = Table(
    "schedule_tables",
    metadata,
    Column("schedule_id", Text, primary_key=True),
    Column("text", Text, nullable=False),
    _refers("schedule_id", "schedules.id"),
)

array_tables = Table(
    "array_tables",
    metadata,
    Column("job_id", Text, primary_key=True),
    Column("text", Text, nullable=False),
    _refers("job_id", "jobs.id"),
)

code_copies = Table("code_copies", metadata, *columns_of(CodeCopy, key=("id",)), Index(None, "owner", "sha256"))

kept_answers = Table("kept_answers", metadata, *columns_of(KeptAnswer, key=("owner", "key")), Index(None, "at"))

tokens = Table(
    "tokens", metadata, *columns_of(Token, key=("number",)), Index("uq_tokens_sha256", "sha256", unique=True)
)

LEASE_PATHS = {
    "reserved": ("billing", "reserved"),
    "settled_at": ("billing", "settled_at"),
    "reconciled_at": ("billing", "reconciled_at"),
    "bill_waits_for": ("billing", "waits_for"),
    "unobserved": ("billing", "unobserved"),
    "disk_tail": ("billing", "tail"),
    "unwatched": ("billing", "unwatched"),
    "bid_changed_at": ("bidding", "changed_at"),
    "first_bid": ("bidding", "first"),
    "highest_bid": ("bidding", "highest"),
    "rebids": ("bidding", "raises"),
    "status": ("observed", "status"),
    "running_since": ("observed", "running_since"),
    "paused_at": ("observed", "paused_at"),
    "pause_cause": ("observed", "pause_cause"),
    "offline_since": ("observed", "offline_since"),
    "last_seen_at": ("observed", "seen_at"),
    "absences": ("observed", "absences"),
    "absent_at": ("observed", "absent_at"),
    "lists_since_intent": ("observed", "lists_since_intent"),
    "price_to_win": ("observed", "price_to_win"),
    "role": ("orders", "role"),
    "stop_ordered_at": ("orders", "stop_ordered_at"),
    "run_epoch": ("orders", "run_epoch"),
    "stop_seq": ("orders", "stop_seq"),
    "permit_seq": ("permit", "seq"),
    "permit_renewed_at": ("permit", "renewed_at"),
    "permit_ttl_s": ("permit", "ttl_s"),
    "agent_boot": ("agent", "boot"),
    "agent_seq": ("agent", "seq"),
    "agent_state": ("agent", "state"),
    "agent_seen_at": ("agent", "seen_at"),
    "preparing_since": ("agent", "preparing_since"),
    "agent_saved": ("agent", "has_saved"),
    "last_checkpoint_number": ("agent", "last_checkpoint"),
    "log_count": ("agent", "log_count"),
    "agent_sent_bytes": ("agent", "sent_bytes"),
    "exit_code": ("agent", "exit_code"),
    "failed_by_host": ("agent", "failed_by_host"),
    "agent_failures": ("agent", "failures"),
    "is_blamed": ("agent", "is_blamed"),
    "working_since": ("agent", "working_since"),
    "can_run_again": ("agent", "can_run_again"),
    "can_take_next": ("agent", "can_take_next"),
    "readings": ("agent", "readings"),
    "stalled_since": ("agent", "stalled_since"),
    "anchor_work": ("anchor", "work"),
    "anchor_progress": ("anchor", "progress"),
    "window_work": ("anchor", "window_work"),
    "window_progress": ("anchor", "window_progress"),
    "recent_pace": ("anchor", "recent_pace"),
    "slow_windows": ("anchor", "slow_windows"),
    "upload_price": ("traffic", "upload_price"),
    "download_price": ("traffic", "download_price"),
    "download_gb": ("traffic", "download_gb"),
    "upload_gb": ("traffic", "upload_gb"),
    "sent_bytes": ("traffic", "sent_by_day"),
    "destroy_requested_at": ("ending", "requested_at"),
    "destroy_sent_at": ("ending", "sent_at"),
    "destroy_attempts": ("ending", "attempts"),
    "gone_at": ("ending", "gone_at"),
}
"""Columns of a lease that fill a field of one of its records: (record, field)."""

leases = Table(
    "leases",
    metadata,
    *columns_of(
        Lease,
        key=("id",),
        not_money=(
            *("disk_gb", "ram_gb", "anchor_progress", "window_progress", "recent_pace"),
            *("download_gb", "upload_gb"),
        ),
        leave_out=("spans", "uses"),
        paths=LEASE_PATHS,
    ),
    _refers("job_id", "jobs.id"),
    Index(None, "job_id"),
    Index(None, "state"),
    Index(None, "label"),
    Index(None, "intended_at"),
    info={PATHS: LEASE_PATHS},
)

_holds_slot: Any = and_(leases.c.state.in_(sorted(WANTED)), leases.c.job_id.is_not(None))
Index(
    "uq_leases_wanted_slot",
    leases.c.job_id,
    leases.c.slot,
    unique=True,
    sqlite_where=_holds_slot,
    postgresql_where=_holds_slot,
)

lease_spans = Table(
    "lease_spans",
    metadata,
    Column("lease_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    *columns_of(Span),
    PrimaryKeyConstraint("lease_id", "seq"),
    _refers("lease_id", "leases.id"),
)

# Of machines that tasks of arrays have used: the cost of each is calculated from it.
lease_uses = Table(
    "lease_uses",
    metadata,
    Column("lease_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    *columns_of(TaskUse),
    PrimaryKeyConstraint("lease_id", "seq"),
    _refers("lease_id", "leases.id"),
    _refers("job_id", "jobs.id"),
    Index(None, "job_id"),
)

bids = Table(
    "bids",
    metadata,
    *columns_of(BidRecord, key=("id",)),
    _refers("lease_id", "leases.id"),
    Index(None, "lease_id"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    *columns_of(Checkpoint, key=("lease_id", "number")),
    _refers("job_id", "jobs.id"),
    _refers("lease_id", "leases.id"),
    Index(None, "job_id"),
)

ledger_entries = Table(
    "ledger_entries",
    metadata,
    *columns_of(LedgerEntry, key=("id",)),
    _refers("lease_id", "leases.id"),
    _refers("job_id", "jobs.id"),
    _refers("corrects", "ledger_entries.id"),
    # Each covers the sums that are read on every tick, so that they never touch the rows.
    Index(None, "lease_id", "type", "kind", "day", "amount"),
    Index(None, "job_id", "type", "amount"),
    Index(None, "day", "type", "amount"),
)

# What the market billed, as it said at each time: append-only too.
invoice_lines = Table(
    "invoice_lines",
    metadata,
    *columns_of(InvoiceLine, key=("id",)),
    _refers("lease_id", "leases.id"),
    Index(None, "lease_id"),
    Index(None, "day"),
)

price_observations = Table(
    "price_observations",
    metadata,
    *columns_of(
        PriceObservation, key=("provider", "machine_id", "num_gpus", "observed_at"), not_money=("reliability",)
    ),
    Index(None, "gpu", "observed_at"),
    Index(None, "observed_at"),
    sqlite_with_rowid=False,
)

machine_readings = Table(
    "machine_readings",
    metadata,
    *columns_of(MachineReading, key=("lease_id", "at")),
    _refers("lease_id", "leases.id"),
    sqlite_with_rowid=False,
)

drifts = Table(
    "drifts", metadata, *columns_of(Drift, key=("provider", "answer", "field", "kind")), sqlite_with_rowid=False
)

hosts = Table("hosts", metadata, *columns_of(HostRecord, key=("provider", "machine_id")), sqlite_with_rowid=False)

# The sums of spend entries, so that a report need not add them up (store.rollup).
spend_daily = Table(
    "spend_daily",
    metadata,
    Column("day", Date, nullable=False),
    Column("lease_id", Text, nullable=False),
    Column("kind", Code(CostKind), nullable=False),
    Column("amount_nano", NanoUSD, key="amount", nullable=False),
    PrimaryKeyConstraint("day", "lease_id", "kind"),
    _refers("lease_id", "leases.id"),
    Index(None, "lease_id"),
    sqlite_with_rowid=False,
)

decisions = Table(
    "decisions",
    metadata,
    _sequence("seq"),
    *columns_of(DecisionRecord),
    _refers("job_id", "jobs.id"),
    Index("uq_decisions_id", "id", unique=True),
    Index(None, "job_id"),
)

job_forecasts = Table(
    "job_forecasts", metadata, *columns_of(JobForecast, key=("job_id",)), _refers("job_id", "jobs.id")
)

# An event may name what the ledger does not know: no foreign keys.
events = Table(
    "events",
    metadata,
    _sequence("seq"),
    *columns_of(EventRecord, leave_out=("seq",)),
    Index(None, "job_id"),
)

certificates = Table("certificates", metadata, *columns_of(Certificate, key=("job_id",)), _refers("job_id", "jobs.id"))

# What each certification saw, claim by claim, and how far it is, step by step.
certify_findings = Table(
    "certify_findings",
    metadata,
    *columns_of(ClaimFinding, key=("job_id", "claim"), leave_out=("used_on", "account", "version")),
    _refers("job_id", "jobs.id"),
)
# The newest that the use of a market by ordinary jobs showed of each claim.
use_findings = Table(
    "use_findings", metadata, *columns_of(ClaimFinding, key=("used_on", "claim")), _refers("job_id", "jobs.id")
)
certify_steps = Table(
    "certify_steps", metadata, *columns_of(StepMark, key=("job_id", "step")), _refers("job_id", "jobs.id")
)

# A notice may name what the ledger does not know: no foreign keys.
notices = Table("notices", metadata, *columns_of(PendingNotice, key=("id", "sink")), Index(None, "sink", "due_at"))

notes = Table("notes", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

# One row: who leads, on a server that several daemons share, or in a file for people. Not part of what a ledger holds,
# so never copied.
leader = Table(
    "leader",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),
    Column("taken_at", Instant, nullable=False),
    Column("renewed_at", Instant, nullable=True),
)
