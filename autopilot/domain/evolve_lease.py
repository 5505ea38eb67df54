"""``evolve_lease(lease, event) -> lease``: what each event changes in one lease, by the table at the end.

What happens, and the state that it leads to (``lease.LEASE_TRANSITIONS`` says which arrows there are at all):

    LeaseAcquired ─────────────► ACTIVE             LeaseObserved, stopped ──► PAUSED
    LeaseRefused, nothing made ► ABANDONED          LeaseObserved, running ──► ACTIVE
    LeaseRefused, one was made ► DESTROY_REQUESTED  LeaseGone ───────────────► GONE
    LeaseAbandoned ────────────► ABANDONED          ReleaseRequested ────────► DESTROY_REQUESTED, or an INTENT
    InstanceFound ─────────────► DESTROY_REQUESTED                             that leaves as soon as it is rented
    DestroySent, accepted ─────► DESTROY_SENT       LeaseObserved after it ──► DESTROY_REQUESTED again

All other events leave the state as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain import events as e
from autopilot.domain.agent_state import COMMANDS, PREPARING, AgentState
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.lease import AgentReport, Ending, Lease, LeaseState, Permit, Role, Span, counted_bytes
from autopilot.domain.money import BYTES_PER_GB, ZERO, worst_case
from autopilot.domain.reasons import Reason
from autopilot.domain.stop_causes import StopEvidence, name_cause
from autopilot.domain.time import utc_day

ABSENCE_GAP = timedelta(seconds=20)
"""Two lists closer together than this are one piece of evidence that an instance is gone."""

STALLED_AFTER = timedelta(minutes=30)
"""A command of which nothing was new for so long has stalled."""

UNOBSERVED_LASTS = timedelta(seconds=90)
"""What a machine did between two observations further apart than this is not known."""

SPOKEN_LASTS = timedelta(minutes=3)
"""An agent that was heard so lately is taken to be there still: heartbeats are a minute apart."""


def evolve_lease(lease: Lease, event: e.Event) -> Lease:
    """Apply one event that concerns a lease alone.

    Raises ``TypeError`` for any other event, ``InvalidTransition`` for one that the lifecycle does not allow.
    """
    change = _CHANGES.get(type(event))
    if change is None:
        raise TypeError(f"{type(event).__name__} does not concern a lease alone")
    return change(lease, event)


# --- the create


def _acquire(lease: Lease, event: e.LeaseAcquired) -> Lease:
    observed_at = lease.observed_at
    lease = lease.move(
        LeaseState.ACTIVE,
        instance_id=event.instance_id,
        acquired_at=event.at,
        create_unknown=False,
        observed=replace(lease.observed, seen_at=event.at, absent_at=None),
        billing=replace(lease.billing, unobserved=ZERO),  # what it was comes into its spans
    ).bill_as(InstanceStatus.PROVISIONING, lease.bid, lease.storage_rate, lease.intended_at)
    lease = _bill_unobserved(lease, observed_at, event.at)
    if lease.orders.role is Role.LEAVE:
        return lease.move(LeaseState.DESTROY_REQUESTED, ending=replace(lease.ending, requested_at=event.at))
    return lease


def _refuse(lease: Lease, event: e.LeaseRefused) -> Lease:
    if event.instance_id is None:
        return lease.move(LeaseState.ABANDONED, reason=event.reason, create_unknown=False)
    lease = lease.bill_as(InstanceStatus.STOPPED, lease.bid, lease.storage_rate, lease.intended_at)
    return lease.move(
        LeaseState.DESTROY_REQUESTED,
        reason=event.reason,
        instance_id=event.instance_id,
        acquired_at=event.at,
        create_unknown=False,
        ending=replace(lease.ending, requested_at=event.at),
    )


def _doubt(lease: Lease, event: e.LeaseUncertain) -> Lease:
    return replace(lease, create_unknown=True)


def _miss(lease: Lease, event: e.LeaseMissed) -> Lease:
    lists = lease.observed.lists_since_intent + 1
    observed = replace(lease.observed, lists_since_intent=lists, absent_at=event.at)
    billing, gap = lease.billing, event.at - lease.observed_at
    if gap > UNOBSERVED_LASTS:
        # It can have come and gone again in between.
        billing = replace(billing, unobserved=billing.unobserved + worst_case(lease.burn_upper, gap))
    return replace(lease, create_unknown=True, observed=observed, billing=billing)


def _abandon(lease: Lease, event: e.LeaseAbandoned) -> Lease:
    return lease.move(LeaseState.ABANDONED, reason=event.reason)


# --- what the market shows


def _observe(lease: Lease, event: e.LeaseObserved) -> Lease:
    instance, at = event.instance, event.at
    previous = lease.observed.status
    lease = _bill_as_observed(lease, instance, at, event.ran_until)
    if not lease.is_wanted:
        if lease.state is LeaseState.DESTROY_SENT:
            return lease.move(LeaseState.DESTROY_REQUESTED)
        return lease
    lease = replace(lease, bid=instance.bid)
    is_lost = instance.status is InstanceStatus.OFFLINE
    # A host that is repeatedly shown as lost does not restart its preparation time each time.
    if instance.status is not InstanceStatus.RUNNING and not (is_lost and lease.agent.state in PREPARING):
        # Despite the agent's last report, it is not at work now; when it is back it reports so itself.
        lease = replace(lease, agent=replace(lease.agent, state=AgentState.UNHEARD, preparing_since=None))
    match instance.status:
        case InstanceStatus.STOPPED:
            return _pause(lease, instance, at, event.evidence)
        case InstanceStatus.RUNNING:
            return _run(lease, previous, at)
        case InstanceStatus.OFFLINE if lease.state is LeaseState.PAUSED:
            return lease
    observed = replace(lease.observed, paused_at=None, pause_cause=None, running_since=None)
    return lease.move(LeaseState.ACTIVE, observed=observed)


_MAY_BE_OUTBID = (InstanceStatus.STOPPED, InstanceStatus.RUNNING)
"""It has been stopped, or will be in minutes."""


def _bill_as_observed(lease: Lease, instance: Instance, at: datetime, ran_until: datetime | None) -> Lease:
    status = instance.status
    billed_from = at
    if lease.state is LeaseState.DESTROY_SENT and lease.spans:
        # The market took the destroy and did not carry it out: it never stopped billing.
        billed_from = lease.spans[-1].ended_at or at
    else:
        observed_at = lease.observed_at
        lease = _stop_unobserved(_bill_unobserved(lease, observed_at, at), ran_until, at)
        computes = status is InstanceStatus.RUNNING or _has_just_spoken(lease, status, at)
        # It may have begun right after the last observation: between two the dearer one counts.
        lease = _bill_at_least(lease, observed_at, instance.computes_at if computes else ZERO)
    observed = replace(
        lease.observed,
        status=status,
        seen_at=at,
        absences=0,
        absent_at=None,
        offline_since=(lease.observed.offline_since or at) if status is InstanceStatus.OFFLINE else None,
        price_to_win=instance.price_to_win if status in _MAY_BE_OUTBID else None,
    )
    shown = replace(
        lease,
        observed=observed,
        storage_rate=instance.storage_rate,
        host_id=instance.host_id or lease.host_id,
    )
    if _has_just_spoken(lease, status, at) and lease.spans and _bills(lease.spans[-1], instance):
        return shown  # and goes on to bill so
    return shown.bill_as(status, instance.computes_at, instance.storage_rate, billed_from)


def _has_just_spoken(lease: Lease, status: InstanceStatus, at: datetime) -> bool:
    """A machine that is shown as loading has loaded, and bills, where its agent reports: the list is late, or wrong."""
    heard_at = lease.agent.seen_at
    return status is InstanceStatus.PROVISIONING and heard_at is not None and at - heard_at <= SPOKEN_LASTS


def _bills(span: Span, instance: Instance) -> bool:
    """Whether the open span is of a machine that loads, and bills what that one does when it runs."""
    rates = span.billed_rate, span.storage_rate
    is_loading = span.ended_at is None and span.status is InstanceStatus.PROVISIONING
    return is_loading and rates == (instance.computes_at, instance.storage_rate)


def _pause(lease: Lease, instance: Instance, at: datetime, evidence: StopEvidence) -> Lease:
    """It lies stopped since the market first showed it so. Why, the market may say later."""
    known, was_paused = lease.observed.pause_cause, lease.state is LeaseState.PAUSED
    has_paid_in = known is Reason.OUT_OF_CREDIT and not evidence.out_of_credit
    if was_paused and not has_paid_in and known is not Reason.UNKNOWN:
        return lease
    cause = name_cause(lease, instance, evidence, at)
    if has_paid_in and cause is not Reason.EXPIRING:
        cause = Reason.PAID_IN
    begins = at if has_paid_in or not was_paused else lease.observed.paused_at
    observed = replace(lease.observed, paused_at=begins, pause_cause=cause, running_since=None)
    return lease.move(LeaseState.PAUSED, observed=observed, spans=_name_stop(lease.spans, cause))


def _name_stop(spans: tuple[Span, ...], cause: Reason) -> tuple[Span, ...]:
    """Why the newest of them are those of a stopped machine, where that was not known."""
    named: list[Span] = []
    for span in reversed(spans):
        if span.status is not InstanceStatus.STOPPED or span.cause not in (None, Reason.UNKNOWN):
            break
        named.insert(0, replace(span, cause=cause))
    return (*spans[: len(spans) - len(named)], *named)


def _run(lease: Lease, previous: InstanceStatus, at: datetime) -> Lease:
    since = lease.observed.running_since if previous is InstanceStatus.RUNNING else None
    observed = replace(lease.observed, running_since=since or at, paused_at=None, pause_cause=None)
    return lease.move(LeaseState.ACTIVE, observed=observed, bidding=replace(lease.bidding, raises=0))


def _count_absence(lease: Lease, event: e.LeaseAbsent) -> Lease:
    absent_at = lease.observed.absent_at
    if absent_at is not None and event.at - absent_at < ABSENCE_GAP:
        return lease
    lease = _bill_unobserved(lease, lease.observed_at, event.at)
    observed = replace(lease.observed, absences=lease.observed.absences + 1, absent_at=event.at)
    return replace(lease, observed=observed)


def _end(lease: Lease, event: e.LeaseGone) -> Lease:
    # It may have gone at any time since it was last seen; the bill will tell.
    end = lease.observed.absent_at or event.at
    if event.ran_until is not None and not event.taken_over:
        end = min(end, event.ran_until)
    reason = lease.reason if lease.ending.requested_at or lease.is_proving else Reason.VANISHED
    reason = Reason.TAKEN_OVER if event.taken_over else reason
    ending = replace(lease.ending, gone_at=event.at)
    return lease.stop_billing(end).move(LeaseState.GONE, ending=ending, reason=reason)


# --- bids


def _intend_bid(lease: Lease, event: e.BidIntended) -> Lease:
    """The dearer of the two counts until the market has answered."""
    raises = 1 if event.bid > lease.bid else 0
    bidding = replace(
        lease.bidding,
        raises=lease.bidding.raises + raises,
        changed_at=event.at,
        first=lease.bidding.first or lease.bid,
        highest=max(event.bid, lease.bid, lease.bidding.highest or event.bid),
    )
    return _with_bid(replace(lease, bidding=bidding), max(event.bid, lease.bid), event.at)


def _change_bid(lease: Lease, event: e.BidChanged) -> Lease:
    lease = replace(lease, bidding=replace(lease.bidding, changed_at=event.at))
    return _with_bid(lease, event.bid, event.at)


def _take_back_bid(lease: Lease, event: e.BidRefused) -> Lease:
    changed_at = None if event.may_retry else lease.bidding.changed_at
    raises = lease.bidding.raises if event.is_rung_used else max(lease.bidding.raises - 1, 0)
    lease = replace(lease, bidding=replace(lease.bidding, raises=raises, changed_at=changed_at))
    return _with_bid(lease, event.bid, event.at)


def _intend_start(lease: Lease, event: e.StartIntended) -> Lease:
    """The start has the time of a raise to bring it back."""
    if lease.state is not LeaseState.PAUSED:
        return lease
    return replace(lease, bidding=replace(lease.bidding, changed_at=event.at))


def _fail_start(lease: Lease, event: e.StartFailed) -> Lease:
    if lease.state is not LeaseState.PAUSED or not event.at_once:
        return lease
    return replace(lease, bidding=replace(lease.bidding, changed_at=None))


def _with_bid(lease: Lease, bid: Decimal, at: datetime) -> Lease:
    billed_rate = _price_at(lease, bid)
    lease = replace(lease, bid=bid)
    if lease.observed.running_since is None:
        return lease
    return lease.bill_as(lease.observed.status, billed_rate, lease.storage_rate, at)


def _price_at(lease: Lease, bid: Decimal) -> Decimal:
    """$/h that the machine costs at another bid: where it costs less than the one that it has, its price is not ours
    to make, and stays until the market shows another."""
    price = lease.spans[-1].billed_rate if lease.spans else lease.bid
    return min(price, bid) if price < lease.bid else bid


# --- the end


def _request_release(lease: Lease, event: e.ReleaseRequested) -> Lease:
    if not lease.is_wanted:
        return lease
    orders = replace(lease.orders, role=Role.LEAVE)
    if lease.instance_id is None:
        # Not yet created, or not known to be: it stays an intent until that is resolved.
        return lease.move(LeaseState.INTENT, orders=orders, reason=event.reason)
    ending = replace(lease.ending, requested_at=event.at)
    return lease.move(LeaseState.DESTROY_REQUESTED, orders=orders, reason=event.reason, ending=ending)


def _find_instance(lease: Lease, event: e.InstanceFound) -> Lease:
    """A machine of a lease that was given up, or that was gone: it is destroyed again."""
    start = event.at if lease.spans or event.only_billed else lease.intended_at
    unobserved = lease.billing.unobserved if event.only_billed else ZERO
    lease = lease.move(
        LeaseState.DESTROY_REQUESTED,
        instance_id=event.instance_id,
        acquired_at=lease.acquired_at or event.at,
        ending=Ending(requested_at=event.at),
        billing=replace(lease.billing, settled_at=None, waits_for=None, unobserved=unobserved),
        observed=replace(lease.observed, absences=0),
        orders=replace(lease.orders, role=Role.LEAVE),
        reason=Reason.VANISHED if lease.reason is Reason.TAKEN_OVER else lease.reason,
    )
    return lease.bill_as(InstanceStatus.STOPPED, lease.bid, lease.storage_rate, start)


def _send_destroy(lease: Lease, event: e.DestroySent) -> Lease:
    lease = replace(lease, ending=replace(lease.ending, attempts=lease.ending.attempts + 1))
    if not event.accepted:
        return lease
    # What it did since the last list will never be observed.
    lease = _bill_unobserved(lease, lease.observed_at, event.at)
    # The bill is taken to end here; if the market still shows the instance later, a new span opens.
    return lease.stop_billing(event.at).move(LeaseState.DESTROY_SENT, ending=replace(lease.ending, sent_at=event.at))


def _settle(lease: Lease, event: e.LeaseSettled) -> Lease:
    return replace(lease, billing=replace(lease.billing, settled_at=event.at))


# --- orders and the agent


def _order_stop(lease: Lease, event: e.StopOrdered) -> Lease:
    return replace(lease, orders=replace(lease.orders, role=Role.SAVE_AND_STOP, stop_ordered_at=event.at))


def _hold(lease: Lease, event: e.HoldBegun) -> Lease:
    if not lease.is_wanted:
        return lease
    return replace(lease, held_until=event.until, reason=Reason.PROVING if event.is_proof else lease.reason)


def _renew_permit(lease: Lease, event: e.PermitRenewed) -> Lease:
    orders = lease.orders
    if orders.role is Role.SAVE_AND_STOP and orders.stop_seq == 0:
        orders = replace(orders, stop_seq=event.seq)
    return replace(lease, permit=Permit(event.seq, event.at, event.ttl_s), orders=orders)


def _hear(lease: Lease, event: e.HeartbeatSeen) -> Lease:
    if (event.boot, event.seq) <= (lease.agent.boot, lease.agent.seq):
        return lease
    agent = replace(
        lease.agent,
        boot=event.boot,
        seq=event.seq,
        state=event.agent_state,
        seen_at=event.at,
        preparing_since=_preparing_since(lease.agent, event),
        has_saved=event.saved,
        last_checkpoint=event.last_checkpoint_number,
        log_count=event.log_count,
        sent_bytes=_counted_before(lease.agent, event) + _bound_claim(lease, event),
        can_run_again=event.can_run_again,
        can_take_next=event.can_take_next,
        working_since=_working_since(lease.agent, event),
        readings=event.readings,
        stalled_since=_stalled_since(lease, event),
    )
    return replace(_count_traffic(lease, event), agent=agent)


def _preparing_since(agent: AgentReport, event: e.HeartbeatSeen) -> datetime | None:
    if event.agent_state not in PREPARING:
        return None
    return agent.preparing_since if event.agent_state == agent.state and agent.preparing_since else event.at


def _working_since(agent: AgentReport, event: e.HeartbeatSeen) -> datetime | None:
    """Setup and command are told apart: what fails right after a long setup has failed soon."""
    if event.agent_state not in COMMANDS or (event.agent_state == agent.state and agent.working_since):
        return agent.working_since
    return event.at


def _stalled_since(lease: Lease, event: e.HeartbeatSeen) -> datetime | None:
    """While it is unknown whether something is new, the last known value is kept."""
    if event.agent_state is not AgentState.RUNNING:
        return None
    known = lease.agent.stalled_since if event.boot == lease.agent.boot else None
    still_s = event.readings.still_s if event.readings else None
    if still_s is None:
        return known
    still = timedelta(seconds=still_s)
    if still < STALLED_AFTER or known is not None:
        return None if still < STALLED_AFTER else known
    # No command was still before its machine ran.
    since = max(event.at - still, lease.observed.running_since or lease.intended_at)
    return since if event.at - since >= STALLED_AFTER else None


def _counted_before(agent: AgentReport, event: e.HeartbeatSeen) -> int:
    """Where this boot's counter of sent bytes stood."""
    return agent.sent_bytes if event.boot == agent.boot else 0


