"""What a market's reading means for our leases: pure. Start-up, recovery and every tick go through here alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.evolve_lease import ABSENCE_GAP
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import StopEvidence
from autopilot.engine.observe import Reading
from autopilot.engine.unwatched import EndBound

SETTLE = timedelta(seconds=300)
"""A create of unknown outcome may take effect this late (reliability notes: at most 180 s seen)."""
LISTS_TO_ABANDON = 3
PRICE_ROUNDING = Decimal("0.001")
"""Markets echo prices with three decimals."""
NO_BOUND = EndBound()


def lease_events(
    lease: Lease, reading: Reading, busy: Collection[str], now: datetime, bound: EndBound = NO_BOUND
) -> Iterator[e.Event]:
    """Events that ``reading`` implies for one lease of that market.

    ``busy``: ids of leases with a call on its way; what a list says of them may be older than the call, so they wait.
    ``bound``: by when it has ended, should the market say that it has.
    """
    if reading.instances is None or not reading.is_fresh or lease.id in busy or lease.is_over:
        return
    if lease.instance_id is None:
        yield from _resolve_intent(lease, reading, now)
        return
    instance = next((i for i in reading.instances if lease.is_of(i)), None)
    if instance is None:
        if lease.instance_id in reading.absent and not reading.is_other_account:
            yield from _absence(lease, reading, bound)
        return
    if lease.ending.sent_at is not None and reading.begun_at <= lease.ending.sent_at:
        return
    if lease.bidding.changed_at is not None and reading.begun_at <= lease.bidding.changed_at:
        return
    has_ended = instance.status is InstanceStatus.STOPPED and not instance.intended_running
    evidence = StopEvidence(reading.out_of_credit, bound.permit_over)
    yield e.LeaseObserved(lease.id, instance, now, evidence, bound.stopped if has_ended else None)
    if lease.is_wanted and not _is_as_ordered(lease, instance):
        yield e.ReleaseRequested(lease.id, Reason.WRONG_TERMS, now)


def failed_starts(job: Job, busy: Collection[str]) -> Iterator[Lease]:
    """Leases whose machine stopped before it ever ran, and not for somebody's bid: neither a raise nor waiting helps.

    To be asked once the tick's mail has been read too: an agent that was heard of has run.
    """
    for lease in job.leases:
        is_stuck = lease.state is LeaseState.PAUSED and lease.observed.pause_cause is Reason.STUCK_LOADING
        if is_stuck and not lease.has_run and lease.id not in busy:
            yield lease


def _is_as_ordered(lease: Lease, instance: Instance) -> bool:
    """Rented as asked: of that capacity type, and not dearer than any bid that was committed to."""
    committed = max(lease.bid, lease.bidding.highest or lease.bid)
    return instance.capacity_type is lease.capacity_type and instance.bid <= committed + PRICE_ROUNDING


def _resolve_intent(lease: Lease, reading: Reading, now: datetime) -> Iterator[e.Event]:
    assert reading.instances is not None, "an unknown market resolves nothing"
    found = sorted((i for i in reading.instances if i.label == lease.label), key=_age_order)
    if found:
        yield e.LeaseAcquired(lease.id, found[0].instance_id, now, adopted=True)
        yield e.LeaseObserved(lease.id, found[0], now, StopEvidence(reading.out_of_credit))
        # For an adopted machine, the market's answer to its create was not seen.
        if not (_is_as_ordered(lease, found[0]) and found[0].is_as_asked):
            yield e.ReleaseRequested(lease.id, Reason.WRONG_TERMS, now)
        return
    if reading.begun_at <= lease.intended_at:
        return
    if reading.is_other_account:
        return  # it may be there, in the account that it was made in: nothing takes its place
    yield e.LeaseMissed(lease.id, now)
    if reading.begun_at - lease.intended_at >= SETTLE and lease.observed.lists_since_intent + 1 >= LISTS_TO_ABANDON:
        yield e.LeaseAbandoned(lease.id, Reason.NEVER_APPEARED, now)


def _absence(lease: Lease, reading: Reading, bound: EndBound) -> Iterator[e.Event]:
    """Gone = absent from two complete lists far enough apart, and from a single read after the second.

    Where one list and a single read both show it under another label, that is enough: it must not be touched from then
    on.
    """
    again = lease.observed.absent_at is not None and reading.begun_at - lease.observed.absent_at >= ABSENCE_GAP
    yield e.LeaseAbsent(lease.id, reading.begun_at)
    is_confirmed = lease.observed.absences >= 1 and again and lease.instance_id in reading.confirmed_gone
    taken_over = lease.instance_id in reading.taken_over
    if is_confirmed or taken_over:
        yield e.LeaseGone(lease.id, reading.begun_at, taken_over, bound.gone)


def find_unaccounted(
    ours: Iterable[Instance], leases_by_label: Mapping[str, Iterable[Lease]]
) -> Iterator[tuple[Instance, Lease | None]]:
    """Instances with our label that no live lease holds, with the lease that the label names, if any."""
    for instance in ours:
        named = list(leases_by_label.get(instance.label, ()))
        holder = next((lease for lease in named if lease.instance_id == instance.instance_id), None)
        if holder is not None:
            if holder.is_over:
                yield instance, holder
            continue
        waiting = any(lease.state is LeaseState.INTENT and lease.instance_id is None for lease in named)
        if not waiting:
            yield instance, named[0] if named else None


def _age_order(instance: Instance) -> tuple[int, str]:
    return len(instance.instance_id), instance.instance_id
