"""Reconciliation: the market's invoice is imported into the ledger line by line, each into the day it belongs to.

A line is kept as it was seen (``InvoiceLine``); a new figure for the same instance, kind and day is a new revision.
The ledger's entry for it names the line, brings the sum of that kind and day to the market's figure, and is

- ``settle`` while the whole instance differs by no more than rounding and the line is the first of its kind and day,
- ``adjust`` otherwise. A drift beyond the tolerance is an alert as well: nothing is evened out in silence.

Bills lag and come in parts. A bill is complete when its periods cover the machine's life and two looks at least
``LOOKS_APART`` apart show the same. Until then a line that is higher than our figure counts at once. A lower one counts
only when the bill covers all that we saw, and limits still hold back the difference.

If a machine was found stopped after an unobserved time, its bill is read while it is stopped: the same computing on two
looks ``LOOKS_APART`` is what it did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise, zip_longest

import structlog

from autopilot.domain.instance import Charge, CostKind, InstanceStatus
from autopilot.domain.lease import BillWait, Lease, Span, metered_by_day, unmetered_traffic, unobserved_run
from autopilot.domain.ledger import BILL_TYPES, SPEND_TYPES, EntryType, InvoiceLine, KindAndDay, LedgerEntry
from autopilot.domain.money import CENT, ZERO, accrue, to_nano
from autopilot.domain.reasons import Reason
from autopilot.domain.reconciliation import drift_of, newest_revisions
from autopilot.domain.time import start_of_day, utc_day
from autopilot.engine.accrue import reserve_change
from autopilot.engine.observe import VISIBLE_AFTER
from autopilot.engine.recorded import Record, corrections
from autopilot.ports.store import EventRecord, UnitOfWork

log = structlog.get_logger(__name__)

SHOWS_UP = Decimal("0.001")
"""No more than this per kind and day may round to nothing on the market's bill."""
LOOKS_APART = timedelta(hours=1)
"""Two looks at a bill so far apart that show the same are proof that it does not come in parts."""
UNFINISHED_FOR = timedelta(hours=24)
"""From the end of the instance, or of the day: a bill that does not cover its life is waited for so long."""
GIVE_UP_AFTER = timedelta(hours=72)
"""A market that shows no line for so long will not; our own accrual is final."""
LOOKS = (UNFINISHED_FOR, GIVE_UP_AFTER)
"""After the end of an instance its bill is compared again, for corrections."""
LATEST_BILL = timedelta(days=45)
"""Bills older than this are no longer asked for."""
TOLERANCE_SHARE = Decimal("0.001")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What one look at the bill of one instance brings."""

    lines: tuple[InvoiceLine, ...] = ()
    entries: tuple[LedgerEntry, ...] = ()
    is_final: bool = False
    """The bill is complete, as far as it shows: the lease counts as settled."""
    waits_for: BillWait | None = None
    """Why it is not."""
    held: Decimal = ZERO
    """Dollars to hold back beyond what is posted, until it is: limits count the higher of estimate and bill."""
    drift: Decimal = ZERO
    """Market less estimate over what it has billed by now; counted only where something changed."""
    estimate: Decimal = ZERO

    @property
    def has_drifted(self) -> bool:
        return bool(self.entries) and abs(self.drift) > tolerance(self.estimate)


def tolerance(estimate: Decimal) -> Decimal:
    """Dollars by which a bill may differ from our clock: max($0.01, 0.1 %)."""
    return max(CENT, abs(estimate) * TOLERANCE_SHARE)


def reconcile(
    lease: Lease, entries: Iterable[LedgerEntry], known: Iterable[InvoiceLine], charges: Iterable[Charge], now: datetime
) -> Reconciled:
    """Compare what the market billed for ``lease`` with what the ledger holds for it.

    ``entries``, ``known``: all of the lease's entries and lines so far. ``charges``: of any instances, any days.
    """
    book = _Book(entries)
    bill = _Bill(lease, known, charges, now)
    if lease.ending.gone_at is None:
        certain, stopped = _certain(bill.billed, book.estimate, now), _of_stopped(lease, bill.billed)
        steady = bill.same_since(stopped, doubt.found_at) if (doubt := unobserved_run(lease)) else frozenset()
        bill.keep_only(stopped | certain)
        bill.note()
        # A line that was noted while it seemed to be gone says nothing of the hours since it came back.
        return bill.answer(book, certain.keys() | steady)
    waited = now - lease.ending.gone_at
    due = _certainly_due(lease, book.estimate, is_billed=bool(bill.billed))
    wait = _why_unfinished(lease, bill, due, book.estimate)
    bill.note()
    covers = wait not in (BillWait.NO_BILL, BillWait.PERIODS_MISSING) and not _lacks_compute(lease, bill, book.estimate)
    is_the_same = bill.is_the_same_as_before(lease.ending.gone_at)
    is_complete = covers and is_the_same
    if wait is None or is_complete:
        bill.note_silence(book.estimate.keys())
        shown: Collection[KindAndDay] = bill.latest.keys()
    elif waited >= UNFINISHED_FOR and (bill.billed or sum(due.values(), ZERO) <= CENT):
        missing = {key: amount for key, amount in book.estimate.items() if key not in bill.latest}
        silent = {key for key, amount in missing.items() if waited >= _patience(key[0], amount)}
        bill.note_silence(silent)
        is_complete = is_the_same and silent == set(missing)
        shown = bill.latest.keys()
    else:
        shown = [key for key, line in bill.latest.items() if line.amount > book.sum_posted(key)]
    is_final = is_complete or waited >= GIVE_UP_AFTER
    found = bill.answer(book, shown)
    if is_final:
        return replace(found, is_final=True)
    most = max(book.sum_most(lease), lease.billing.unobserved) + unmetered_traffic(lease)
    posted = book.total + sum((entry.amount for entry in found.entries), ZERO)
    return replace(found, waits_for=wait or BillWait.SECOND_LOOK, held=max(most - posted, ZERO))


async def import_invoice(uow: UnitOfWork, asked: Lease, charges: Sequence[Charge], now: datetime) -> None:
    """Bring the ledger to the bill. ``asked``: the lease as it was before the market was asked."""
    lease = await uow.leases.get(asked.id) or asked
    if lease.ending.gone_at != asked.ending.gone_at:
        return  # it came back to life, or to its end, meanwhile
    lines = await uow.invoices.list_by_lease([lease.id])
    found = reconcile(lease, await uow.ledger.list_entries(lease.id), lines, charges, now)
    await uow.invoices.add(found.lines)
    await uow.ledger.post(found.entries)
    if found.has_drifted:
        numbers = (("drift", found.drift), ("estimate", found.estimate), ("instance_id", lease.instance_id))
        await uow.events.add([EventRecord(now, "invoice.drifted", lease.job_id, lease.id, numbers)])
        log.warning("invoice.drifted", lease=lease.id, **dict(numbers))
    if lease.ending.gone_at is None:
        await uow.leases.save(replace(lease, billing=replace(lease.billing, reconciled_at=now)))
        return
    if lease.billing.settled_at is None:
        books = await uow.ledger.sum_books([lease.id])
        change = reserve_change(lease, books[lease.id], found.held, now)
        await uow.ledger.post([change] if change is not None else [])
        if found.is_final:
            log.info("lease.settled", lease=lease.id, entries=len(found.entries))
        settled_at = now if found.is_final else None
        lease = replace(lease, billing=replace(lease.billing, settled_at=settled_at, waits_for=found.waits_for))
    await uow.leases.save(replace(lease, billing=replace(lease.billing, reconciled_at=now)))


async def settle_unbilled(uow: UnitOfWork, asked: Lease, record: Record | None, now: datetime) -> None:
    """On a market without bills: once a machine is gone, our own clock is final, and nothing more is reserved.

    Its unobserved hours cost what the market's price record shows. If that cannot be read (None), it is waited for.
    """
    lease = await uow.leases.get(asked.id) or asked
    if lease.ending.gone_at is None:
        return
    if record is None and now - lease.ending.gone_at < GIVE_UP_AFTER:
        return
    if lease.billing.settled_at is None:
        await uow.ledger.post(corrections(lease, record or {}, now))
        books = (await uow.ledger.sum_books([lease.id]))[lease.id]
        change = reserve_change(lease, books, ZERO, now)
        await uow.ledger.post([change] if change is not None else [])
        log.info("lease.settled_without_bill", lease=lease.id)
    settled_at = lease.billing.settled_at or now
    billing = replace(lease.billing, settled_at=settled_at, reconciled_at=now, waits_for=None)
    await uow.leases.save(replace(lease, billing=billing))


async def write_off(uow: UnitOfWork, asked: Lease, now: datetime) -> None:
    """Give back what is held for a create that no list and no bill has shown, once a bill would have."""
    lease = await uow.leases.get(asked.id) or asked
    if not lease.may_be_billed or lease.observed.absent_at is None:
        return
    books = (await uow.ledger.sum_books([lease.id]))[lease.id]
    if now - lease.observed.absent_at < _patience(CostKind.COMPUTE, books.reserved):
        return
    change = reserve_change(lease, books, ZERO, now)
    await uow.ledger.post([change] if change is not None else [])
    await uow.leases.save(replace(lease, billing=replace(lease.billing, settled_at=now)))
    await uow.events.add([EventRecord(now, "lease.written_off", lease.job_id, lease.id, (("held", books.reserved),))])


class _Bill:
    """What the market shows of one lease's bill now, beside what it showed before."""

    def __init__(self, lease: Lease, known: Iterable[InvoiceLine], charges: Iterable[Charge], now: datetime) -> None:
        self._lease = lease
        self._now = now
        ours = [charge for charge in charges if charge.instance_id == lease.instance_id]
        self.charges = [charge for charge in ours if not _is_the_users(lease, charge)]
        self.billed: dict[KindAndDay, Decimal] = {}
        for charge in self.charges:
            key = charge.kind.as_billed, charge.day
            self.billed[key] = self.billed.get(key, ZERO) + charge.amount
        self.latest = {(kind, day): line for (_, kind, day), line in newest_revisions(known).items()}
        self._before = dict(self.latest)
        self._lines: list[InvoiceLine] = []

    def keep_only(self, billed: dict[KindAndDay, Decimal]) -> None:
        self.billed = billed

    def note(self) -> None:
        """A line for each figure that is new."""
        for (kind, day), amount in sorted(self.billed.items()):
            before = self.latest.get((kind, day))
            if before is None or before.amount != amount:
                line = _line(self._lease, kind, day, amount, before.revision + 1 if before else 1, self._now)
                self.latest[kind, day] = line
                self._lines.append(line)

    def same_since(self, billed: Mapping[KindAndDay, Decimal], since: datetime) -> frozenset[KindAndDay]:
        """Those lines that two looks since then, far enough apart, show the same."""
        return frozenset(
            key
            for key, amount in billed.items()
            if (line := self._before.get(key)) is not None
            and line.amount == amount
            and since <= line.seen_at <= self._now - LOOKS_APART
        )

    def note_silence(self, keys: Iterable[KindAndDay]) -> None:
        """What the bill does not name was not billed."""
        self.billed = {key: ZERO for key in keys if key not in self.latest}
        self.note()

    def is_the_same_as_before(self, gone_at: datetime) -> bool:
        """Whether this look shows what was shown by one long enough ago, and nothing else."""
        seen = max((line.seen_at for line in self._before.values()), default=gone_at)
        is_missing = any(line.amount and key not in self.billed for key, line in self._before.items())
        return not self._lines and not is_missing and self._now - seen >= LOOKS_APART

    def answer(self, book: _Book, shown: Collection[KindAndDay]) -> Reconciled:
        """``shown``: the lines that the ledger is brought to."""
        lines = [line for key, line in sorted(self.latest.items()) if key in shown]
        estimate = sum((book.estimate.get((line.kind, line.day), ZERO) for line in lines), ZERO)
        drift = ZERO
        for line in lines:
            drift += drift_of(line.kind, line.amount - book.estimate.get((line.kind, line.day), ZERO))
        within = abs(drift) <= tolerance(estimate)
        corrections = (book.correction(self._lease, line, within and line.revision == 1, self._now) for line in lines)
        posted = tuple(correction for correction in corrections if correction is not None)
        return Reconciled(tuple(self._lines), posted, drift=drift, estimate=estimate)


