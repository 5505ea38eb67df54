"""What goes wrong without any one event: a market that stays unread, money that ends, a deadline out of reach.

Each is one event in the log when it comes up, and none while it lasts. What has come up is kept in the ledger, in the
same transaction: a restart says nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import structlog

from autopilot.domain.certificate import MAY_BE_TRIED, Lack
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.engine.certification import Certification
from autopilot.engine.dialling import TunnelTrouble
from autopilot.engine.event_log import (
    account_changed,
    budget_low,
    card_pays,
    certificate_ends,
    certificate_lacked,
    clock_doubted,
    credit_low,
    deadline_lost,
    market_quarantined,
    market_unread,
    tunnel_failed,
)
from autopilot.engine.observe import Reading, Watch
from autopilot.policy.budget import burn
from autopilot.ports.store import EventRecord, UnitOfWork
from autopilot.pricing.speed import work_left

log = structlog.get_logger(__name__)

UNREAD_FOR = timedelta(minutes=5)
CREDIT_ENDS_WITHIN = timedelta(hours=24)
NEAR_BUDGET = Decimal("0.8")
AGAIN_AFTER = timedelta(hours=6)
"""What has passed and comes up again is said again no sooner: at the edge it would be said at every tick."""
NOTE = "conditions"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that holds now. ``about``: the market or the job; ``record``: its event."""

    about: str
    record: EventRecord

    @property
    def key(self) -> str:
        return f"{self.record.name} {self.about}"


class ConditionLog:
    """One per engine. What it remembers beside the ledger is since when it has tried to read the markets."""

    def __init__(
        self,
        watches: Mapping[str, Watch],
        is_quarantined: Callable[[str, datetime], bool],
        certification: Certification,
        tunnel_troubles: Callable[[Iterable[Lease]], Iterator[TunnelTrouble]],
    ) -> None:
        self._watches = watches
        self._tunnel_troubles = tunnel_troubles
        self._is_quarantined = is_quarantined
        self._certification = certification
        self._since: datetime | None = None

    async def note(
        self,
        uow: UnitOfWork,
        readings: Mapping[str, Reading],
        jobs: Sequence[Job],
        orphans: Iterable[Lease],
        clock_error: timedelta | None,
        now: datetime,
    ) -> None:
        """Put into the log what has come up. ``jobs``: with their spend to the moment."""
        self._since = self._since or now
        kept = await uow.notes.get(NOTE)
        before = _load(kept)
        leases = [*(lease for job in jobs for lease in job.leases), *orphans]
        found = [*self._list(readings, jobs, leases, now), *_of_clock(clock_error, now)]
        holds = {each.key: each for each in found}
        unread = {name for name, reading in readings.items() if not reading.known}
        # On a market that cannot be read, no condition is known to have passed.
        still = {key for key, (_, is_on) in before.items() if is_on and key.rpartition(" ")[2] in unread}
        new = [each for key, each in holds.items() if _may_be_said(before.get(key), now)]
        await uow.events.add([each.record for each in new])
        after = _remember(before, {each.key for each in new}, holds.keys() | still, now)
        if after != before:
            await uow.notes.set(NOTE, json.dumps({key: [at.isoformat(), is_on] for key, (at, is_on) in after.items()}))

    def _list(
        self, readings: Mapping[str, Reading], jobs: Sequence[Job], leases: Sequence[Lease], now: datetime
    ) -> Iterator[Condition]:
        for name, reading in readings.items():
            yield from self._of_market(name, reading, [lease for lease in leases if lease.provider == name], now)
            if reading.known:  # whose account it is, only an answer tells
                yield from self._of_certificate(name, jobs, now)
        for trouble in self._tunnel_troubles(leases):
            about = f"{trouble.lease.id}:{trouble.fault}"
            yield Condition(about, tunnel_failed(trouble.lease, trouble.fault, trouble.down_s, now))
        for job in jobs:
            try:
                yield from _of_job(job, now)
            except Exception:
                # What a machine claims of its pace may be beyond all numbers: no notice is worth everybody's tick.
                log.exception("condition.unjudged", job=job.id)

    def _of_market(self, name: str, reading: Reading, leases: Sequence[Lease], now: datetime) -> Iterator[Condition]:
        read_at = self._watches[name].known_at
        unread_for = now - (read_at or self._since or now)
        if not reading.known and unread_for >= UNREAD_FOR:
            yield Condition(name, market_unread(name, _seconds(unread_for), len(leases), now))
        if self._is_quarantined(name, now):
            yield Condition(name, market_quarantined(name, now))
        if reading.is_other_account:
            yield Condition(name, account_changed(name, sum(not lease.is_over for lease in leases), now))
        top_up = self._watches[name].top_up
        if reading.known and top_up.is_on:
            yield Condition(name, card_pays(name, reading.credit, top_up.below, now))
        per_hour = burn(leases)
        if not reading.known or reading.credit is None or per_hour <= ZERO:
            return
        if max(reading.credit, ZERO) < per_hour * Decimal(CREDIT_ENDS_WITHIN / timedelta(hours=1)):
            yield Condition(name, credit_low(name, reading.credit, per_hour, now))

    def _of_certificate(self, name: str, jobs: Sequence[Job], now: datetime) -> Iterator[Condition]:
        lack = self._certification.lack_of(name, now)
        if lack is not None and lack is not Lack.CERTIFYING_ONLY:
            waiting = sum(job.status.wants_capacity and job.main is None and not job.certifies for job in jobs)
            allowance = self._certification.rules.allowance if lack in MAY_BE_TRIED else None
            yield Condition(name, certificate_lacked(name, lack, waiting, now, allowance))
        ends_at = self._certification.ends_soon(name, now)
        if ends_at is not None:
            yield Condition(name, certificate_ends(name, ends_at, now))


