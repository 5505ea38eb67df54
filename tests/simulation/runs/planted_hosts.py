"""Planted bugs of bids, of credit, of hosts that lie, of held machines, and of what several jobs and daemons share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain import events as e
from autopilot.domain import evolve_lease
from autopilot.domain.actions import Hold
from autopilot.domain.lease import Role
from autopilot.domain.money import ZERO
from autopilot.domain.reasons import Reason
from autopilot.engine import engine, mailbox
from autopilot.engine.lost_bids import LostBids
from autopilot.mailbox import checkpoints
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.policy import budget, decide, hold, paused, permits
from autopilot.providers.vastai.echoes import Echoes
from autopilot.service.leadership import FencedProvider
from autopilot_lab.memory_store.jobs import MemoryJobs
from tests.simulation.product.agents import SimAgent
from tests.simulation.runs.bug import Patches, bug

MILLI = Decimal("0.001")

# --- bids and credit


@bug("bids that lost are forgotten at once")
def _lost_bids_forgotten() -> Patches:
    return [(LostBids, "_on", lambda self, offers, now: ())]


@bug("an echo of our own bid is taken for the floor")
def _echo_believed() -> Patches:
    return [(Echoes, "_is_echo", lambda self, machine_id, floor, now_s: False)]


@bug("the other GPUs of a host are hidden while we hold one")
def _other_gpus_hidden() -> Patches:
    return [(Echoes, "_is_held", lambda self, row, ours: self._held[row.machine_id] > 0)]


@bug("a machine that an empty account has stopped is bid up once credit is paid in")
def _top_up_raised() -> Patches:
    pause = evolve_lease._pause

    def as_outbid(lease: Any, instance: Any, at: Any, evidence: Any) -> Any:
        after = pause(lease, instance, at, evidence)
        if after.observed.pause_cause is not Reason.PAID_IN:
            return after
        told = after.observed.price_to_win or after.bid + MILLI
        return replace(after, observed=replace(after.observed, pause_cause=Reason.OUTBID, price_to_win=told))

    return [(evolve_lease, "_pause", as_outbid)]


@bug("an unexplained stop is taken for an outbid")
def _unknown_is_outbid() -> Patches:
    def a_step_more(spec: Any, lease: Any, params: Any, *_: Any, **__: Any) -> Any:
        return (lease.bid * Decimal("1.1")).quantize(MILLI)

    return [(paused, "is_beaten", lambda lease: True), (paused, "raised_bid", a_step_more)]


@bug("what a market can do is copied when the daemon starts")
def _capabilities_copied() -> Patches:
    begin = FencedProvider.__init__

    def copy(self: Any, inner: Any, store: Any, *, hold_creates_real_s: float) -> None:
        begin(self, inner, store, hold_creates_real_s=hold_creates_real_s)
        self._copied = inner.capabilities

    return [(FencedProvider, "__init__", copy), (FencedProvider, "capabilities", property(lambda self: self._copied))]


# --- hosts that lie


@bug("junk in one machine's mailbox ends the tick for all")
def _junk_ends_the_tick() -> Patches:
    async def read_mail(self: Any, jobs: Sequence[Any]) -> dict[str, Any]:
        now = self._clock.now()
        return {lease.id: await self._mailbox.read(job, lease, now) for job in jobs for lease in job.leases}

    def parse(data: bytes) -> Any:
        json.loads(data or b"{}")
        return parse_heartbeat(data)

    return [(engine.Engine, "_read_mail", read_mail), (mailbox, "parse_heartbeat", parse)]


@bug("a lease that is over may go on writing")
def _writes_after_the_end() -> Patches:
    async def admit(self: Any, jobs: Sequence[Any], _: object = ()) -> None:
        known = self.__dict__.setdefault("_ever_admitted", {})
        known |= {
            f"jobs/{job.id}/{lease.id}": 10 * mailbox.readable_bytes(lease) for job in jobs for lease in job.leases
        }
        await self._blobs.admit(known)

    return [(mailbox.Mailbox, "admit", admit)]


@bug("a lease may fill the store without bound")
def _no_share_of_the_store() -> Patches:
    return [(mailbox, "readable_bytes", lambda lease: 10**15)]


@bug("a part of a checkpoint is trusted by its key instead of its hash")
def _part_trusted_by_key() -> Patches:
    is_whole = checkpoints._is_whole

    async def by_key(
        store: Any, unpacker: Any, job_id: str, lease_id: str, manifest: Any, trusted: Sequence[Any]
    ) -> bool:
        keys = {part.key for part in trusted}
        claims = checkpoints.contents(manifest, job_id, lease_id)
        known = {claim for claim in claims if claim.key in keys}
        return await is_whole(store, unpacker, job_id, lease_id, manifest, known)

    return [(checkpoints, "_is_whole", by_key)]


@bug("a machine that restores looks at the size of a part and not at its hash")
def _size_instead_of_hash() -> Patches:
    return [(SimAgent, "_is_whole", lambda self, found, part: found.size == part["size"])]


# --- machines that are held


@bug("the end of a hold is forgotten when the daemon starts again")
def _hold_end_forgotten() -> Patches:
    begin = engine.Engine.__init__
    begun_here: set[str] = set()

    def start(self: Any, *arguments: Any, **more: Any) -> None:
        begun_here.clear()
        begin(self, *arguments, **more)

    def here_alone(job: Any, market: Any, now: Any, params: Any) -> Any:
        held = job.on_hold
        if held is not None and held.id not in begun_here:
            return (), ()
        answer = hold.hold(job, market, now, params)
        begun_here.update(action.lease_id for action in (answer or ((),))[0] if isinstance(action, Hold))
        return answer

    return [(decide, "hold", here_alone), (engine.Engine, "__init__", start)]


@bug("a machine is held whether or not there is money for it")
def _hold_unpaid() -> Patches:
    return [(budget, "hold_reserve", lambda lease: ZERO)]


@bug("a hold outlasts what its job file asks for by an hour")
def _hold_too_long() -> Patches:
    def longer(job: Any, market: Any, now: Any, params: Any) -> Any:
        asked = job.spec.hold
        asked_longer = replace(job, spec=replace(job.spec, hold=asked and asked + timedelta(hours=1)))
        return hold.hold(asked_longer, market, now, params)

    return [(decide, "hold", longer)]


# --- what several share


@bug("a tick goes on with the jobs that it read before it read the markets")
def _lost_update() -> Patches:
    tick, listed = engine.Engine.tick, MemoryJobs.list_open
    read_before: list[Any] = []

    async def list_open(self: Any) -> Any:
        if not self._access._is_read_only and read_before:
            return read_before.pop()
        found = await listed(self)
        if self._access._is_read_only:
            read_before[:] = [found]
        return found

    async def afresh(self: Any) -> None:
        read_before.clear()
        await tick(self)

    return [(MemoryJobs, "list_open", list_open), (engine.Engine, "tick", afresh)]


@bug("what earlier jobs of a tick are about to rent does not count for the hour")
def _launches_of_one_tick() -> Patches:
    decide = engine.Engine._decide

    async def forgetful(self: Any, *given: Any) -> Any:
        _, _, _, _, exposure, *_ = given
        after = await decide(self, *given)
        return replace(after, launches_hour=exposure.launches_hour)

    return [(engine.Engine, "_decide", forgetful)]


@bug("machines get no permit while their market cannot be read")
def _outage_ends_permits() -> Patches:
    return [(engine, "HEARTBEAT_LASTS", timedelta(0)), (engine, "OBSERVATION_LASTS", timedelta(minutes=3))]


@bug("a machine that was told to save and stop goes on getting permits")
def _permit_after_stop() -> Patches:
    renew = engine.Engine._renew_permits

    def as_if_it_ran(self: Any, event_log: Any, exposure: Any, now: Any) -> Any:
        exposure = renew(self, event_log, exposure, now)
        for lease in event_log.job.leases:
            is_stopping = lease.is_wanted and lease.orders.role is Role.SAVE_AND_STOP and lease.orders.stop_seq
            if is_stopping and now - lease.permit.renewed_at >= engine.PERMIT_EVERY:
                event_log.apply(e.PermitRenewed(lease.id, self._mailbox.newest_seq(lease) + 1, now, 900))

    return [(engine.Engine, "_renew_permits", as_if_it_ran)]


@bug("a permit of hours is bounded by no limit, and nothing is held back for it")
def _long_permit_unpaid() -> Patches:
    return [
        (permits, "_long_s", lambda lease, bounds, longest_s, params: longest_s),
        (budget, "has_long_permit", lambda lease: False),
    ]


@bug("a machine that is to destroy itself at the end of its permit gets another one")
def _renewed_during_the_lapse() -> Patches:
    renew = engine.Engine._renew_permits

    def as_if_it_ran(self: Any, event_log: Any, exposure: Any, now: Any) -> Any:
        exposure = renew(self, event_log, exposure, now)
        for lease in event_log.job.leases:
            if lease.is_proving and now - lease.permit.renewed_at >= engine.PERMIT_EVERY:
                event_log.apply(e.PermitRenewed(lease.id, self._mailbox.newest_seq(lease) + 1, now, 900))
        return exposure

    return [(engine.Engine, "_renew_permits", as_if_it_ran)]
