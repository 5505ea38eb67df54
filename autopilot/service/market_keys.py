"""A market's key that is revoked, and its successor: read from its file once the market refuses the one in use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal

import structlog

from autopilot.domain.drift import Drift
from autopilot.domain.errors import UserError
from autopilot.domain.instance import Account, AccountQuota, Charge, Instance
from autopilot.domain.labels import LABEL_PREFIX
from autopilot.domain.offer import Capabilities, Offer, OfferQuery
from autopilot.domain.prices import PriceObservation
from autopilot.domain.remark import Remark
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.provider import (
    Created,
    CreateRequest,
    Done,
    KeptLogins,
    MarketUnknown,
    Provider,
    RefusalCode,
    Refused,
    SshKeys,
    Unknown,
)

log = structlog.get_logger(__name__)


class Delegate:
    """A market that passes every call to another one. A subclass overrides what it changes."""

    def __init__(self, inner: Provider) -> None:
        self.name = inner.name
        self._inner = inner

    @property
    def capabilities(self) -> Capabilities:
        """Queried each time: spot comes and goes."""
        return self._inner.capabilities

    @property
    def kept_logins(self) -> KeptLogins | None:
        return self._inner.kept_logins

    @property
    def ssh_keys(self) -> SshKeys | None:
        return self._inner.ssh_keys

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        return await self._inner.offers(query)

    async def gpu_names(self) -> tuple[str, ...]:
        return await self._inner.gpu_names()

    async def instances(self) -> tuple[Instance, ...]:
        return await self._inner.instances()

    async def instance(self, instance_id: str) -> Instance | None:
        return await self._inner.instance(instance_id)

    async def account(self) -> Account:
        return await self._inner.account()

    async def charges(self, since: date, until: date) -> tuple[Charge, ...]:
        return await self._inner.charges(since, until)

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        return await self._inner.create(request)

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        return await self._inner.change_bid(instance_id, bid)

    async def start(self, instance_id: str) -> Done[None] | Refused | Unknown:
        return await self._inner.start(instance_id)

    async def stop(self, instance_id: str) -> Done[None] | Refused | Unknown:
        return await self._inner.stop(instance_id)

    async def destroy(self, instance_id: str) -> Done[None] | Refused | Unknown:
        return await self._inner.destroy(instance_id)

    async def start_words(self, instance_id: str) -> str:
        return await self._inner.start_words(instance_id)

    async def past_prices(self, query: OfferQuery, since: datetime, until: datetime) -> tuple[PriceObservation, ...]:
        return await self._inner.past_prices(query, since, until)

    async def quotas(self) -> tuple[AccountQuota, ...]:
        return await self._inner.quotas()

    def drifts(self) -> tuple[Drift, ...]:
        return self._inner.drifts()

    def reported_time(self) -> ReportedTime | None:
        return self._inner.reported_time()

    def remarks(self) -> tuple[Remark, ...]:
        return self._inner.remarks()

    async def close(self) -> None:
        await self._inner.close()


class KeyedProvider(Delegate):
    """A market that is reopened with the key in its file, once it refuses the one that it was opened with.

    A new key may be of another account, whose lists show none of our machines: they would count as gone while they
    bill on. So it is taken for good only where its first list shows one that the last list of the old key showed.
    """

    def __init__(self, read_key: Callable[[], str], connect: Callable[[str], Provider]) -> None:
        """``read_key`` raises ``UserError``."""
        self._read_key = read_key
        self._connect = connect
        self._key = read_key()
        self._ours: frozenset[str] = frozenset()
        """Ids of machines with an autopilot's label in the newest list."""
        self._former: list[Provider] = []
        """What calls may still be on their way through; closed at the end."""
        super().__init__(connect(self._key))

    async def instances(self) -> tuple[Instance, ...]:
        try:
            listed = await self._inner.instances()
        except MarketUnknown as problem:
            if problem.code is not RefusalCode.NO_RIGHTS:
                raise
            listed = await self._list_with_new_key(problem)
        self._ours = frozenset(each.instance_id for each in listed if each.label.startswith(LABEL_PREFIX))
        return listed

    async def _list_with_new_key(self, refusal: MarketUnknown) -> tuple[Instance, ...]:
        """Raises ``MarketUnknown``: ``refusal`` where the file holds no other key."""
        try:
            key = self._read_key()
            if key == self._key:
                raise refusal
            renewed = self._connect(key)
        except UserError as problem:
            raise MarketUnknown(f"{refusal}; no new key: {problem.message}", refusal.code) from problem
        try:
            listed = await renewed.instances()
            if self._ours and not self._ours & {each.instance_id for each in listed}:
                raise MarketUnknown(
                    f"the new key shows none of the {len(self._ours)} machines that the old one did: it may belong to"
                    " another account. If they are gone, restart the daemon",
                    RefusalCode.NO_RIGHTS,
                )
        except BaseException:
            await renewed.close()
            raise
        self._former.append(self._inner)
        self._inner, self._key = renewed, key
        log.info("market.key_replaced", provider=self.name)
        return listed

    async def close(self) -> None:
        for each in (*self._former, self._inner):
            await each.close()
