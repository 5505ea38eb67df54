"""Reconciliation: the market's invoice is imported into the ledger line by line, each into the day it belongs to.

A line is kept as it was seen (``InvoiceLine``); a new figure for the same instance, kind and day is a new revision.
The ledger's entry for it names the line, brings the sum of that kind and day to the market's figure, and is

- ``settle`` while the whole instance differs by no more than rounding and the line is the first of its kind and day,
- ``adjust`` otherwise. A drift beyond the tolerance is an alert as well: nothing is evened out in silence.

Bills lag. One that lacks lines, or is well below what the machine must have cost, counts as unfinished for a day; where
more than a cent is due, silence alone never takes anything back. Two of our own figures are upper bounds that a lower
bill may replace at once: traffic, and what was accrued after the market surely still ran or had the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import structlog

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import Lease, Span, metered_by_day
from autopilot.domain.ledger import SPEND_TYPES, EntryType, InvoiceLine, KindAndDay, LedgerEntry
from autopilot.domain.money import CENT, ZERO, to_nano
from autopilot.domain.reasons import Reason
from autopilot.domain.reconciliation import drift_of, newest_revisions
from autopilot.domain.time import start_of_day, utc_day
from autopilot.engine.observe import VISIBLE_AFTER
from autopilot.ports.store import EventRecord, UnitOfWork

log = structlog.get_logger(__name__)

SHOWS_UP = Decimal("0.001")
"""No more than this per kind and day may round to nothing on the market's bill."""
UNFINISHED_FOR = timedelta(hours=24)
"""From the end of the instance, or of the day: a bill that lacks lines or is too low is waited for so long."""
UNFINISHED_BELOW = Decimal("0.9")
GIVE_UP_AFTER = timedelta(hours=72)
"""A market that shows no line for so long will not; our own accrual stands."""
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
    latest = {(kind, day): line for (_, kind, day), line in newest_revisions(known).items()}
    billed = _sum_billed(lease, charges)
    if lease.ending.gone_at is None:
        billed = _certain(billed, book.estimate, now)
        is_final = False
    else:
        waited = now - lease.ending.gone_at
        if not _is_plausible(_certainly_due(lease, book.estimate, is_billed=bool(billed)), billed, waited):
            return Reconciled(is_final=waited >= GIVE_UP_AFTER)
        missing = {key: amount for key, amount in book.estimate.items() if key not in billed and key not in latest}
        silent = {key for key, amount in missing.items() if waited >= _patience(key[0], amount)}
        billed |= dict.fromkeys(silent, ZERO)
        is_final = silent == set(missing)
    lines: list[InvoiceLine] = []
    for (kind, day), amount in sorted(billed.items()):
        before = latest.get((kind, day))
        if before is None or before.amount != amount:
            line = _line(lease, kind, day, amount, before.revision + 1 if before else 1, now)
            latest[kind, day] = line
            lines.append(line)
    estimate = sum((book.estimate.get(key, ZERO) for key in latest), ZERO)
    drift = sum((drift_of(key[0], line.amount - book.estimate.get(key, ZERO)) for key, line in latest.items()), ZERO)
    within = abs(drift) <= tolerance(estimate)
    corrections = (
        book.correction(lease, line, within and line.revision == 1, now) for _, line in sorted(latest.items())
    )
    posted = tuple(correction for correction in corrections if correction is not None)
    return Reconciled(tuple(lines), posted, is_final, drift, estimate)


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
        return
    if found.is_final and lease.billing.settled_at is None:
        log.info("lease.settled", lease=lease.id, entries=len(found.entries))
        lease = replace(lease, billing=replace(lease.billing, settled_at=now))
    await uow.leases.save(replace(lease, billing=replace(lease.billing, reconciled_at=now)))


class _Book:
    """The entries of one lease by the kind and day under which bills are compared."""

    def __init__(self, entries: Iterable[LedgerEntry]) -> None:
        self.estimate: dict[KindAndDay, Decimal] = {}
        self._posted: dict[KindAndDay, Decimal] = {}
        self._last: dict[KindAndDay, LedgerEntry] = {}
        for entry in entries:
            key = entry.kind.as_billed, entry.day
            if entry.type is EntryType.ACCRUE:
                self.estimate[key] = self.estimate.get(key, ZERO) + entry.amount
            if entry.type in SPEND_TYPES:
                self._posted[key] = self._posted.get(key, ZERO) + entry.amount
                self._last[key] = entry

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


