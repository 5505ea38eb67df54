"""Machines of one's own behind the engine's ``Provider`` protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import structlog

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.ssh import mapping
from autopilot.providers.ssh.config import SshSettings
from autopilot.providers.ssh.hours import open_until
from autopilot.providers.ssh.machine import OwnMachine, Unreached
from autopilot.providers.ssh.shipped.program import GRACE_S
from autopilot.providers.ssh.wire import SeenMachine, clean

AGENT_WITHIN_S = 1800
"""Market seconds: a lease that has brought up no agent until then ends itself, for no permit ends it."""
LEAST_OPEN = timedelta(minutes=15)
"""A machine whose hours end sooner is not offered: nothing would be done there."""
Outcome = Done[None] | Refused | Unknown

log = structlog.get_logger(__name__)


class SshProvider:
    name = mapping.PROVIDER
    kept_logins = None
    ssh_keys = None

    def __init__(self, settings: SshSettings, clock: Clock) -> None:
        self._clock = clock
        self._machines = {
            name: OwnMachine(name, each, settings, clock) for name, each in sorted(settings.machines.items())
        }
        ends_early = any(each.owner_may_take_back or each.hours for each in settings.machines.values())
        self.capabilities = Capabilities(
            spot=False,
            on_demand=True,
            can_rebid=False,
            pauses_when_outbid=True,  # where its owner has taken the machine back
            keeps_disk_when_stopped=True,
            reports_floor=False,
            bills_at_bid=False,
            notice_s=round(GRACE_S) if ends_early else 0,
            has_bills=False,
        )

    async def instances(self) -> tuple[Instance, ...]:
        """A lease on a machine that does not answer is shown as it was, and offline."""
        shown = await asyncio.gather(*map(self._show, self._machines.values()))
        return tuple(instance for each in shown for instance in each)

    async def _show(self, machine: OwnMachine) -> tuple[Instance, ...]:
        try:
            return _instances(machine, await machine.look())
        except Unreached as problem:
            if machine.may_hide:
                raise MarketUnknown(str(problem)) from None
            last = machine.last
            return () if last is None else mapping.offline(_instances(machine, last), str(problem))

    async def instance(self, instance_id: str) -> Instance | None:
        machine, lease = mapping.parts_of_id(instance_id)
        if machine not in self._machines:
            raise MarketUnknown(f"no machine {machine} of your own is named in the settings")
        try:
            seen = await self._machines[machine].look()
        except Unreached as problem:
            raise MarketUnknown(str(problem)) from None
        found = _instances(self._machines[machine], seen)
        return next((each for each in found if each.instance_id == mapping.id_of(machine, lease)), None)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """Of those machines that answer; raises ``MarketUnknown`` if none does."""
        found = await asyncio.gather(*(self._offers(each, query) for each in self._machines.values()))
        if all(isinstance(each, str) for each in found):
            raise MarketUnknown("; ".join(map(str, found)))
        return tuple(offer for each in found if not isinstance(each, str) for offer in each)

    async def _offers(self, machine: OwnMachine, query: OfferQuery) -> tuple[Offer, ...] | str:
        """Or why it cannot be asked."""
        now = self._clock.now()
        closes_at = self._closes_at(machine, now)
        if closes_at is not None and closes_at - now < LEAST_OPEN:
            return ()
        try:
            seen = await machine.look_whole()
        except (Unreached, MarketUnknown) as problem:
            log.info("machine.unseen", provider=self.name, machine=machine.name, reason=str(problem))
            return str(problem)
        if seen.gpu_fault:
            log.warning("machine.gpu_fault", provider=self.name, machine=machine.name, reason=seen.gpu_fault)
        return tuple(mapping.offers(machine.name, machine.settings, seen, query, closes_at))

    def _closes_at(self, machine: OwnMachine, now: datetime) -> datetime | None:
        return open_until(machine.settings.windows, ZoneInfo(machine.settings.time_zone), now)

    async def gpu_names(self) -> tuple[str, ...]:
        names: set[str] = set()
        for machine in self._machines.values():
            try:
                kit = mapping.kit_of(machine.settings, await machine.look_whole())
            except (Unreached, MarketUnknown):
                kit = None
            if kit is not None:
                names.add(kit.gpu)
        return tuple(sorted(names))

    async def account(self) -> Account:
        """Nobody is paid."""
        return Account(credit=None, account_id="own")

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """A create that is sent again under its label finds the lease that it made."""
        if request.capacity_type is not CapacityType.ON_DEMAND:
            return Refused(RefusalCode.WRONG_TERMS, "there are no bids for machines of your own")
        try:
            name, slot, num_gpus = mapping.parts_of_offer(request.offer_id)
            machine = self._machines[name]
        except (ValueError, KeyError):
            return Refused(RefusalCode.OFFER_GONE, f"no such machine of your own: {clean(request.offer_id)}")
        if request.bid < machine.settings.price:
            return Refused(RefusalCode.WRONG_TERMS, f"it costs ${machine.settings.price} an hour")
        closes_at = self._closes_at(machine, self._clock.now())
        if closes_at is not None and closes_at - self._clock.now() < LEAST_OPEN:
            return Refused(RefusalCode.OFFER_GONE, "its hours are over")
        try:
            kit = mapping.kit_of(machine.settings, await machine.look_whole())
        except (Unreached, MarketUnknown) as problem:
            return Refused(RefusalCode.OFFER_GONE, str(problem))
        devices = () if kit is None else mapping.devices_of(kit, machine.settings, slot, num_gpus)
        if kit is None or len(devices) != num_gpus or slot >= machine.settings.jobs:
            return Refused(RefusalCode.OFFER_GONE, "it has no such GPUs any more")
        lease = {
            "label": request.label,
            "slot": slot,
            "gpu": kit.gpu,
            "num_gpus": num_gpus,
            "devices": list(devices),
            "ends_at": None if closes_at is None else round(closes_at.timestamp()),
            "may_be_taken": machine.settings.owner_may_take_back,
            "agent_within_s": AGENT_WITHIN_S / self._clock.speed,
            "speed": self._clock.speed,
            "env": dict(request.env),
        }
        return await self._create(machine, mapping.directory_of(request.label), lease, request)

    async def _create(
        self, machine: OwnMachine, directory: str, lease: Mapping[str, Any], request: CreateRequest
    ) -> Done[Created] | Refused | Unknown:
        sent = {
            "name": directory,
            "lease": lease,
            "start": request.onstart,
            "disk_mb": int(request.disk_gb * 1000),
        }
        try:
            answer = await machine.change("create", **sent)
        except Unreached as problem:
            if not problem.has_begun:
                return Refused(RefusalCode.OFFER_GONE, str(problem))
            machine.is_in_doubt = True
            return Unknown(str(problem))
        if answer.get("done") == directory:
            return Done(Created(mapping.id_of(machine.name, directory)))
        if "refused" in answer:
            return Refused(RefusalCode.OFFER_GONE, f"{machine.name}: {clean(answer['refused'])}")
        machine.is_in_doubt = True
        return Unknown(f"{machine.name}: {clean(answer.get('failed', 'an answer that says nothing'))}")

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        return Refused(RefusalCode.INVALID, "there are no bids for machines of your own")

    async def start(self, instance_id: str) -> Outcome:
        return await self._change("start", instance_id)

    async def stop(self, instance_id: str) -> Outcome:
        return await self._change("stop", instance_id)

    async def destroy(self, instance_id: str) -> Outcome:
        return await self._change("destroy", instance_id)

    async def _change(self, ask: str, instance_id: str) -> Outcome:
        name, lease = mapping.parts_of_id(instance_id)
        if name not in self._machines:
            return Unknown(f"no machine {name} of your own is named in the settings")
        try:
            answer = await self._machines[name].change(ask, name=lease)
        except Unreached as problem:
            return Unknown(str(problem))
        if answer.get("done") == lease:
            return Done(None)
        if answer.get("absent") is True:
            return Refused(RefusalCode.NOT_FOUND, f"{name} has no such lease")
        if "refused" in answer:
            return Refused(RefusalCode.OFFER_GONE, f"{name}: {clean(answer['refused'])}")
        return Unknown(f"{name}: {clean(answer.get('failed', 'an answer that says nothing'))}")

    async def start_words(self, instance_id: str) -> str:
        name, lease = mapping.parts_of_id(instance_id)
        try:
            answer = await self._machines[name].change("words", name=lease)
        except (Unreached, KeyError):
            return ""
        said = answer.get("words")
        return said if isinstance(said, str) else ""

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        raise MarketUnknown("nobody sends a bill for machines of your own")

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return ()

    async def quotas(self) -> tuple[AccountQuota, ...]:
        """How many jobs each machine takes at once."""
        found = await asyncio.gather(*map(self._quota, self._machines.values()))
        return tuple(found)

    async def _quota(self, machine: OwnMachine) -> AccountQuota:
        used = None
        with contextlib.suppress(Unreached, MarketUnknown):
            used = len((await machine.look_whole()).leases)
        return AccountQuota("jobs at once", machine.settings.jobs, used, machine.name)

    def drifts(self) -> tuple[Drift, ...]:
        return ()

    def reported_time(self) -> ReportedTime | None:
        return None

    def remarks(self) -> tuple[Remark, ...]:
        return ()

    async def close(self) -> None:
        """No connection is kept open."""


def _instances(machine: OwnMachine, seen: SeenMachine) -> tuple[Instance, ...]:
    return tuple(mapping.instance(machine.name, machine.settings, each) for each in seen.leases)