class _Book:
    """The entries of one lease by the kind and day under which bills are compared."""

    def __init__(self, entries: Iterable[LedgerEntry]) -> None:
        self.estimate: dict[KindAndDay, Decimal] = {}
        self._posted: dict[KindAndDay, Decimal] = {}
        self._billed_at: dict[KindAndDay, datetime] = {}
        """When a line of the bill first counted."""
        self._last: dict[KindAndDay, LedgerEntry] = {}
        for entry in entries:
            key = entry.kind.as_billed, entry.day
            if entry.type is EntryType.ACCRUE:
                self.estimate[key] = self.estimate.get(key, ZERO) + entry.amount
            if entry.type in SPEND_TYPES:
                self._posted[key] = self._posted.get(key, ZERO) + entry.amount
                self._last[key] = entry
            if entry.type in BILL_TYPES:
                self._billed_at[key] = min(entry.posted_at, self._billed_at.get(key, entry.posted_at))

    def sum_most(self, lease: Lease) -> Decimal:
        """The most that it has cost: by our own clock, or where a bill counted while it lived, by that and what came
        after. One that came back has lines of the time when it seemed to be gone: they prove nothing."""
        gone_at = lease.ending.gone_at
        lived_on = all(span.ended_at == following.started_at for span, following in pairwise(lease.spans))
        believed = {key for key, at in self._billed_at.items() if lived_on and gone_at is not None and at <= gone_at}
        unbilled = sum((amount for key, amount in self.estimate.items() if key not in believed), ZERO)
        return unbilled + sum((self._posted[key] for key in believed), ZERO)

    @property
    def total(self) -> Decimal:
        """All that is posted, in dollars."""
        return sum(self._posted.values(), ZERO)

    def sum_posted(self, key: KindAndDay) -> Decimal:
        return self._posted.get(key, ZERO)

    def correction(self, lease: Lease, line: InvoiceLine, is_settling: bool, now: datetime) -> LedgerEntry | None:
        """The entry that brings the ledger to ``line``.

        Its id is made of the line and of what had accrued: both only ever grow, so that it never comes back.
        """
        key = line.kind, line.day
        amount = line.amount - self._posted.get(key, ZERO)
        if amount == ZERO:
            return None
        last = self._last.get(key)
        return LedgerEntry(
            id=f"{line.id}:{to_nano(self.estimate.get(key, ZERO))}",
            type=EntryType.SETTLE if is_settling else EntryType.ADJUST,
            kind=last.kind if last else line.kind,
            lease_id=lease.id,
            job_id=lease.job_id,
            provider=lease.provider,
            day=line.day,
            amount=amount,
            posted_at=now,
            corrects=last.id if last else None,
            line_id=line.id,
        )