def _sum_billed(lease: Lease, charges: Iterable[Charge]) -> dict[KindAndDay, Decimal]:
    billed: dict[KindAndDay, Decimal] = {}
    for charge in charges:
        if charge.instance_id == lease.instance_id and not _is_the_users(lease, charge):
            key = charge.kind.as_billed, charge.day
            billed[key] = billed.get(key, ZERO) + charge.amount
    return billed


def _is_the_users(lease: Lease, charge: Charge) -> bool:
    """Of a machine that was seen to be taken over, the days after that. Of the day itself no bill tells whose hours
    are whose, and another label alone proves nothing: it stands on the bill of every day as it is now.
    """
    if lease.reason is not Reason.TAKEN_OVER or lease.ending.gone_at is None or charge.label == lease.label:
        return False
    return charge.day > utc_day(lease.ending.gone_at)


def _certain(
    billed: Mapping[KindAndDay, Decimal], estimate: Mapping[KindAndDay, Decimal], now: datetime
) -> dict[KindAndDay, Decimal]:
    """Of the bill of an instance that lives on: days that are over, and of the last one only what is not too low."""
    certain: dict[KindAndDay, Decimal] = {}
    for (kind, day), amount in billed.items():
        since = now - start_of_day(day + timedelta(days=1))
        if since >= UNFINISHED_FOR or (since >= timedelta(0) and amount >= estimate.get((kind, day), ZERO)):
            certain[kind, day] = amount
    return certain


def _certainly_due(
    lease: Lease, estimate: Mapping[KindAndDay, Decimal], *, is_billed: bool
) -> dict[KindAndDay, Decimal]:
    """Our estimate without its upper bounds: no traffic, and nothing after the machine surely ran, or was there.

    A list may show a machine for a while after its end, as it may hide one after its beginning, and says late that one
    has stopped or that its host is lost: our clock went on until it did. The latter excuses a bill that is low, and
    none that has no line at all.
    """
    due = {key: amount for key, amount in estimate.items() if key[0] is not CostKind.BANDWIDTH}
    if lease.observed.seen_at is not None and lease.ending.gone_at is not None:
        doubtful = _doubtful(lease.spans, lease.observed.seen_at, is_billed=is_billed)
        for (kind, day), amount in metered_by_day(doubtful, lease.ending.gone_at).items():
            key = kind.as_billed, day
            due[key] = max(due.get(key, ZERO) - amount, ZERO)
    return due


def _doubtful(spans: Sequence[Span], last_seen_at: datetime, *, is_billed: bool) -> Iterator[Span]:
    """The end of the last span after which less was billed, and all that lies after the last list that showed it.

    Only of the last: a minute for each of many pauses would let a bill pass that lacks a whole stretch.
    """
    drops = [span for span, following in pairwise(spans) if following.billed_rate < span.billed_rate]
    for span in spans:
        since = last_seen_at - VISIBLE_AFTER
        if is_billed and drops and span is drops[-1] and span.ended_at is not None:
            since = min(since, span.ended_at - VISIBLE_AFTER)
        yield replace(span, started_at=max(span.started_at, since))


def _is_plausible(due: Mapping[KindAndDay, Decimal], billed: Mapping[KindAndDay, Decimal], waited: timedelta) -> bool:
    """Whether the bill of an instance that is gone looks complete."""
    ours, theirs = sum(due.values(), ZERO), sum(billed.values(), ZERO)
    if not billed and ours > CENT:
        return False
    if waited >= UNFINISHED_FOR:
        return True
    lacks_lines = any(amount > SHOWS_UP and key not in billed for key, amount in due.items())
    return not lacks_lines and (theirs >= ours * UNFINISHED_BELOW or ours <= CENT)


def _patience(kind: CostKind, amount: Decimal) -> timedelta:
    """How long after the end a line that a plausible bill lacks may still come, before it counts as not billed.

    Traffic was never more than our upper bound, and stands on the same bill as the hours when it is billed at all.
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
    """Whether the end of the lease calls for a look at its bill: soon after, until it is settled, and at ``LOOKS``."""
    if lease.ending.gone_at is None:
        return False
    since = now - lease.ending.gone_at
    if lease.billing.settled_at is None:
        return since >= delay
    looked = lease.billing.reconciled_at or lease.billing.settled_at
    return any(since >= look and looked < lease.ending.gone_at + look for look in LOOKS)
