"""What the ledger holds, table by table, with the indexes and running sums that a database would keep or calculate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from autopilot.domain.certificate import Certificate, ClaimFinding, StepMark
from autopilot.domain.code import CodeCopy
from autopilot.domain.drift import Drift, DriftKey
from autopilot.domain.hosts import HostRecord, MachineKey
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Checkpoint, Job
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.lease import OVER, Lease, LeaseState, Slot
from autopilot.domain.ledger import BILL_TYPES, SPEND_TYPES, InvoiceLine, LeaseBooks, LedgerEntry
from autopilot.domain.money import ZERO, to_nano
from autopilot.domain.prices import PriceObservation
from autopilot.domain.readings import MachineReading
from autopilot.domain.schedule import Schedule
from autopilot.domain.token import Token
from autopilot.ports.store import BidRecord, ConstraintViolated, DecisionRecord, EventRecord, KeptAnswer, PendingNotice
from autopilot_lab.memory_store.rows import Rows

PriceKey = tuple[str, str, int, datetime]
Committed = dict[str, dict[Any, Any]]


class MemoryTables:
    """All tables as one unit of work sees them.

    Rules that look at one row at a time are checked as it is written (``ConstraintViolated``); references to other
    rows are checked by ``check_references`` when the transaction ends, so that the order of writes does not matter.
    """

    def __init__(self, committed: Committed) -> None:
        def rows(name: str) -> Rows[Any, Any]:
            return Rows(committed.setdefault(name, {}))

        self.jobs: Rows[str, Job] = rows("jobs")
        self.leases: Rows[str, Lease] = rows("leases")
        self.array_tables: Rows[str, str] = rows("array_tables")
        self.checkpoints: Rows[tuple[str, int], Checkpoint] = rows("checkpoints")
        self.entries: Rows[str, LedgerEntry] = rows("entries")
        self.bids: Rows[str, BidRecord] = rows("bids")
        self.decisions: Rows[str, DecisionRecord] = rows("decisions")
        self.events: Rows[int, EventRecord] = rows("events")
        self.prices: Rows[PriceKey, PriceObservation] = rows("prices")
        self.readings: Rows[str, tuple[MachineReading, ...]] = rows("readings")
        self.notes: Rows[str, str] = rows("notes")
        self.tokens: Rows[int, Token] = rows("tokens")
        self.schedules: Rows[str, Schedule] = rows("schedules")
        self.schedule_tables: Rows[str, str] = rows("schedule_tables")
        self.code_copies: Rows[str, CodeCopy] = rows("code_copies")
        self.drifts: Rows[DriftKey, Drift] = rows("drifts")
        self.hosts: Rows[MachineKey, HostRecord] = rows("hosts")
        self.forecasts: Rows[str, JobForecast] = rows("forecasts")
        self.notices: Rows[tuple[str, str], PendingNotice] = rows("notices")
        self.kept_answers: Rows[tuple[int, str], KeptAnswer] = rows("kept_answers")
        self.invoice_lines: Rows[str, InvoiceLine] = rows("invoice_lines")
        self.certificates: Rows[str, Certificate] = rows("certificates")
        self.findings: Rows[tuple[str, str], ClaimFinding] = rows("findings")
        self.use_findings: Rows[tuple[str, str], ClaimFinding] = rows("use_findings")
        self.marks: Rows[tuple[str, str], StepMark] = rows("marks")

        # Indexes and sums
        self.last_seq: Rows[str, int] = rows("last_seq")
        self.open_jobs: Rows[str, bool] = rows("open_jobs")
        self.firings: Rows[tuple[str, datetime], str] = rows("firings")
        self.certifications: Rows[str, bool] = rows("certifications")
        self.tasks_by_array: Rows[str, tuple[str, ...]] = rows("tasks_by_array")
        self.task_places: Rows[tuple[str, int], str] = rows("task_places")
        self.leases_by_job: Rows[str, tuple[str, ...]] = rows("leases_by_job")
        self.leases_used_by: Rows[str, tuple[str, ...]] = rows("leases_used_by")
        self.leases_by_label: Rows[str, tuple[str, ...]] = rows("leases_by_label")
        self.live_leases: Rows[str, bool] = rows("live_leases")
        self.unsettled: Rows[str, bool] = rows("unsettled")
        self.slots: Rows[tuple[str, Slot], str] = rows("slots")
        self.launches: Rows[datetime, tuple[str, ...]] = rows("launches")
        self.bids_by_lease: Rows[str, tuple[str, ...]] = rows("bids_by_lease")
        self.checkpoints_by_job: Rows[str, tuple[tuple[str, int], ...]] = rows("checkpoints_by_job")
        self.entries_by_lease: Rows[str, tuple[str, ...]] = rows("entries_by_lease")
        self.bill_entries: Rows[str, LedgerEntry] = rows("bill_entries")
        self.posted: Rows[str, Mapping[tuple[CostKind, date], Decimal]] = rows("posted")
        self.books: Rows[str, LeaseBooks] = rows("books")
        self.lines_by_lease: Rows[str, tuple[str, ...]] = rows("lines_by_lease")
        self.spent_by_job: Rows[str, Mapping[str, Decimal]] = rows("spent_by_job")
        self.spent_on: Rows[date, Decimal] = rows("spent_on")

    def all(self) -> list[Rows[Any, Any]]:
        return [rows for rows in vars(self).values() if isinstance(rows, Rows)]

    def put_job(self, job: Job) -> None:
        if job.schedule_id is not None and job.due_at is not None:
            firing = job.schedule_id, job.due_at
            made = self.firings.get(firing)
            if made not in (None, job.id):
                raise ConstraintViolated(f"job {made} is the firing of {firing} already")
            self.firings.put(firing, job.id)
        if job.array_id is not None and job.task is not None:
            holder = self.task_places.get((job.array_id, job.task))
            if holder not in (None, job.id):
                raise ConstraintViolated(f"task {job.task} of array {job.array_id} is job {holder}")
            if holder is None:
                self.task_places.put((job.array_id, job.task), job.id)
                _move(self.tasks_by_array, job.id, None, job.array_id)
        self.jobs.put(job.id, replace(job, leases=(), checkpoint=None, spent=ZERO, held=ZERO))
        if job.certifies:
            self.certifications.put(job.id, True)
        if job.status.is_final:
            self.open_jobs.remove(job.id)
        else:
            self.open_jobs.put(job.id, True)

    def put_lease(self, lease: Lease) -> None:
        before = self.leases.get(lease.id)
        if before is not None and len(before.spans) > len(lease.spans):
            # Spans are rows of their own: those that the record no longer tells stay.
            lease = replace(lease, spans=lease.spans + before.spans[len(lease.spans) :])
        if before is not None and len(before.uses) > len(lease.uses):
            lease = replace(lease, uses=lease.uses + before.uses[len(lease.uses) :])
        self._take_slot(before, lease)
        self.leases.put(lease.id, lease)
        _mark(self.live_leases, lease.id, lease.state not in OVER)
        is_gone = lease.state is LeaseState.GONE and lease.instance_id is not None
        _mark(self.unsettled, lease.id, lease.may_be_billed or (is_gone and lease.billing.settled_at is None))
        _move(self.leases_by_job, lease.id, before and before.job_id, lease.job_id)
        for use in lease.uses[len(before.uses) if before else 0 :]:
            known = self.leases_used_by.get(use.job_id) or ()
            self.leases_used_by.put(use.job_id, known if lease.id in known else (*known, lease.id))
        _move(self.leases_by_label, lease.id, before and before.label, lease.label)
        _move(self.launches, lease.id, before and hour_of(before.intended_at), hour_of(lease.intended_at))

    def _take_slot(self, before: Lease | None, lease: Lease) -> None:
        if (
            before is not None
            and before.job_id is not None
            and self.slots.get((before.job_id, before.slot)) == lease.id
        ):
            self.slots.remove((before.job_id, before.slot))
        if lease.job_id is None or not lease.is_wanted:
            return
        holder = self.slots.get((lease.job_id, lease.slot))
        if holder is not None:
            raise ConstraintViolated(f"slot {lease.slot} of job {lease.job_id} is held by lease {holder}")
        self.slots.put((lease.job_id, lease.slot), lease.id)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        key = (checkpoint.lease_id, checkpoint.number)
        if self.checkpoints.get(key) is None:
            self.checkpoints.put(key, checkpoint)
            _move(self.checkpoints_by_job, key, None, checkpoint.job_id)

    def remove_checkpoint(self, checkpoint: Checkpoint) -> None:
        key = (checkpoint.lease_id, checkpoint.number)
        held = self.checkpoints.get(key)
        if held is not None:
            self.checkpoints.remove(key)
            _move(self.checkpoints_by_job, key, held.job_id, None)

    def set_checkpoint_aside(self, checkpoint: Checkpoint, is_set_aside: bool) -> None:
        key = (checkpoint.lease_id, checkpoint.number)
        held = self.checkpoints.get(key)
        if held is not None:
            self.checkpoints.put(key, replace(held, is_set_aside=is_set_aside))

    def add_entry(self, entry: LedgerEntry) -> bool:
        """Whether its id was new. Raises ``ValueError`` for an amount finer than a nano-dollar."""
        if self.entries.get(entry.id) is not None:
            return False
        to_nano(entry.amount)
        self.entries.put(entry.id, entry)
        if entry.type in BILL_TYPES:
            self.bill_entries.put(entry.id, entry)
        _move(self.entries_by_lease, entry.id, None, entry.lease_id)
        self.books.put(entry.lease_id, (self.books.get(entry.lease_id) or LeaseBooks()).with_entry(entry))
        if entry.type in SPEND_TYPES:
            sums = self.posted.get(entry.lease_id) or {}
            key = (entry.kind, entry.day)
            self.posted.put(entry.lease_id, {**sums, key: sums.get(key, ZERO) + entry.amount})
            self.spent_on.put(entry.day, (self.spent_on.get(entry.day) or ZERO) + entry.amount)
            if entry.job_id is not None:
                spent = self.spent_by_job.get(entry.job_id) or {}
                more = {entry.lease_id: spent.get(entry.lease_id, ZERO) + entry.amount}
                self.spent_by_job.put(entry.job_id, {**spent, **more})
        return True

    def add_invoice_line(self, line: InvoiceLine) -> None:
        if self.invoice_lines.get(line.id) is None:
            self.invoice_lines.put(line.id, line)
            _move(self.lines_by_lease, line.id, None, line.lease_id)

    def put_bid(self, record: BidRecord) -> None:
        before = self.bids.get(record.id)
        self.bids.put(record.id, record)
        _move(self.bids_by_lease, record.id, before and before.lease_id, record.lease_id)

    def add_decision(self, record: DecisionRecord) -> None:
        if self.decisions.get(record.id) is not None:
            raise ConstraintViolated(f"there is a decision {record.id} already")
        self.decisions.put(record.id, record)

    def add_event(self, record: EventRecord) -> None:
        seq = (self.last_seq.get("events") or 0) + 1
        self.last_seq.put("events", seq)
        self.events.put(seq, replace(record, seq=seq))

    def add_reading(self, reading: MachineReading) -> None:
        known = self.readings.get(reading.lease_id) or ()
        if reading.at not in {each.at for each in known}:
            self.readings.put(reading.lease_id, (*known, reading))

    def check_references(self) -> None:
        """Every row that was written names rows that exist. Raises ``ConstraintViolated``."""
        self._check_work()
        self._check_money()
        self._check_notes()

    def _check_work(self) -> None:
        for lease in _list_written(self.leases):
            for job_id in (lease.job_id, *(use.job_id for use in lease.uses)):
                self._refer(f"lease {lease.id}", self.jobs, job_id)
        for job_id in self.array_tables.changes:
            self._refer("a table", self.jobs, job_id)
        for schedule_id in self.schedule_tables.changes:
            self._refer("a table", self.schedules, schedule_id)
        for checkpoint in _list_written(self.checkpoints):
            self._refer(f"checkpoint {checkpoint.number}", self.jobs, checkpoint.job_id)
            self._refer(f"checkpoint {checkpoint.number}", self.leases, checkpoint.lease_id)

    def _check_money(self) -> None:
        for entry in _list_written(self.entries):
            self._refer(f"entry {entry.id}", self.leases, entry.lease_id)
            self._refer(f"entry {entry.id}", self.jobs, entry.job_id)
            self._refer(f"entry {entry.id}", self.entries, entry.corrects)
        for line in _list_written(self.invoice_lines):
            self._refer(f"line {line.id}", self.leases, line.lease_id)

    def _check_notes(self) -> None:
        for readings in _list_written(self.readings):
            self._refer("a reading", self.leases, readings[0].lease_id)
        for written in (self.certificates, self.findings, self.use_findings, self.marks):
            for row in _list_written(written):
                self._refer("a certificate or what is behind it", self.jobs, row.job_id)
        for bid in _list_written(self.bids):
            self._refer(f"bid {bid.id}", self.leases, bid.lease_id)
        for decision in _list_written(self.decisions):
            self._refer(f"decision {decision.id}", self.jobs, decision.job_id)

    def _refer(self, what: str, table: Rows[str, Any], key: str | None) -> None:
        if key is not None and table.get(key) is None:
            raise ConstraintViolated(f"{what} names {key}, which is not there")


def hour_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _list_written(rows: Rows[Any, Any]) -> list[Any]:
    return [row for row in rows.changes.values() if row is not None]


def _mark(index: Rows[str, bool], key: str, is_in: bool) -> None:
    if is_in:
        index.put(key, True)
    elif index.get(key):
        index.remove(key)


def _move(index: Rows[Any, tuple[Any, ...]], member: Any, before: Any, after: Any) -> None:
    """The index's list of ``member`` is no longer that of ``before`` but that of ``after``; None: no list."""
    if before == after:
        return
    if before is not None:
        index.put(before, tuple(other for other in index.get(before) or () if other != member))
    if after is not None:
        index.put(after, (*(index.get(after) or ()), member))