def _is_the_users(lease: Lease, charge: Charge) -> bool:
    """Whether the charge is for a day after the user took the machine over. No bill splits the hours of that day.
    A different label alone proves nothing: every day's bill shows the present label.
    """
    if lease.reason is not Reason.TAKEN_OVER or lease.ending.gone_at is None or charge.label == lease.label:
        return False
    return charge.day > utc_day(lease.ending.gone_at)


def _certain(
    billed: Mapping[KindAndDay, Decimal], estimate: Mapping[KindAndDay, Decimal], now: datetime
) -> dict[KindAndDay, Decimal]:
    """The final part of a running instance's bill: past days; of the last one, only amounts that are not too low."""
    certain: dict[KindAndDay, Decimal] = {}
    for (kind, day), amount in billed.items():
        since = now - start_of_day(day + timedelta(days=1))
        if since >= UNFINISHED_FOR or (since >= timedelta(0) and amount >= estimate.get((kind, day), ZERO)):
            certain[kind, day] = amount
    return certain


def _of_stopped(lease: Lease, billed: Mapping[KindAndDay, Decimal]) -> dict[KindAndDay, Decimal]:
    """What the bill says of the computing of a machine that was found stopped, on the days that are in doubt.

    It grows no more. A day on which the bill has the disk alone, or nothing if the disk is free, had none. Less than
    what the machine was seen to compute is no bill yet.
    """
    doubt = unobserved_run(lease)
    if doubt is None:
        return {}
    shown = {day for _, day in billed}
    seen = metered_by_day((span for span in lease.spans if span.is_observed), doubt.found_at)
    found: dict[KindAndDay, Decimal] = {}
    for day in doubt.days:
        key = CostKind.COMPUTE, day
        amount, due = billed.get(key, ZERO), seen.get(key, ZERO)
        if (day in shown or (billed and not lease.storage_rate)) and due - amount <= tolerance(due):
            found[key] = amount
    return found