def _count_traffic(lease: Lease, event: e.HeartbeatSeen) -> Lease:
    """Add what the agent has sent since its last word, on the day on which it was heard."""
    more = _sent_unheard(lease, event) + _bound_claim(lease, event)
    if not more:
        return lease
    day = utc_day(event.at).isoformat()
    by_day = dict(lease.traffic.sent_by_day)
    counted = by_day.get(day, 0)
    assert isinstance(counted, int), "bytes are whole"
    by_day[day] = counted + more
    return replace(lease, traffic=replace(lease.traffic, sent_by_day=tuple(by_day.items())))


def _bound_claim(lease: Lease, event: e.HeartbeatSeen) -> int:
    """Bytes by which its counter is believed to have grown: it does not go back within a boot.

    What is beyond ``most_bytes`` counts later, should it turn out to have been sent.
    """
    claimed = max(event.sent_bytes - _counted_before(lease.agent, event), 0)
    return min(claimed, _room(lease, event) - _sent_unheard(lease, event))


def _sent_unheard(lease: Lease, event: e.HeartbeatSeen) -> int:
    """The counter restarts at each boot; what the previous one sent after its last report counts as a checkpoint."""
    agent = lease.agent
    if agent.boot in (0, event.boot) or agent.has_saved:
        return 0
    return min(int(lease.traffic.upload_gb * BYTES_PER_GB), _room(lease, event))