def _of_clock(error: timedelta | None, now: datetime) -> Iterator[Condition]:
    if error is not None:
        yield Condition("clock", clock_doubted(_seconds(error), now))


def _of_job(job: Job, now: datetime) -> Iterator[Condition]:
    spec = job.spec
    if not job.status.wants_capacity:
        return
    if spec.budget and job.spent >= NEAR_BUDGET * spec.budget:
        yield Condition(job.id, budget_low(job, spec.budget, now))
    if spec.deadline is None:
        return
    # On any GPU that the job may use: it may yet move to a faster one.
    lefts = [left for gpu, count in spec.query.gpus if (left := work_left(job, gpu, count)) is not None]
    needed = min(lefts, default=timedelta(0))
    if now + needed > spec.deadline:
        left_s = max(_seconds(spec.deadline - now), 0)
        yield Condition(job.id, deadline_lost(job, _seconds(needed), left_s, now))


Memory = Mapping[str, tuple[datetime, bool]]
"""By condition: when it was said, and whether it holds."""


def _may_be_said(memory: tuple[datetime, bool] | None, now: datetime) -> bool:
    return memory is None or (not memory[1] and now - memory[0] >= AGAIN_AFTER)


def _remember(before: Memory, new: Iterable[str], holds: Iterable[str], now: datetime) -> Memory:
    said = {key: at for key, (at, _) in before.items()} | dict.fromkeys(new, now)
    on = set(holds)
    # One that came up again too soon to be said stays off, so that it is said once the time is over.
    after = {key: (at, key in on and (key in new or before[key][1])) for key, at in said.items()}
    return {key: (at, is_on) for key, (at, is_on) in after.items() if is_on or now - at < AGAIN_AFTER}


def _load(kept: str | None) -> Memory:
    read = json.loads(kept) if kept else {}
    return {key: (datetime.fromisoformat(at), is_on) for key, (at, is_on) in read.items()}


def _seconds(span: timedelta) -> int:
    return round(span.total_seconds())