def _why_unfinished(
    lease: Lease, bill: _Bill, due: Mapping[KindAndDay, Decimal], estimate: Mapping[KindAndDay, Decimal]
) -> BillWait | None:
    """What the bill of an instance that is gone lacks beside what is surely ``due``; None: nothing."""
    ours = sum(due.values(), ZERO)
    lacks_compute = _lacks_compute(lease, bill, estimate)
    if not bill.billed:
        return BillWait.NO_BILL if ours > SHOWS_UP or lacks_compute else None
    if lacks_compute:
        return BillWait.LINES_MISSING
    if _cost_uncovered(lease, bill.charges) > SHOWS_UP:
        return BillWait.PERIODS_MISSING
    if any(amount > SHOWS_UP and key not in bill.billed for key, amount in due.items()):
        return BillWait.LINES_MISSING
    theirs = sum((amount for (kind, _), amount in bill.billed.items() if kind in _METERED), ZERO)
    return BillWait.TOO_LOW if ours - theirs > tolerance(ours) else None


def _lacks_compute(lease: Lease, bill: _Bill, estimate: Mapping[KindAndDay, Decimal]) -> bool:
    """The machine has run, for however short a while, and the bill has no line for that: the same twice proves nothing.

    A list has shown it running; or its agent has reported, even if no list has.
    """
    is_shown = any(span.status is InstanceStatus.RUNNING and span.is_observed for span in lease.spans)
    ours = sum((amount for (kind, _), amount in estimate.items() if kind is CostKind.COMPUTE), ZERO)
    is_billed = any(kind is CostKind.COMPUTE for kind, _ in bill.billed)
    return (is_shown or lease.agent.seen_at is not None) and ours > SHOWS_UP and not is_billed