def _room(lease: Lease, event: e.HeartbeatSeen) -> int:
    return max(event.most_bytes - counted_bytes(lease), 0)


# --- what it bills


def _bill_unobserved(lease: Lease, since: datetime, at: datetime) -> Lease:
    """Not observed for long: until the invoice is in, it counts as computing throughout, at its highest price."""
    if at - since <= UNOBSERVED_LASTS or not lease.spans or lease.spans[-1].ended_at is not None:
        return lease
    last = lease.spans[-1]
    billed_rate, storage_rate = max(lease.bid, last.billed_rate), max(lease.storage_rate, last.storage_rate)
    return _split(lease, replace(last, billed_rate=billed_rate, storage_rate=storage_rate, is_observed=False), since)


def _stop_unobserved(lease: Lease, ran_until: datetime | None, at: datetime) -> Lease:
    """Found stopped after an unobserved time: from ``ran_until`` on, only its disk can have billed."""
    last = lease.spans[-1] if lease.spans else None
    if last is None or ran_until is None or last.is_observed or last.ended_at is not None or ran_until >= at:
        return lease
    return _split(lease, replace(last, status=InstanceStatus.STOPPED, billed_rate=ZERO), ran_until)


def _bill_at_least(lease: Lease, since: datetime, billed_rate: Decimal) -> Lease:
    """From ``since`` on, as far as its open span goes back, its compute bills no less than this ($/h)."""
    if not lease.spans or lease.spans[-1].ended_at is not None or billed_rate <= lease.spans[-1].billed_rate:
        return lease
    return _split(lease, replace(lease.spans[-1], billed_rate=billed_rate, is_observed=False), since)


