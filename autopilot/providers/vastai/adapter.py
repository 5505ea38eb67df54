"""The vast.ai market behind the engine's ``Provider`` protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance, InstanceStatus, Stopper
from autopilot.domain.offer import Capabilities, CapacityType, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark, RemarkKind
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers import values
from autopilot.providers.pacing import urgently
from autopilot.providers.reading import READ_TRIES, NoReply
from autopilot.providers.strangers import is_ours
from autopilot.providers.vastai import create, listing, mapping, outcomes, shapes, wire
from autopilot.providers.vastai.client import VastaiClient
from autopilot.providers.vastai.config import VastaiSettings
from autopilot.providers.vastai.echoes import Echoes
from autopilot.providers.vastai.inbox import Inbox, Outbid
from autopilot.providers.vastai.pacing import Family
from autopilot.providers.vastai.reply import Answer
from autopilot.providers.vastai.search import OfferSearch
from autopilot.providers.vastai.ssh_keys import VastaiKeys
from autopilot.providers.vastai.start_log import read_start_log

Outcome = Done[None] | Refused | Unknown
_NAMELESS = RefusalCode.INVALID


def _is_out(instance: Instance) -> bool:
    """A spot machine that is stopped."""
    return instance.status is InstanceStatus.STOPPED and instance.capacity_type is CapacityType.SPOT


class VastaiProvider:
    name = mapping.PROVIDER
    capabilities = Capabilities(
        spot=True,
        on_demand=True,
        can_rebid=True,
        pauses_when_outbid=True,
        keeps_disk_when_stopped=True,
        reports_floor=True,
        bills_at_bid=True,
        least_disk_gb=create.SMALLEST_DISK_GB,
    )
    kept_logins = None

    def __init__(self, settings: VastaiSettings, client: VastaiClient, clock: Clock) -> None:
        self.ssh_keys = VastaiKeys(client)
        self._settings = settings
        self._client = client
        self._clock = clock
        self._out_since_s: dict[str, float] = {}
        """By spot machine that the lists show stopped: since when, in monotonic seconds."""
        self._echoes = Echoes(clock)
        self._inbox = Inbox(client, clock)
        self._search = OfferSearch(settings, client, clock, self._echoes)
        self._alive: set[str] = set()
        """Instances that must be in the next list unless a read of their own says that they are gone."""
        self._gpus: dict[str, int] = {}
        self._bids: dict[str, Decimal] = {}
        self._creating: set[asyncio.Task[Done[Created] | Refused | Unknown]] = set()

    async def instances(self) -> tuple[Instance, ...]:
        expected = frozenset(self._alive)
        rows = await listing.instance_rows(self._client)
        listed = tuple(mapping.instance(row) for row in rows)
        found = {instance.instance_id for instance in listed}
        await self._confirm_lost(expected - found)
        self._alive = (self._alive - expected) | {row.instance_id for row in rows if is_ours(row.label)}
        self._echoes.observe(rows)
        self._gpus = {instance.instance_id: instance.num_gpus for instance in listed if instance.num_gpus}
        # A bid that the market shows otherwise than we sent it did not take, or somebody else moved it.
        current_bid = {instance.instance_id: instance.bid for instance in listed}
        self._bids = {known: bid for known, bid in self._bids.items() if current_bid.get(known) == bid}
        return await self._with_prices_to_win(tuple(map(self._with_floor_shown, listed)))

    def _with_floor_shown(self, listed: Instance) -> Instance:
        floor = self._echoes.floor_shown(listed.machine_id)
        return listed if floor is None else replace(listed, floor_shown=floor * max(listed.num_gpus, 1))

    async def _with_prices_to_win(self, listed: tuple[Instance, ...]) -> tuple[Instance, ...]:
        """Those that are out with what the market says of it: a notice, or else a floor that has passed their bid."""
        now_s = self._clock.monotonic()
        out = {each.instance_id for each in listed if _is_out(each)}
        self._out_since_s = {each: self._out_since_s.get(each, now_s) for each in out}
        outbids = await self._inbox.outbids(is_anybody_out=bool(out))
        return tuple(self._add_said(each, outbids.get(each.instance_id)) if _is_out(each) else each for each in listed)

    def _add_said(self, out: Instance, outbid: Outbid | None) -> Instance:
        if outbid is not None:
            to_win, at = outbid.price_to_win, outbid.at
            return replace(out, price_to_win=to_win, stopped_by=Stopper.BIDDER, stop_said_at=at)
        floor = self._echoes.floor_since(out.machine_id, self._out_since_s[out.instance_id])
        return out if floor is None else replace(out, price_to_win=floor * max(out.num_gpus, 1))

    async def _confirm_lost(self, missing: Iterable[str]) -> None:
        """A list may lag behind: what was there a minute ago and is not in it now is asked for by itself."""
        for instance_id in sorted(missing):
            if await self.instance(instance_id) is not None:
                raise MarketUnknown(f"the list is stale: it lacks instance {instance_id}, which exists")

    async def instance(self, instance_id: str) -> Instance | None:
        return await self._instance(instance_id, wire.listed_instance)

    async def _instance(
        self, instance_id: str, read: Callable[[object], wire.InstanceRow], *, tries: int = READ_TRIES
    ) -> Instance | None:
        known = values.identifier(instance_id)
        if known is None:
            raise MarketUnknown(f"not an instance id of this market: {instance_id!r}")
        path = f"/instances/{known}/"
        try:
            body = await self._client.read(Family.SHOW, path, shapes.ONE_INSTANCE, query={"owner": "me"}, tries=tries)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        if "instances" in body and body["instances"] is None:
            return None
        try:
            row = read(body.get("instances"))
        except wire.UnreadableRow as error:
            raise MarketUnknown(str(error)) from error
        if row.instance_id != known:
            raise MarketUnknown(f"asked for instance {known}, got {row.instance_id}")
        return mapping.instance(row)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        return await self._search.offers(query)

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._search.gpu_names()

    def offers_age_s(self, query: OfferQuery) -> float | None:
        """Market seconds since ``offers`` last asked the market about this query; None when it has not."""
        return self._search.age_s(query)

    async def account(self) -> Account:
        body = await self._client.read(Family.USER, "/users/current", shapes.ACCOUNT)
        credit = values.dollars(body.get("credit"))
        if credit is None:
            raise MarketUnknown("the account names no credit")
        return Account(credit, values.identifier(body.get("id")) or "", mapping.top_up(body))

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        return mapping.charges(await listing.charge_rows(self._client, since, until), since, until)

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """Cancelling this while it waits for its turn sends nothing; after that the request runs to its end."""
        bid = mapping.bid_for(request.bid, None) if request.capacity_type is CapacityType.SPOT else None
        try:
            body = create.body(request, bid, self._settings)
        except ValueError as error:
            return Refused(RefusalCode.INVALID, str(error))
        async with self._client.lane(Family.CREATE):
            sending = asyncio.create_task(self._create(request, bid, body))
            self._creating.add(sending)
            sending.add_done_callback(self._creating.discard)
            return await asyncio.shield(sending)

    async def _create(
        self, request: CreateRequest, bid: Decimal | None, body: Mapping[str, Any]
    ) -> Done[Created] | Refused | Unknown:
        try:
            path = f"/asks/{request.offer_id}/"
            answer = await self._client.send(Family.CREATE, "PUT", path, shapes.CREATED, body=body)
        except NoReply as error:
            return Unknown(str(error))
        outcome = outcomes.judge_create(answer, is_bid=bid is not None)
        self._note_words(answer, outcome)
        if isinstance(outcome, Refused) and outcome.code is RefusalCode.OFFER_GONE:
            self._search.drop(request.offer_id)
        if not isinstance(outcome, Done):
            return outcome
        self._alive.add(outcome.value.instance_id)
        row = self._search.row(request.offer_id)
        if row is not None:
            self._echoes.note_rented(outcome.value.instance_id, row, bid)
            self._search.drop(request.offer_id)
        return await self._read_back(outcome, request, bid)

    async def _read_back(
        self, created: Done[Created], request: CreateRequest, bid: Decimal | None
    ) -> Done[Created] | Refused:
        """The answer to a create does not say what was rented. What cannot be read now is seen in the next list."""
        instance_id = created.value.instance_id
        try:
            # It is ours by its id, not its label: nothing is concluded from a part of its row.
            rented = await self._instance(instance_id, wire.instance_row, tries=1)
        except MarketUnknown:
            return created
        if rented is None:
            return created
        difference = create.difference(rented, request, bid)
        if difference is not None:
            return Refused(RefusalCode.WRONG_TERMS, difference, instance_id)
        if bid is not None:
            self._bids[instance_id] = bid
        return created

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        allowed = mapping.bid_for(bid, self._gpus.get(instance_id))
        if self._bids.get(instance_id) == allowed:
            return Done(allowed)
        self._bids.pop(instance_id, None)
        answer = await self._change(
            Family.BID, "PUT", "/instances/bid_price/{}/", instance_id, {"client_id": "me", "price": float(allowed)}
        )
        if not isinstance(answer, Answer):
            return answer
        outcome = outcomes.judge_bid_change(answer, allowed)
        self._note_words(answer, outcome)
        if isinstance(outcome, Done):
            self._bids[instance_id] = allowed
        return outcome

    async def start(self, instance_id: str) -> Outcome:
        answer = await self._change(Family.STATE, "PUT", "/instances/{}/", instance_id, {"state": "running"})
        return outcomes.judge_start(answer) if isinstance(answer, Answer) else answer

    async def stop(self, instance_id: str) -> Outcome:
        with urgently():
            answer = await self._change(Family.STATE, "PUT", "/instances/{}/", instance_id, {"state": "stopped"})
        return outcomes.judge_stop(answer) if isinstance(answer, Answer) else answer

    async def destroy(self, instance_id: str) -> Outcome:
        with urgently():
            answer = await self._change(Family.DESTROY, "DELETE", "/instances/{}/", instance_id, {})
        if not isinstance(answer, Answer):
            return answer
        outcome = outcomes.judge_destroy(answer)
        if isinstance(outcome, Done):
            self._alive.discard(instance_id)
        return outcome

    def _note_words(self, answer: Answer, outcome: Done[Any] | Refused | Unknown) -> None:
        """A plain "no" that has no code of its own."""
        is_nameless = isinstance(outcome, Unknown) or (isinstance(outcome, Refused) and outcome.code is _NAMELESS)
        if is_nameless and answer.body is not None and answer.status < 500:
            self._client.remarks.add(RemarkKind.UNKNOWN_WORDS, answer.summary)

    async def _change(
        self, family: Family, method: str, path: str, instance_id: str, body: Mapping[str, Any]
    ) -> Answer | Refused | Unknown:
        known = values.identifier(instance_id)
        if known is None:
            return Refused(RefusalCode.INVALID, f"not an instance id of this market: {instance_id!r}")
        try:
            return await self._client.change(family, method, path.format(known), body)
        except NoReply as error:
            return Unknown(str(error))

    async def start_words(self, instance_id: str) -> str:
        """What the host says is in the list; what our start text wrote is in the container's log."""
        known = values.identifier(instance_id)
        if known is None:
            return ""
        return await read_start_log(self._client, self._clock, str(known), self._settings.base_url)

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return ()

    async def quotas(self) -> tuple[AccountQuota, ...]:
        return ()

    def drifts(self) -> tuple[Drift, ...]:
        return self._client.drift.drifts()

    def reported_time(self) -> ReportedTime | None:
        return self._client.times.newest

    def remarks(self) -> tuple[Remark, ...]:
        return self._client.remarks.list()

    async def close(self) -> None:
        """Lets a create that is under way finish."""
        if self._creating:
            await asyncio.wait(set(self._creating))
        self._client.close()