_METERED = (CostKind.COMPUTE, CostKind.STORAGE_RUNNING)


def _certainly_due(
    lease: Lease, estimate: Mapping[KindAndDay, Decimal], *, is_billed: bool
) -> dict[KindAndDay, Decimal]:
    """Our estimate without its upper bounds: no traffic, and nothing of the time in which it was unobserved."""
    due = {key: amount for key, amount in estimate.items() if key[0] is not CostKind.BANDWIDTH}
    if lease.ending.gone_at is not None:
        doubtful = (replace(span, started_at=since) for span, since in _doubts(lease, is_billed=is_billed))
        for (kind, day), amount in metered_by_day(doubtful, lease.ending.gone_at).items():
            key = kind.as_billed, day
            due[key] = max(due.get(key, ZERO) - amount, ZERO)
    return due


def _doubts(lease: Lease, *, is_billed: bool) -> Iterator[tuple[Span, datetime]]:
    """Each span, and since when in it the machine may have billed less than our clock says.

    It was unobserved; or it is after the last list that showed it; or in the minute before less was billed. A list may
    show a machine for a while after its end, as it may hide one after its start, and shows late that one has stopped
    or that its host is lost. That minute excuses a bill that is low, and none that has no line at all.
    """
    seen_at = lease.observed.seen_at
    for span, following in zip_longest(lease.spans, lease.spans[1:]):
        end = span.ended_at or lease.ending.gone_at or span.started_at
        since = end if seen_at is None else min(end, seen_at - VISIBLE_AFTER)
        if is_billed and following is not None and following.billed_rate < span.billed_rate:
            since = min(since, end - VISIBLE_AFTER)
        yield span, max(since, span.started_at) if span.is_observed else span.started_at


