"""The paper market behind the engine's ``Provider`` protocol, around the real one, to which only reads are sent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import structlog

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance, InstanceStatus
from autopilot.domain.money import ZERO
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import (
    Created,
    CreateRequest,
    Done,
    MarketUnknown,
    Provider,
    RefusalCode,
    Refused,
    Unknown,
)
from autopilot.providers.paper import books
from autopilot.providers.paper.agent import AgentMemory, PaperAgents
from autopilot.providers.paper.instance import PaperInstance

OFFER_GOOD_FOR = timedelta(hours=1)
"""An offer that was not seen for so long cannot be taken."""
KEPT_AFTER_DESTROY = timedelta(days=100)
"""For so long the charges of a destroyed instance can be asked for."""
RELOAD = timedelta(seconds=30)
"""From regaining its GPUs until a paused instance runs again."""

Outcome = Done[None] | Refused | Unknown
T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """``credit`` None: the real account's. ``set_up``: from a create until the instance runs, in market time."""

    state_file: Path
    credit: Decimal | None = None
    set_up: timedelta = timedelta(minutes=4)


@dataclass(frozen=True, slots=True)
class _Sighting:
    offer: Offer
    query: OfferQuery
    at: datetime


class PaperProvider:
    """A machine that vanishes from the offers keeps the floor that it had: paper knows outbids and no other losses."""

    def __init__(self, name: str, inner: Provider, settings: PaperSettings, clock: Clock) -> None:
        """``name`` is not the real market's. ``inner`` is closed with this. Raises ``UserError``: unreadable state."""
        self.name = name
        self._inner = inner
        self._settings = settings
        self._clock = clock
        self._agents = PaperAgents()
        self._instances = books.load(settings.state_file)
        self._unsaved = False
        self._credit = settings.credit
        """As last read."""
        self._seen: dict[str, _Sighting] = {}
        self._looking = asyncio.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """Queried each time: spot comes and goes."""
        return self._inner.capabilities

    async def instances(self) -> tuple[Instance, ...]:
        """Reads the floors again and gives each agent its turn."""
        async with self._looking:
            queries = {held.query for held in self._alive() if held.capacity_type is CapacityType.SPOT}
            for query in sorted(queries, key=repr):
                try:
                    await self.offers(query)
                except MarketUnknown as problem:
                    log.info("paper.floors_unseen", provider=self.name, reason=str(problem))
            self._pass_time()
            await asyncio.gather(*(self._work(held) for held in self._alive()))
        self._save_or_doubt()
        return tuple(held.show(self.name) for held in self._alive())

    async def instance(self, instance_id: str) -> Instance | None:
        self._pass_time()
        self._save_or_doubt()
        held = self._find_alive(instance_id)
        return None if held is None else held.show(self.name)

    @property
    def kept_logins(self) -> None:
        """Nothing is pulled on paper."""
        return None

    @property
    def ssh_keys(self) -> None:
        """There are no logins on paper."""
        return None

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._inner.gpu_names()

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        """The real ones, without the machines held here: to us they are taken."""
        found = await self._inner.offers(query)
        now = self._clock.now()
        self._seen = {key: seen for key, seen in self._seen.items() if now - seen.at < OFFER_GOOD_FOR}
        self._seen |= {offer.offer_id: _Sighting(offer, query, now) for offer in found}
        self._see_floors(found)
        return tuple(replace(offer, provider=self.name) for offer in found if not self._is_taken(offer))

    async def account(self) -> Account:
        """The real credit, or the paper credit. Neither shrinks: nothing is paid from it."""
        if self._settings.credit is not None:
            return Account(self._settings.credit)
        account = await self._inner.account()
        self._credit = account.credit
        return account

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        """To the second, at the current bid; a destroyed instance's for a hundred days."""
        self._pass_time()
        now = self._clock.now()
        return tuple(
            charge for held in self._instances.values() for charge in held.charges(now) if since <= charge.day <= until
        )

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        seen = self._seen.get(request.offer_id)
        if seen is None or self._is_taken(seen.offer):
            return Refused(RefusalCode.OFFER_GONE, "this offer is no longer available")
        is_spot = request.capacity_type is CapacityType.SPOT
        asked = seen.offer.floor if is_spot else seen.offer.on_demand_price
        if asked is None or not (self.capabilities.spot if is_spot else self.capabilities.on_demand):
            return Refused(RefusalCode.OFFER_GONE, f"no {request.capacity_type} price is known for this offer")
        if request.bid < asked:
            code = RefusalCode.BID_TOO_LOW if is_spot else RefusalCode.WRONG_TERMS
            return Refused(code, f"it costs {asked}, and the bid is {request.bid}")
        if self._credit is not None and self._credit <= ZERO:
            return Refused(RefusalCode.OUT_OF_CREDIT, "the account's credit is used up")
        created = self._new(request, seen, bid=request.bid if is_spot else asked)
        self._put(created)
        return self._save_and_answer(Created(created.instance_id))

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        held = self._find_alive(instance_id)
        if held is None:
            return _not_found(instance_id)
        if not self.capabilities.can_rebid or held.capacity_type is not CapacityType.SPOT:
            return Refused(RefusalCode.INVALID, "the price of this instance cannot be changed")
        self._judge(held, bid=bid, floor=held.floor)
        return self._save_and_answer(bid)

    async def start(self, instance_id: str) -> Outcome:
        held = self._find_alive(instance_id)
        if held is None:
            return _not_found(instance_id)
        started = held.restart(self._clock.now(), RELOAD)
        self._put(started)
        outcome = self._save_and_answer(None)
        if started.start_queued and isinstance(outcome, Done):
            return Refused(RefusalCode.QUEUED, "it starts as soon as its bid wins")
        return outcome

    async def stop(self, instance_id: str) -> Outcome:
        held = self._find_alive(instance_id)
        if held is None:
            return _not_found(instance_id)
        self._put(held.halt(self._clock.now(), RELOAD))
        return self._save_and_answer(None)

    async def destroy(self, instance_id: str) -> Outcome:
        held = self._find_alive(instance_id)
        if held is None:
            return _not_found(instance_id)
        self._put(held.destroy(self._clock.now()))
        return self._save_and_answer(None)

    async def start_words(self, instance_id: str) -> str:
        return ""

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        seen = await self._inner.past_prices(query, since, until)
        return tuple(replace(each, provider=self.name) for each in seen)

    async def quotas(self) -> tuple[AccountQuota, ...]:
        return ()

    def drifts(self) -> tuple[Drift, ...]:
        """Drifts of the real market, under its own name."""
        return self._inner.drifts()

    def reported_time(self) -> ReportedTime | None:
        return self._inner.reported_time()

    def remarks(self) -> tuple[Remark, ...]:
        """None of a real market count for what is rented on paper."""
        return ()

    async def close(self) -> None:
        await self._agents.close()
        await self._inner.close()

    def _alive(self) -> list[PaperInstance]:
        return [held for held in self._instances.values() if held.is_alive]

    def _find_alive(self, instance_id: str) -> PaperInstance | None:
        held = self._instances.get(instance_id)
        return held if held is not None and held.is_alive else None

    def _is_taken(self, offer: Offer) -> bool:
        """A pool has no host: it is more than one machine."""
        return bool(offer.host_id) and any(held.machine_id == offer.machine_id for held in self._alive())

    def _new(self, request: CreateRequest, seen: _Sighting, bid: Decimal) -> PaperInstance:
        now, offer = self._clock.now(), seen.offer
        return PaperInstance(
            instance_id=f"paper-{secrets.token_hex(6)}",
            label=request.label,
            machine_id=offer.machine_id,
            host_id=offer.host_id,
            gpu=offer.gpu,
            num_gpus=offer.num_gpus,
            ends_at=offer.ends_at,
            query=seen.query,
            capacity_type=request.capacity_type,
            bid=bid,
            storage_rate=offer.storage_rate(request.disk_gb),
            floor=offer.floor if request.capacity_type is CapacityType.SPOT else None,
            ready_at=now + self._settings.set_up,
            agent=AgentMemory(orders_url=request.onstart),
        ).as_created(now)

    def _see_floors(self, offers: Iterable[Offer]) -> None:
        floors = {(offer.machine_id, offer.num_gpus): offer.floor for offer in offers}
        for held in self._alive():
            floor = floors.get((held.machine_id, held.num_gpus))
            if held.capacity_type is CapacityType.SPOT and floor is not None and floor != held.floor:
                self._judge(held, bid=held.bid, floor=floor)

    def _judge(self, held: PaperInstance, *, bid: Decimal, floor: Decimal | None) -> None:
        now = self._clock.now()
        priced = held.reprice(now, RELOAD, bid=bid, floor=floor)
        if priced.is_outbid and not self.capabilities.pauses_when_outbid:
            priced = priced.destroy(now)
        self._put(priced)

    def _pass_time(self) -> None:
        now = self._clock.now()
        for held in list(self._instances.values()):
            if held.is_alive:
                self._put(held.grow(now))
            elif held.destroyed_at is not None and now - held.destroyed_at >= KEPT_AFTER_DESTROY:
                del self._instances[held.instance_id]
                self._unsaved = True

    async def _work(self, held: PaperInstance) -> None:
        """The agent's turn on a running machine. One whose permit has run out destroyed itself at that moment."""
        if held.status is not InstanceStatus.RUNNING or held.booted_at is None or not held.agent.orders_url:
            return
        now, memory = self._clock.now(), held.agent
        if memory.boot < held.boots:
            memory = memory.start(held.boots, held.booted_at, keeps_disk=self.capabilities.keeps_disk_when_stopped)
        if memory.permit_until is not None and now >= memory.permit_until:
            self._put(replace(held, agent=memory).destroy(memory.permit_until))
            log.warning("paper.permit_expired", provider=self.name, instance=held.instance_id)
            return
        memory = await self._agents.turn(memory, now)
        current = self._find_alive(held.instance_id)
        if current is not None:
            self._put(replace(current, agent=memory))

    def _put(self, held: PaperInstance) -> None:
        if self._instances.get(held.instance_id) != held:
            self._instances[held.instance_id] = held
            self._unsaved = True

    def _save(self) -> None:
        """Raises ``OSError``; what could not be saved now is tried again at the next look or change."""
        if self._unsaved:
            books.save(self._settings.state_file, self._instances)
            self._unsaved = False

    def _save_and_answer(self, value: T) -> Done[T] | Unknown:
        try:
            self._save()
        except OSError as problem:
            return Unknown(f"the paper instances cannot be written: {problem.strerror}")
        return Done(value)

    def _save_or_doubt(self) -> None:
        try:
            self._save()
        except OSError as problem:
            raise MarketUnknown(f"the paper instances cannot be written: {problem.strerror}") from problem


def _not_found(instance_id: str) -> Refused:
    return Refused(RefusalCode.NOT_FOUND, f"no such instance: {instance_id}")