def _split(lease: Lease, changed: Span, since: datetime) -> Lease:
    """From ``since`` on the open span is as ``changed`` says."""
    last = lease.spans[-1]
    if changed == last:
        return lease
    since = max(since, last.started_at)
    return replace(lease, spans=(*lease.spans[:-1], replace(last, ended_at=since), replace(changed, started_at=since)))


_CHANGES: Mapping[type[e.Event], Callable[[Lease, Any], Lease]] = {
    e.LeaseAcquired: _acquire,
    e.LeaseRefused: _refuse,
    e.LeaseUncertain: _doubt,
    e.LeaseMissed: _miss,
    e.LeaseAbandoned: _abandon,
    e.LeaseObserved: _observe,
    e.LeaseAbsent: _count_absence,
    e.LeaseGone: _end,
    e.BidIntended: _intend_bid,
    e.BidChanged: _change_bid,
    e.BidRefused: _take_back_bid,
    e.StartIntended: _intend_start,
    e.StartFailed: _fail_start,
    e.ReleaseRequested: _request_release,
    e.InstanceFound: _find_instance,
    e.DestroySent: _send_destroy,
    e.StopOrdered: _order_stop,
    e.HoldBegun: _hold,
    e.HeartbeatSeen: _hear,
    e.PermitRenewed: _renew_permit,
    e.LeaseSettled: _settle,
}