def _cost_uncovered(lease: Lease, charges: Iterable[Charge]) -> Decimal:
    """Dollars that the machine cost by our own clock, where we saw it, in times that no line of the bill is about."""
    periods = sorted(period for charge in charges for period in charge.periods or (_whole(charge.day),))
    gaps = (
        accrue(span.billed_rate + span.storage_rate, gap)
        for span, until in _doubts(lease, is_billed=True)
        for gap in _gaps(span.started_at, until, periods)
    )
    return sum(gaps, ZERO)


def _gaps(since: datetime, until: datetime, periods: Iterable[tuple[datetime, datetime]]) -> Iterator[timedelta]:
    """What the periods, in the order of their beginnings, leave out."""
    for first, last in periods:
        if since < min(first, until):
            yield min(first, until) - since
        since = max(since, last)
    if since < until:
        yield until - since


def _whole(day: date) -> tuple[datetime, datetime]:
    return start_of_day(day), start_of_day(day + timedelta(days=1))


def _patience(kind: CostKind, amount: Decimal) -> timedelta:
    """How long after the end a line that a plausible bill lacks may still come, before it counts as not billed.

    Traffic never exceeds our upper bound. If it is billed at all, it is on the same bill as the hours.
    """
    if kind is CostKind.BANDWIDTH or amount <= SHOWS_UP:
        return timedelta(0)
    return UNFINISHED_FOR if amount <= CENT else GIVE_UP_AFTER


def _line(lease: Lease, kind: CostKind, day: date, amount: Decimal, revision: int, now: datetime) -> InvoiceLine:
    instance_id = lease.instance_id or ""
    return InvoiceLine(
        id=f"{lease.provider}:{instance_id}:{kind}:{day}:r{revision}",
        provider=lease.provider,
        instance_id=instance_id,
        lease_id=lease.id,
        kind=kind,
        day=day,
        amount=amount,
        revision=revision,
        seen_at=now,
    )


def window(leases: Sequence[Lease], now: datetime) -> tuple[date, date]:
    """The UTC days whose charges cover the whole life of these leases."""
    return min((lease.intended_at for lease in leases), default=now).date(), now.date()


def is_due(lease: Lease, delay: timedelta, now: datetime) -> bool:
    """Whether a lease calls for a look at its bill: soon after its end, until it is settled, and at ``LOOKS``.

    Also if it was found stopped after an unobserved time.

    The longer a bill is waited for, the longer the pauses between two looks.
    """
    if lease.ending.gone_at is None:
        return _is_doubted(lease, now)
    since = now - lease.ending.gone_at
    if lease.billing.settled_at is None:
        looked = lease.billing.reconciled_at
        pause = LOOKS_APART if lease.billing.waits_for is BillWait.SECOND_LOOK else since / 8
        return since >= delay and (looked is None or now - looked >= pause)
    looked = lease.billing.reconciled_at or lease.billing.settled_at
    return any(since >= look and looked < lease.ending.gone_at + look for look in LOOKS)


def _is_doubted(lease: Lease, now: datetime) -> bool:
    """Whether a stopped machine waits for its bill: at once when it is found so, and then from hour to hour."""
    doubt, looked = unobserved_run(lease), lease.billing.reconciled_at
    if doubt is None or now - doubt.found_at >= UNFINISHED_FOR:
        return False
    return looked is None or looked < doubt.found_at or now - looked >= LOOKS_APART
