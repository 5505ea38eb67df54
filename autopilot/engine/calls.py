"""Calls to markets: one task per lease, sent only after its intent is committed, its outcome recorded by itself.

A tick does not wait for slow calls for ever: a call still on its way keeps its lease ``busy`` and the next tick leaves
that lease alone. Shutdown waits for creates, because a create that is cut off costs a settle window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

import structlog

from autopilot.domain import events as e
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.offer import DeadMan, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.accrue import hold_reserves
from autopilot.engine.destroy_fallback import FALLBACKS_AFTER, apply_destroy_fallback, is_accepted
from autopilot.engine.event_log import EventLog, evolve_orphan
from autopilot.engine.lost_bids import LostBids
from autopilot.engine.registry_logins import Logins, PullWith, login_refused
from autopilot.mailbox.wire import SSH_KEY_VARIABLE, SSH_PORT
from autopilot.ports.bootstrap import Bootstrap
from autopilot.ports.clock import Clock
from autopilot.ports.provider import CreateRequest, Done, Provider, RefusalCode, Refused, Unknown
from autopilot.ports.store import BidRecord, Store, StoreUnavailable

log = structlog.get_logger(__name__)

DESTROY_BACKOFF_FIRST_S = 5
DESTROY_BACKOFF_MOST_S = 300
DESTROY_ALARM_AFTER = timedelta(minutes=5)


class Calls:
    def __init__(
        self,
        providers: Mapping[str, Provider],
        store: Store,
        bootstrap: Bootstrap,
        clock: Clock,
        avoid: Avoid,
        lost_bids: LostBids,
        logins: Logins,
        params: Params,
    ) -> None:
        self._logins = logins
        self._providers = providers
        self._store = store
        self._bootstrap = bootstrap
        self._clock = clock
        self._avoid = avoid
        self._lost_bids = lost_bids
        self._params = params
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._last_destroy: dict[str, datetime] = {}

    @property
    def busy(self) -> frozenset[str]:
        """Ids of leases with a call on its way."""
        return frozenset(self._tasks)

    def create(self, spec: JobSpec, lease: Lease) -> None:
        self._begin(lease, self._create(spec, lease))

    def change_bid(self, lease: Lease, record: BidRecord, current_bid: Decimal) -> None:
        """``current_bid``: the bid before this one, which counts again if the market refuses."""
        self._begin(lease, self._change_bid(lease, record, current_bid))

    def start(self, lease: Lease) -> None:
        self._begin(lease, self._start(lease))

    def stop(self, lease: Lease) -> None:
        """Whether it stopped is seen in the next list."""
        self._begin(lease, self._stop(lease))

    def destroy(self, lease: Lease) -> None:
        """Ask again, unless the last request is too young: 5 s, then doubling up to 5 minutes, for ever."""
        now = self._clock.now()
        last = self._last_destroy.get(lease.id)
        wait_s = min(DESTROY_BACKOFF_FIRST_S * 2 ** min(lease.ending.attempts, 10), DESTROY_BACKOFF_MOST_S)
        if last is not None and now - last < timedelta(seconds=wait_s):
            return
        if lease.ending.requested_at and now - lease.ending.requested_at >= DESTROY_ALARM_AFTER:
            log.error(
                "lease.destroy_overdue",
                lease=lease.id,
                provider=lease.provider,
                instance=lease.instance_id,
                attempts=lease.ending.attempts,
            )
        self._last_destroy[lease.id] = now
        self._begin(lease, self._destroy(lease))

    async def settle_for(self, real_seconds: float) -> None:
        """Wait until every call has ended, at most so long in real time."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=real_seconds)

    def _begin(self, lease: Lease, call: Coroutine[None, None, None]) -> None:
        if lease.id in self._tasks:
            call.close()
            return
        task = asyncio.create_task(call, name=f"call-{lease.id}")
        self._tasks[lease.id] = task
        task.add_done_callback(lambda done: self._end(lease.id, done))

    def _end(self, lease_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[lease_id]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("call.failed", lease=lease_id, exc_info=problem)

    async def _create(self, spec: JobSpec, lease: Lease) -> None:
        assert lease.job_id is not None, "creates belong to a job"
        assert lease.state is LeaseState.INTENT, "creates need a committed intent"
        pull_with = await self._prepare_pull(spec, lease)
        if pull_with is None:
            return
        if not await self._is_still_wanted(lease):  # last of all: a market may take its time over the login
            now = self._clock.now()
            await self._record(lease, e.LeaseAbandoned(lease.id, Reason.USER_CANCELLED, now))
            return
        provider = self._providers[lease.provider]
        able = provider.capabilities
        boots_vm = able.boots_vm
        start = (
            self._bootstrap.host_script(lease.job_id, lease.id, stays=able.dead_man is DeadMan.NONE)
            if boots_vm
            else self._bootstrap.onstart(lease.job_id, lease.id)
        )
        request = CreateRequest(
            label=lease.label,
            offer_id=lease.offer_id,
            machine_id=lease.machine_id,
            capacity_type=lease.capacity_type,
            bid=lease.bid,
            image=spec.image,
            disk_gb=lease.disk_gb,
            env={SSH_KEY_VARIABLE: spec.ssh_key} if spec.ssh_key and not boots_vm else {},
            onstart=start,
            login=None if boots_vm else pull_with.login,
            login_id=pull_with.login_id,
            public_port=SSH_PORT if spec.ssh_key or lease.reason is Reason.CERTIFYING else None,
            ends_by=lease.not_after + LIFETIME_GRACE,
            host=spec.host,
        )
        outcome = await provider.create(request)
        now = self._clock.now()
        hide = partial(self._logins.hide, spec)
        match outcome:
            case Done(created):
                await self._record(lease, e.LeaseAcquired(lease.id, created.instance_id, now))
            case Refused(code, message, instance_id):
                self._avoid.add_refused(lease, now, _AVOID_AFTER_REFUSAL.get(code, timedelta(minutes=10)))
                reason = _REFUSALS.get(code, Reason.REFUSED)
                if pull_with.login_id is not None and code is RefusalCode.INVALID:
                    self._logins.doubt()
                if code is RefusalCode.BID_TOO_LOW:
                    self._lost_bids.add(lease, lease.bid, now)
                await self._record(lease, e.LeaseRefused(lease.id, reason, hide(message), instance_id, now))
            case Unknown(message):
                await self._record(lease, e.LeaseUncertain(lease.id, hide(message), now))

    async def _prepare_pull(self, spec: JobSpec, lease: Lease) -> PullWith | None:
        """None if there is no login to pull with: nothing was rented then, and the lease is over."""
        try:
            outcome = await self._logins.prepare(lease.provider, spec)
        except UserError as problem:
            now = self._clock.now()
            refused = e.LeaseRefused(lease.id, Reason.IMAGE_LOGIN_REFUSED, problem.message, None, now)
            await self._record(lease, refused, login_refused(spec, lease, problem.message, now))
            return None
        if isinstance(outcome, Done):
            return outcome.value
        now = self._clock.now()
        self._avoid.add(lease, now, timedelta(minutes=2))
        message = f"the market did not take the registry's login: {self._logins.hide(spec, outcome.message)}"
        await self._record(lease, e.LeaseRefused(lease.id, Reason.REFUSED, message, None, now))
        return None

    async def _is_still_wanted(self, lease: Lease) -> bool:
        """Look again just before renting: the job may have been cancelled since the intent was written."""
        assert lease.job_id is not None, "creates belong to a job"
        async with self._store.snapshot() as uow:
            job, now_held = await uow.jobs.find(lease.job_id), await uow.leases.get(lease.id)
        return (
            job is not None
            and job.status.wants_capacity
            and now_held is not None
            and now_held.orders.role is not Role.LEAVE
        )

    async def _change_bid(self, lease: Lease, record: BidRecord, current_bid: Decimal) -> None:
        assert lease.instance_id is not None, "only rented leases have a bid to change"
        provider = self._providers[lease.provider]
        outcome = await provider.change_bid(lease.instance_id, record.bid)
        now = self._clock.now()
        match outcome:
            case Done(bid):
                await self._record(lease, e.BidChanged(lease.id, bid, now), bid=(record, "done"))
                if lease.state is LeaseState.PAUSED:
                    # A raise wakes a paused machine by itself; a start in case it was stopped by its host.
                    await provider.start(lease.instance_id)
            case Refused(code, message):
                log.warning("bid.refused", lease=lease.id, bid=record.bid, message=message)
                refused = e.BidRefused(
                    lease.id, current_bid, now, is_rung_used=code in _FOR_GOOD, may_retry=code in _OF_THE_MOMENT
                )
                await self._record(lease, refused, bid=(record, "refused"))
            case Unknown(message):
                log.warning("bid.unknown", lease=lease.id, bid=record.bid, message=message)
                await self._record(lease, bid=(record, "unknown"))

    async def _start(self, lease: Lease) -> None:
        assert lease.instance_id is not None, "only rented leases can be started"
        outcome = await self._providers[lease.provider].start(lease.instance_id)
        is_queued = isinstance(outcome, Refused) and outcome.code is RefusalCode.QUEUED
        if not isinstance(outcome, Done) and not is_queued:
            log.warning("lease.start_failed", lease=lease.id, outcome=repr(outcome))
            at_once = isinstance(outcome, Refused) and outcome.code in _OF_THE_MOMENT
            await self._record(lease, e.StartFailed(lease.id, self._clock.now(), at_once=at_once))

    async def _stop(self, lease: Lease) -> None:
        assert lease.instance_id is not None, "only rented leases can be stopped"
        outcome = await self._providers[lease.provider].stop(lease.instance_id)
        if not isinstance(outcome, Done):
            log.warning("lease.stop_failed", lease=lease.id, outcome=repr(outcome))

    async def _destroy(self, lease: Lease) -> None:
        assert lease.instance_id is not None, "only rented leases can be destroyed"
        provider = self._providers[lease.provider]
        outcome = await provider.destroy(lease.instance_id)
        accepted = is_accepted(outcome)
        if not accepted:
            log.warning("lease.destroy_failed", lease=lease.id, instance=lease.instance_id, outcome=repr(outcome))
        await self._record(lease, e.DestroySent(lease.id, accepted, self._clock.now()))
        if lease.ending.attempts >= FALLBACKS_AFTER:
            await apply_destroy_fallback(provider, lease.instance_id, self._params.bids.least)

    async def _record(self, lease: Lease, *events: e.Event, bid: tuple[BidRecord, str] | None = None) -> None:
        """Commit what a call brought. If that fails, nothing is lost: the market's list tells it again."""
        try:
            async with self._store.transaction() as uow:
                if lease.job_id is None:
                    orphan = await uow.leases.get(lease.id) or lease
                    for event in events:
                        orphan, records = evolve_orphan(orphan, event)
                        await uow.events.add(records)
                    await uow.leases.save(orphan)
                    return
                job = await uow.jobs.find(lease.job_id)
                assert job is not None, "jobs are never deleted"
                event_log = EventLog(job)
                for event in events:
                    event_log.apply(event)
                await uow.jobs.save(event_log.job)
                await uow.events.add(event_log.records)
                await hold_reserves(uow, event_log.job.leases, self._params, self._clock.now())
                if bid is not None:
                    record, outcome = bid
                    await uow.bids.save(
                        BidRecord(record.id, record.lease_id, record.at, record.bid, outcome, record.decision_id)
                    )
        except StoreUnavailable as problem:
            log.error("outcome.unrecorded", lease=lease.id, events=[repr(ev) for ev in events], reason=str(problem))


_Machine = tuple[str, str]
"""(provider, machine_id)"""


@dataclass(frozen=True, slots=True)
class _Refused:
    at: datetime
    span: timedelta
    """For so long the machine was avoided then."""


class Avoid:
    """Machines that a job had better not try again for a while. Held in memory: forgetting costs one more try."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = providers
        self._until: dict[str, dict[_Machine, datetime]] = {}
        self._no_bids_until: dict[str, dict[_Machine, datetime]] = {}
        """Both by job."""
        self._refused: dict[tuple[str, str, str], _Refused] = {}

    def add(
        self, lease: Lease, now: datetime, span: timedelta, *, bids_only: bool = False, of: str | None = None
    ) -> None:
        """Of a pool the next machine is another one: what is wrong with this one says little of it.

        ``bids_only``: on demand may be rented there, which outranks any bid. ``of``: the job that keeps away, where it
        is not the lease's: of an array all its tasks do.
        """
        provider = self._providers.get(lease.provider)
        if provider is not None and provider.capabilities.is_pooled:
            span = min(span, POOL_AVOIDED)
        job_id = of or lease.job_id
        if job_id is not None:
            until = self._no_bids_until if bids_only else self._until
            until.setdefault(job_id, {})[lease.provider, lease.machine_id] = now + span

    def add_refused(self, lease: Lease, now: datetime, span: timedelta) -> None:
        """``span``, and each time twice as long for a machine that refuses again and again, up to a limit."""
        if lease.job_id is None or not span:
            return
        key = lease.job_id, lease.provider, lease.machine_id
        self._refused = {known: last for known, last in self._refused.items() if now < last.at + 3 * last.span}
        last = self._refused.get(key)
        if last is not None and now < last.at + 3 * last.span:
            span = max(span, min(2 * last.span, LONGEST_AFTER_REFUSAL))
        self._refused[key] = _Refused(now, span)
        self.add(lease, now, span)

    def forget(self, open_jobs: Iterable[str]) -> None:
        """Keep nothing of jobs that are over."""
        kept = frozenset(open_jobs)
        for until in (self._until, self._no_bids_until):
            for job_id in until.keys() - kept:
                del until[job_id]

    def machines(self, job_id: str, now: datetime) -> frozenset[_Machine]:
        return _still(self._until, job_id, now)

    def without_bids(self, offers: tuple[Offer, ...], job_id: str, now: datetime) -> tuple[Offer, ...]:
        """The offers, and no floor where the job had better not bid."""
        not_there = _still(self._no_bids_until, job_id, now)
        if not not_there:
            return offers
        return tuple(
            replace(offer, floor=None) if (offer.provider, offer.machine_id) in not_there else offer for offer in offers
        )


def _still(until: dict[str, dict[_Machine, datetime]], job_id: str, now: datetime) -> frozenset[_Machine]:
    """The machines of that job whose time is not over; the others are forgotten."""
    if job_id not in until:
        return frozenset()
    until[job_id] = {machine: end for machine, end in until[job_id].items() if end > now}
    if not until[job_id]:
        return frozenset(until.pop(job_id))
    return frozenset(until[job_id])


_OF_THE_MOMENT = (RefusalCode.RATE_LIMITED, RefusalCode.INVALID)
"""A raise or a start that was turned down so is sent again with the next tick. The second code is a bare
``success: false``."""
_FOR_GOOD = (RefusalCode.OFFER_GONE, RefusalCode.INVALID)
"""So often as raises may fail, and no more: the host is full, or the call does not exist any more."""
LIFETIME_GRACE = timedelta(minutes=15)
"""After the end of its absolute lifetime a machine that is still there is ended by its market, where that can."""
_REFUSALS = {
    RefusalCode.WRONG_TERMS: Reason.WRONG_TERMS,
    RefusalCode.OUT_OF_CREDIT: Reason.OUT_OF_CREDIT,
    RefusalCode.BID_TOO_LOW: Reason.OUTBID,
    RefusalCode.INVALID: Reason.INVALID,
}
_AVOID_AFTER_REFUSAL = {
    RefusalCode.OFFER_GONE: timedelta(minutes=2),  # A lost race, at first.
    RefusalCode.BID_TOO_LOW: timedelta(0),  # The next bid there is higher: LostBids.
    RefusalCode.RATE_LIMITED: timedelta(0),
    RefusalCode.OUT_OF_CREDIT: timedelta(0),
    RefusalCode.NO_RIGHTS: timedelta(0),
}
LONGEST_AFTER_REFUSAL = timedelta(minutes=16)
"""A host that is full and yet listed is asked no more often. Not for longer, for a deadline may need it."""
AVOID_AFTER_RELEASE = {
    Reason.STUCK_LOADING: timedelta(hours=6),
    Reason.HOST_LOST: timedelta(hours=6),
    Reason.DISPLACED: timedelta(minutes=30),
    Reason.OUTBID: timedelta(minutes=30),
    Reason.PERMIT: timedelta(minutes=30),  # A start did not bring it back.
    Reason.UNKNOWN: timedelta(minutes=30),
    Reason.RETRY: timedelta(hours=1),
    Reason.BAD_MACHINE: timedelta(hours=6),
    Reason.WRONG_TERMS: timedelta(hours=1),
    Reason.EXPIRING: timedelta(hours=6),
}
"""How long a job keeps away from a machine that it left for such a reason."""
POOL_AVOIDED = timedelta(minutes=2)
"""And from a pool at the most: long enough not to rent what the market has just taken."""
