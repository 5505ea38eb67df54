"""The Mithril market behind the engine's ``Provider`` protocol. A bid is our instance, for as long as it is open."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeVar

from autopilot.domain.drift import Drift
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, DeadMan, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark, RemarkKind
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.mithril import mapping, outcomes, shapes, wire
from autopilot.providers.mithril.bills import read_charges
from autopilot.providers.mithril.client import PAGE_ROWS, SHORT_PAGES, MithrilClient
from autopilot.providers.mithril.config import MithrilSettings
from autopilot.providers.mithril.create import (
    IDEMPOTENCY_HEADER,
    BidRequest,
    bid_body,
    bid_request,
    difference,
    limit_text,
)
from autopilot.providers.mithril.outcomes import Outcome
from autopilot.providers.mithril.own_bids import OwnBids
from autopilot.providers.mithril.pacing import Family
from autopilot.providers.mithril.reply import Answer, Fault
from autopilot.providers.mithril.search import OfferSearch
from autopilot.providers.mithril.series import read_series
from autopilot.providers.pacing import urgently
from autopilot.providers.reading import NoReply
from autopilot.providers.strangers import each_once, is_ours

T = TypeVar("T")

BIDS, INSTANCES = "/v2/spot/bids", "/v2/instances"
SSH_KEY_MAX_AGE_S = 600.0
"""Its owner may replace it at any time."""


class MithrilProvider:
    name = mapping.PROVIDER
    capabilities = Capabilities(
        spot=True,
        on_demand=False,
        can_rebid=True,
        pauses_when_outbid=True,
        keeps_disk_when_stopped=True,
        reports_floor=True,
        bills_at_bid=False,
        is_pooled=True,
        bids_set_price=True,
        boots_vm=True,
        notice_s=300,
        notice_may_be_withdrawn=True,
        dead_man=DeadMan.NONE,
        free_start_s=1200,
    )
    kept_logins = None
    ssh_keys = None

    def __init__(self, settings: MithrilSettings, client: MithrilClient, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._own = OwnBids(clock)
        self._search = OfferSearch(settings, client, clock, self._own)
        self._project = settings.project
        self._ssh_key: tuple[str, float] | None = None
        """Key of the project, and when it was looked up."""
        self._alive: set[str] = set()
        """Bids that must be in the next list unless a read of their own says that they are gone."""
        self._strangers: set[str] = set()
        """Bids of others that have machines and are in no list of what is live."""
        self._machines_over: set[str] = set()
        """Machines of our bids that are over for good."""
        self._open_since: dict[str, float] = {}
        """When a bid that has won nothing yet was first seen so, by the market's clock that does not go back."""
        # No answer names the account, so the key identifies it: another key is another account.
        self._account_id = hashlib.sha256(settings.api_key.get_secret_value().encode()).hexdigest()
        self._regions: dict[str, str] = {}
        """By bid, of those that are open."""
        self._creating: set[asyncio.Task[Done[Created] | Refused | Unknown]] = set()

    # -- reading

    async def instances(self) -> tuple[Instance, ...]:
        expected = frozenset(self._alive)
        # Machines first: the bid that one belongs to is older, so that it must be among the bids.
        machines = await self._machines()
        shown = await self._client.live_rows(BIDS, shapes.BIDS, await self._of_project(), wire.LIVE_BIDS)
        rows = each_once((_readable(wire.listed_bid, row) for row in shown.rows), lambda row: row.bid_id, _name)
        bids = [await self._place(row) for row in rows]
        known = {bid.bid_id for bid in bids}
        missing = ({each.bid_id for each in machines if mapping.is_on(each)} | expected) - known - self._strangers
        bids += await self._read_unlisted(missing, is_whole=shown.is_whole)
        self._own.observe(bids)
        machines += await self._read_unlisted_machines(bids, machines)
        listed = [found for bid in bids if (found := await self._instance_of(bid, machines)) is not None]
        shown_ids = {each.instance_id for each in listed}
        await self._confirm_lost((expected & known) - shown_ids)
        alive = {each.instance_id for each in listed if is_ours(each.label)}
        self._alive = (self._alive - expected) | alive
        self._open_since = {bid_id: at for bid_id, at in self._open_since.items() if bid_id in self._alive}
        self._regions = {bid_id: region for bid_id, region in self._regions.items() if bid_id in self._alive}
        return tuple(listed)

    async def _read_unlisted(self, missing: Iterable[str], *, is_whole: bool) -> list[wire.BidRow]:
        """Bids of ours that were there a minute ago, or have a machine that is on, and are not in the list: each by a
        read of its own. The list lags behind where it should show one; where only live ones were asked for, one in
        another state may exist all the same. Raises ``MarketUnknown``."""
        found: list[wire.BidRow] = []
        for bid_id in sorted(missing):
            bid = await self._bid(bid_id)
            if bid is not None and not is_ours(bid.name):
                self._strangers.add(bid_id)
            elif bid is not None and (bid.status in wire.LIVE_BIDS or (is_whole and not mapping.has_ended(bid))):
                raise MarketUnknown(f"the list is stale: it lacks bid {bid_id}, which exists")
            elif bid is not None:
                found.append(bid)
        return found

    async def _confirm_lost(self, missing: Iterable[str]) -> None:
        """A list may lag behind: what was there a minute ago and is over in it now is asked for by itself."""
        for bid_id in sorted(missing):
            found = await self.instance(bid_id)
            if found is not None and is_ours(found.label):
                raise MarketUnknown(f"the list is stale: in it bid {bid_id} is over, which exists")

    async def _place(self, bid: wire.BidRow) -> wire.BidRow:
        """With its region, which a bid need not state."""
        if bid.region:
            self._regions[bid.bid_id] = bid.region
            return bid
        if not bid.type_id:
            return bid
        region = self._regions.get(bid.bid_id) or await self._search.region_of(bid.type_id)
        return replace(bid, region=region)

    async def instance(self, instance_id: str) -> Instance | None:
        bid = await self._bid(instance_id)
        if bid is None:
            return None
        machines = await self._machines() if is_ours(bid.name) else []
        return await self._instance_of(bid, machines + await self._read_unlisted_machines([bid], machines))

    async def _bid(self, bid_id: str) -> wire.BidRow | None:
        """None only where the market says that there is none. Raises ``MarketUnknown``."""
        if wire.check_id(bid_id) is None:
            raise MarketUnknown(f"not a bid id of this market: {bid_id!r}")
        try:
            body = await self._client.get(Family.LIST, f"{BIDS}/{bid_id}", shapes.BID)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        row = _readable(wire.listed_bid, body)
        if row.bid_id != bid_id:
            raise MarketUnknown(f"asked for bid {bid_id}, got {row.bid_id}")
        return await self._place(row)

    async def _machines(self) -> list[wire.InstanceRow]:
        """As far as a few pages show them: ended ones may stay listed forever, and the filters of this list are
        unknown. Raises ``MarketUnknown``."""
        rows, _ = await self._client.first_rows(
            Family.LIST, INSTANCES, shapes.INSTANCES, await self._of_project(), most_pages=SHORT_PAGES
        )
        return [found for row in rows if (found := _readable(wire.instance_row, row)) is not None]

    async def _read_unlisted_machines(
        self, bids: Iterable[wire.BidRow], listed: Iterable[wire.InstanceRow]
    ) -> list[wire.InstanceRow]:
        """Machines that our bids name and the pages lack, each by a read of its own. Raises ``MarketUnknown``."""
        known = {each.instance_id for each in listed} | self._machines_over
        named = [each for bid in bids if is_ours(bid.name) and self._may_go_on(bid) for each in bid.instance_ids]
        found = []
        for instance_id in dict.fromkeys(named):
            machine = await self._machine(instance_id) if instance_id not in known else None
            if machine is not None and mapping.machine_is_over(machine):
                self._machines_over.add(instance_id)
            elif machine is not None:
                found.append(machine)
        return found

    def _may_go_on(self, bid: wire.BidRow) -> bool:
        """Machines of bids that ended long ago are asked for no more: those pile up."""
        return not mapping.has_ended(bid) or bid.bid_id in self._alive

    async def _machine(self, instance_id: str) -> wire.InstanceRow | None:
        """None only where the market says that there is none. Raises ``MarketUnknown``."""
        try:
            body = await self._client.get(Family.LIST, f"{INSTANCES}/{instance_id}/status", shapes.INSTANCE_STATUS)
        except MarketUnknown as error:
            if error.code is RefusalCode.NOT_FOUND:
                return None
            raise
        row = _readable(wire.instance_row, body)
        if row is not None and row.instance_id != instance_id:
            raise MarketUnknown(f"asked for machine {instance_id}, got {row.instance_id}")
        return row

    async def _of_project(self) -> dict[str, str]:
        return {"project": await self._the_project(), "limit": str(PAGE_ROWS)}

    async def _instance_of(self, bid: wire.BidRow, machines: Iterable[wire.InstanceRow]) -> Instance | None:
        machine = mapping.current(bid, machines)
        if mapping.is_over(bid, machine):
            return None
        if machine is not None and not machine.status and is_ours(bid.name):
            raise MarketUnknown(f"instance {machine.instance_id} of {bid.bid_id} has no status")
        kind = await self._search.kind(bid.type_id) if bid.type_id else None
        # The prices of others' machines are not needed, and each pool takes a request.
        prices = await self._search.prices(bid.region, bid.type_id) if is_ours(bid.name) and bid.region else None
        others = self._own.beside(bid)
        return mapping.instance(bid, machine, kind, prices, others, is_waiting=self._is_waiting(bid, machine))

    def _is_waiting(self, bid: wire.BidRow, machine: wire.InstanceRow | None) -> bool:
        """Whether a bid that has won nothing yet may still do so soon: an auction or two have not been held since."""
        if bid.status != "Open" or machine is not None or bid.instance_ids:
            self._open_since.pop(bid.bid_id, None)
            return True
        now = self._clock.monotonic()
        return now - self._open_since.setdefault(bid.bid_id, now) < self._settings.open_patience_s

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        return await self._search.offers(query)

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._search.gpu_names()

    async def account(self) -> Account:
        """There is no balance: a card is charged when the month is over, or a threshold is passed. Raises
        ``MarketUnknown`` where the key, or the project that is set, is not good."""
        projects = await self._ids("/v2/projects", {})
        if self._project and self._project not in projects:
            raise MarketUnknown(f"the key cannot see project {self._project}", RefusalCode.NO_RIGHTS)
        return Account(credit=None, account_id=self._account_id)

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        wish = await self._of_project()
        return await read_charges(self._client, BIDS, wish, since, until, self._clock.now())

    async def _the_project(self) -> str:
        """Raises ``MarketUnknown``."""
        if not self._project:
            found = await self._ids("/v2/projects", {})
            if len(found) != 1:
                raise MarketUnknown(
                    f"the key can see {len(found)} projects: name one in [providers.mithril] project",
                    RefusalCode.NO_RIGHTS,
                )
            self._project = found[0]
        return self._project

    async def _the_ssh_key(self) -> str:
        """Raises ``MarketUnknown``."""
        if self._settings.ssh_key:
            return self._settings.ssh_key
        now = self._clock.monotonic()
        if self._ssh_key is None or now - self._ssh_key[1] >= SSH_KEY_MAX_AGE_S:
            found = await self._ids("/v2/ssh-keys", {"project": await self._the_project()})
            if not found:
                raise MarketUnknown(
                    "the project has no SSH key, and makes no machine without one: add one at app.mithril.ai",
                    RefusalCode.NO_RIGHTS,
                )
            self._ssh_key = found[0], now
        return self._ssh_key[0]

    async def _ids(self, path: str, wish: dict[str, str]) -> list[str]:
        rows = await self._client.rows(Family.ACCOUNT, path, shapes.NAMED, wish)
        return [found for row in rows if (found := wire.bid_id(row)) is not None]

    # -- changing

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """Done means that the bid is made: it may wait for its machine. Cancelling this while it waits for its turn
        sends nothing; after that the request runs to its end."""
        try:
            wanted = bid_request(request)
        except ValueError as error:
            return Refused(RefusalCode.INVALID, str(error))
        if wanted.limit <= 0:
            return Refused(RefusalCode.BID_TOO_LOW, "a limit must be at least one cent")
        wanted = replace(
            wanted, limit=mapping.limit_for(wanted.limit, await self._search.ceiling(wanted.region, wanted.type_id))
        )
        try:
            body = bid_body(wanted, await self._the_project(), await self._the_ssh_key())
        except MarketUnknown as error:
            # Nothing was sent that could have made anything.
            return Refused(error.code or RefusalCode.RATE_LIMITED, str(error))
        async with self._client.lane(Family.CREATE):
            sending = asyncio.create_task(self._create(wanted, body))
            self._creating.add(sending)
            sending.add_done_callback(self._creating.discard)
            return await asyncio.shield(sending)

    async def _create(self, wanted: BidRequest, body: dict[str, Any]) -> Done[Created] | Refused | Unknown:
        headers = {IDEMPOTENCY_HEADER: wanted.name}
        try:
            answer = await self._client.send(Family.CREATE, "POST", BIDS, shapes.BID, body=body, headers=headers)
        except NoReply as error:
            return Unknown(str(error))
        fault = answer.fault
        if fault is Fault.INVALID and _is_about_ssh_key(answer) and (renewed := await self._renew(body)) is not None:
            return await self._create(wanted, renewed)
        if fault is Fault.NAME_TAKEN:
            return await self._look_up(wanted, answer)
        if fault is not None:
            self._note_words(answer, fault)
            return outcomes.judge_refusal(answer, fault)
        return self._judge_made(answer.body, wanted)

    async def _renew(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The same bid with the key that the project has now: one that is replaced in a console has another id. None:
        it is the key that is set, or there is no other."""
        if self._settings.ssh_key:
            return None
        self._ssh_key = None
        used = body["launch_specification"]["ssh_keys"]
        try:
            found = [await self._the_ssh_key()]
        except MarketUnknown:
            return None
        launch = body["launch_specification"] | {"ssh_keys": found}
        return None if found == used else body | {"launch_specification": launch}

    async def _look_up(self, wanted: BidRequest, answer: Answer) -> Done[Created] | Refused | Unknown:
        """The name is unique to one create: a bid that has it is what an earlier attempt made."""
        try:
            wish = {**await self._of_project(), "name": wanted.name}
            rows = await self._client.rows(Family.LIST, BIDS, shapes.BIDS, wish)
            bids = [_readable(wire.listed_bid, row) for row in rows]
        except MarketUnknown as error:
            return Unknown(f"{answer.summary}, and the list cannot be read: {error}")
        alive = [bid for bid in bids if bid.name == wanted.name and not mapping.is_over(bid, None)]
        if len(alive) != 1:
            return Unknown(f"{answer.summary}, and {len(alive)} open bids have it")
        return self._judge(alive[0], wanted)

    def _judge_made(self, body: object, wanted: BidRequest) -> Done[Created] | Refused | Unknown:
        try:
            made = wire.bid_row(body)
        except wire.UnreadableRow as error:
            return Unknown(f"the bid was made, and {error}", wire.bid_id(body))
        return self._judge(made, wanted)

    def _judge(self, made: wire.BidRow, wanted: BidRequest) -> Done[Created] | Refused:
        self._alive.add(made.bid_id)
        self._regions[made.bid_id] = wanted.region
        self._own.note(made if made.region else replace(made, region=wanted.region))
        differing = difference(made, wanted)
        if differing is not None:
            return Refused(RefusalCode.WRONG_TERMS, differing, made.bid_id)
        return Done(Created(made.bid_id))

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        """Live: a machine that runs goes on running. The answer shows the limit that holds from now on."""
        pool = self._own.pool_of(instance_id)
        limit = mapping.limit_for(bid, None if pool is None else await self._search.ceiling(*pool))
        if limit <= 0:
            return Refused(RefusalCode.BID_TOO_LOW, "a limit must be at least one cent")
        answer = await self._patch(instance_id, {"limit_price": limit_text(limit)})
        if not isinstance(answer, Answer):
            return answer
        try:
            changed = await self._place(wire.bid_row(answer.body))
        except wire.UnreadableRow as error:
            return Unknown(f"the limit was changed, and {error}")
        self._own.note(changed)
        holds = changed.limit
        if holds != limit:
            return Unknown(f"asked for a limit of ${limit}/h, and ${holds}/h holds")
        return Done(limit)

    async def start(self, instance_id: str) -> Outcome:
        return await self._pause(instance_id, is_paused=False)

    async def stop(self, instance_id: str) -> Outcome:
        with urgently():
            return await self._pause(instance_id, is_paused=True)

    async def _pause(self, instance_id: str, *, is_paused: bool) -> Outcome:
        """A pause that is not verified would bill on: the answer must show it."""
        answer = await self._patch(instance_id, {"paused": is_paused})
        if not isinstance(answer, Answer):
            return answer
        try:
            bid = await self._place(wire.bid_row(answer.body))
        except wire.UnreadableRow as error:
            return Unknown(f"the bid was changed, and {error}")
        self._own.note(bid)
        if (bid.status == "Paused") != is_paused:
            return Unknown(f"asked for a bid that is {'' if is_paused else 'not '}paused, and it is {bid.status}")
        return Done(None)

    async def _patch(self, instance_id: str, body: dict[str, Any]) -> Answer | Refused | Unknown:
        if wire.check_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a bid id of this market: {instance_id!r}")
        try:
            answer = await self._client.change("PATCH", f"{BIDS}/{instance_id}", shapes.BID, body)
        except NoReply as error:
            return Unknown(str(error))
        fault = answer.fault
        if fault is None:
            return answer
        self._note_words(answer, fault)
        return outcomes.judge_refusal(answer, fault)

    async def destroy(self, instance_id: str) -> Outcome:
        """Ends the bid, too: one that is left open rents again by itself."""
        if wire.check_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a bid id of this market: {instance_id!r}")
        try:
            with urgently():
                answer = await self._client.change("DELETE", f"{BIDS}/{instance_id}", shapes.ENDED)
        except NoReply as error:
            return Unknown(str(error))
        outcome = outcomes.judge_destroy(answer)
        if isinstance(outcome, Done):
            self._alive.discard(instance_id)
        return outcome

    def _note_words(self, answer: Answer, fault: Fault) -> None:
        """A plain "no" that has no code of its own."""
        if fault is Fault.INVALID:
            self._client.remarks.add(RemarkKind.UNKNOWN_WORDS, answer.summary)

    async def start_words(self, instance_id: str) -> str:
        """A machine reports by itself what its boot lacks."""
        return ""

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return await read_series(self._search, self._client, query, since, until)

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
        await self._client.close()


def _name(bid: wire.BidRow) -> str:
    return bid.name


def _is_about_ssh_key(answer: Answer) -> bool:
    return "ssh" in answer.message.casefold()


def _readable(read: Callable[[object], T], raw: object) -> T:
    """Raises ``MarketUnknown``."""
    try:
        return read(raw)
    except wire.UnreadableRow as error:
        raise MarketUnknown(str(error)) from error
