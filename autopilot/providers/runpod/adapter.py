"""The RunPod market behind the engine's ``Provider`` protocol: GraphQL while it lasts, REST v2 after it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import TypeVar

from autopilot.domain.drift import Drift
from autopilot.domain.host import HostNeeds
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.offer import Capabilities, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark, RemarkKind
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.pacing import urgently
from autopilot.providers.runpod import mapping, wire
from autopilot.providers.runpod.client import RunpodClient
from autopilot.providers.runpod.config import RunpodSettings
from autopilot.providers.runpod.create import PodRequest, difference, pod_request
from autopilot.providers.runpod.graphql import GraphqlMarket
from autopilot.providers.runpod.logins import RunpodLogins
from autopilot.providers.runpod.outcomes import NO_POD, Outcome, Withdrawn
from autopilot.providers.runpod.pacing import Family
from autopilot.providers.runpod.queries import SPOT_OPERATION
from autopilot.providers.runpod.rest import RestMarket
from autopilot.providers.runpod.runtimes import Runtimes
from autopilot.providers.runpod.search import OfferSearch
from autopilot.providers.runpod.spot import SpotProbe
from autopilot.providers.runpod.wishes import Place
from autopilot.providers.strangers import is_ours

T = TypeVar("T")

CREDIT_MAX_AGE_S = 30.0
"""Every list of pods brings the balance along."""


def capabilities(spot: bool, spot_note: str = "", *, is_known: bool = True) -> Capabilities:
    return Capabilities(
        spot=spot,
        spot_is_unknown=not is_known,
        on_demand=True,
        # Of a paused pod: that of a running one cannot be changed.
        can_rebid=spot,
        pauses_when_outbid=True,
        keeps_disk_when_stopped=True,
        reports_floor=spot,
        # Not verified against the market; what a pod costs is read back after every rental.
        bills_at_bid=True,
        is_pooled=True,
        spot_note=spot_note,
    )


class RunpodProvider:
    name = mapping.PROVIDER

    def __init__(self, settings: RunpodSettings, client: RunpodClient, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._graphql = GraphqlMarket(client)
        self._rest = RestMarket(client)
        self.capabilities = capabilities(spot=False, is_known=False)
        """As found last: spot comes and goes with the market's interfaces and its supply."""
        self._spot = SpotProbe(self._graphql, clock, self._spot_changed)
        self._search = OfferSearch(settings, clock, self._gpu_types, self._prices)
        self._alive: set[str] = set()
        """Pods that must be in the next list unless a read of their own says that they are gone."""
        self._runtimes = Runtimes()
        self._bids: dict[str, Decimal] = {}
        self.kept_logins = RunpodLogins(client)
        self.ssh_keys = None
        # No answer names the account, so the key identifies it: another key is another account.
        key = f"{settings.team_id}:{settings.api_key.get_secret_value()}"
        self._account_id = hashlib.sha256(key.encode()).hexdigest()
        self._credit: tuple[float, Decimal] | None = None
        self._creating: set[asyncio.Task[Done[Created] | Refused | Unknown]] = set()

    def _spot_changed(self) -> None:
        self.capabilities = capabilities(self._spot.available, self._spot.reason, is_known=self._spot.is_known)
        # The other interface may answer from now on, with other prices.
        self._search.forget()

    @property
    def spot_reason(self) -> str:
        """Why spot is on or off, in words for people."""
        return self._spot.reason

    async def _either(self, graphql: Callable[[], Awaitable[T]], rest: Callable[[], Awaitable[T]]) -> T:
        if not self._spot.graphql_withdrawn:
            try:
                return await graphql()
            except Withdrawn:
                self._spot.withdraw_graphql()
        return await rest()

    async def instances(self) -> tuple[Instance, ...]:
        await self._spot.refresh()
        expected = frozenset(self._alive)
        swept = await self._either(self._graphql.sweep, self._rest.sweep)
        listed = tuple(self._instance_of(row) for row in swept.pods if row.state != "TERMINATED")
        found = {instance.instance_id for instance in listed}
        await self._confirm_lost(expected - found)
        self._alive = (self._alive - expected) | {each.instance_id for each in listed if is_ours(each.label)}
        self._runtimes.forget_others(swept.pods)
        self._bids = {pod_id: bid for pod_id, bid in self._bids.items() if pod_id in self._alive}
        self._credit = None if swept.credit is None else (self._clock.monotonic(), swept.credit)
        return listed

    async def start_words(self, instance_id: str) -> str:
        """The list gives no reason for a pod that does not come up: its logs do."""
        return "\n".join(await self._rest.start_log(instance_id)) if wire.check_pod_id(instance_id) else ""

    async def _confirm_lost(self, missing: Iterable[str]) -> None:
        """A list may lag behind: what was there a minute ago and is not in it now is asked for by itself."""
        for instance_id in sorted(missing):
            if await self.instance(instance_id) is not None:
                raise MarketUnknown(f"the list is stale: it lacks pod {instance_id}, which exists")

    async def instance(self, instance_id: str) -> Instance | None:
        row = await self._pod(instance_id, may_be_others=True)
        return None if row is None else self._instance_of(row)

    async def _pod(self, instance_id: str, *, may_be_others: bool = False) -> wire.PodRow | None:
        """None also for what is terminated. ``may_be_others``: id and name are enough of it then. Raises
        ``MarketUnknown``."""
        if wire.check_pod_id(instance_id) is None:
            raise MarketUnknown(f"not a pod id of this market: {instance_id!r}")
        row = await self._either(
            lambda: self._graphql.pod(instance_id, may_be_others=may_be_others),
            lambda: self._rest.pod(instance_id, may_be_others=may_be_others),
        )
        return None if row is None or row.state == "TERMINATED" else row

    def _instance_of(self, row: wire.PodRow) -> Instance:
        silence = self._runtimes.silence(row, self._clock.now()) if row.state == "RUNNING" else None
        return mapping.instance(row, silence)

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        await self._spot.refresh()
        return await self._search.offers(query, spot=self._spot.available)

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._search.gpu_names()

    async def _gpu_types(self) -> tuple[wire.GpuRow, ...]:
        return await self._either(self._graphql.gpu_types, self._rest.gpu_types)

    async def _prices(
        self, gpu_type_ids: Iterable[str], num_gpus: int, needs: HostNeeds, place: Place
    ) -> tuple[wire.PriceRow, ...]:
        wanted = frozenset(gpu_type_ids)
        return await self._either(
            lambda: self._graphql.prices(wanted, num_gpus, needs, place),
            lambda: self._rest.prices(wanted, num_gpus, place),
        )

    async def account(self) -> Account:
        await self._spot.refresh()
        if self._credit is not None and self._clock.monotonic() - self._credit[0] < CREDIT_MAX_AGE_S:
            return Account(self._credit[1], self._account_id)
        return Account(await self._either(self._graphql.credit, _no_credit), self._account_id)

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        return mapping.charges(await self._rest.bills(since, until), since, until)

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        """Cancelling this while it waits for its turn sends nothing; after that the request runs to its end."""
        try:
            wanted = pod_request(request, self._settings)
        except ValueError as error:
            return Refused(RefusalCode.INVALID, str(error))
        await self._spot.refresh()
        async with self._client.lane(Family.CREATE):
            sending = asyncio.create_task(self._create(request, wanted))
            self._creating.add(sending)
            sending.add_done_callback(self._creating.discard)
            return await asyncio.shield(sending)

    async def _create(self, request: CreateRequest, wanted: PodRequest) -> Done[Created] | Refused | Unknown:
        rent = self._rent_on_demand if wanted.bid is None else self._rent_spot
        outcome = await rent(wanted)
        if isinstance(outcome, Refused) and outcome.message == NO_POD:
            outcome = await self._look_up(wanted.name, outcome)
        if not isinstance(outcome, Done):
            return outcome
        instance_id = outcome.value.instance_id
        self._alive.add(instance_id)
        if wanted.bid is not None:
            self._bids[instance_id] = wanted.bid
        return await self._read_back(outcome, request, wanted)

    async def _look_up(self, name: str, refused: Refused) -> Done[Created] | Refused | Unknown:
        """Whether the create took after all; else it stays refused."""
        try:
            swept = await self._either(self._graphql.sweep, self._rest.sweep)
        except MarketUnknown as error:
            return Unknown(f"{refused.message}, and the list cannot be read: {error}")
        found = [pod.pod_id for pod in swept.pods if pod.name == name and pod.state != "TERMINATED"]
        return Done(Created(found[0])) if found else refused

    async def _rent_spot(self, wanted: PodRequest) -> Done[Created] | Refused | Unknown:
        if not self._spot.available:
            return Refused(RefusalCode.OFFER_GONE, f"no spot: {self._spot.reason}")
        try:
            outcome = await self._graphql.rent_spot(wanted)
        except Withdrawn as error:
            self._spot.withdraw_graphql()
            return Refused(RefusalCode.OFFER_GONE, str(error))
        if isinstance(outcome, Done):
            self._spot.note_granted()
        elif isinstance(outcome, Refused) and outcome.code is RefusalCode.OFFER_GONE:
            self._spot.note_refused()
        elif isinstance(outcome, Refused) and outcome.code is RefusalCode.INVALID and SPOT_OPERATION in outcome.message:
            self._client.remarks.add(RemarkKind.PROBE_DIFFERS, outcome.message)
            self._spot.withdraw(outcome.message)
            return Refused(RefusalCode.OFFER_GONE, outcome.message)
        return outcome

    async def _rent_on_demand(self, wanted: PodRequest) -> Done[Created] | Refused | Unknown:
        """Here REST comes first: it is what stays. GraphQL is asked only if REST has no such route."""
        try:
            return await self._rest.rent_on_demand(wanted)
        except Withdrawn as error:
            if self._spot.graphql_withdrawn:
                return Refused(RefusalCode.OFFER_GONE, str(error))
        try:
            return await self._graphql.rent_on_demand(wanted)
        except Withdrawn as error:
            self._spot.withdraw_graphql()
            return Refused(RefusalCode.OFFER_GONE, str(error))

    async def _read_back(
        self, created: Done[Created], request: CreateRequest, wanted: PodRequest
    ) -> Done[Created] | Refused:
        """The answer to a create does not say what was rented. What cannot be read now is seen in the next list."""
        instance_id = created.value.instance_id
        try:
            # It is ours by its id, not its name: nothing is concluded from a part of its row.
            rented = await self._pod(instance_id)
        except MarketUnknown:
            return created
        if rented is None:
            return created
        differing = difference(self._instance_of(rented), request, wanted)
        return created if differing is None else Refused(RefusalCode.WRONG_TERMS, differing, instance_id)

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        """Only for a stopped pod, which it starts; the market has no call for a running one."""
        pod = await self._find(instance_id)
        if not isinstance(pod, wire.PodRow):
            return pod
        if not pod.is_spot or pod.num_gpus < 1:
            return Refused(RefusalCode.INVALID, f"pod {instance_id} has no bid")
        if pod.state != "EXITED":
            return Refused(RefusalCode.INVALID, "the bid of a running pod cannot be changed")
        outcome = await self._resume_spot(pod, bid)
        if not isinstance(outcome, Done):
            return outcome
        self._bids[instance_id] = mapping.whole_bid(bid, pod.num_gpus)
        return Done(self._bids[instance_id])

    async def start(self, instance_id: str) -> Outcome:
        pod = await self._find(instance_id)
        if not isinstance(pod, wire.PodRow):
            return pod
        if pod.state in ("CREATED", "RUNNING"):
            return Done(None)
        if pod.is_spot and pod.num_gpus > 0:
            return await self._resume_spot(pod, self._bids.get(instance_id, pod.bid))
        return await self._either(lambda: self._graphql.resume(pod), lambda: self._rest.resume(pod))

    async def _resume_spot(self, pod: wire.PodRow, bid: Decimal) -> Outcome:
        async def impossible() -> Outcome:
            return Refused(RefusalCode.OFFER_GONE, f"no spot: {self._spot.reason}")

        return await self._either(lambda: self._graphql.resume_spot(pod, bid), impossible)

    async def _find(self, instance_id: str) -> wire.PodRow | Refused | Unknown:
        """The pod that is about to be changed; nothing is sent to one that is not there."""
        if wire.check_pod_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a pod id of this market: {instance_id!r}")
        try:
            pod = await self._pod(instance_id)
        except MarketUnknown as error:
            return Unknown(str(error)) if error.code is None else Refused(error.code, str(error))
        return Refused(RefusalCode.NOT_FOUND, f"there is no pod {instance_id}") if pod is None else pod

    async def stop(self, instance_id: str) -> Outcome:
        if wire.check_pod_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a pod id of this market: {instance_id!r}")
        with urgently():
            return await self._change(lambda: self._graphql.stop(instance_id), lambda: self._rest.stop(instance_id))

    async def destroy(self, instance_id: str) -> Outcome:
        if wire.check_pod_id(instance_id) is None:
            return Refused(RefusalCode.INVALID, f"not a pod id of this market: {instance_id!r}")
        with urgently():
            outcome = await self._change(
                lambda: self._graphql.destroy(instance_id), lambda: self._rest.destroy(instance_id)
            )
        if isinstance(outcome, Done):
            self._alive.discard(instance_id)
        return outcome

    async def _change(
        self, graphql: Callable[[], Awaitable[Outcome]], rest: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        try:
            return await self._either(graphql, rest)
        except Withdrawn as error:
            return Unknown(str(error))

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
        await self._client.close()


async def _no_credit() -> Decimal | None:
    """No interface but GraphQL tells the balance."""
    return None
