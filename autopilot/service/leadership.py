"""Leading a ledger that several daemons share: waiting for a turn, one identity for all, no call once it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

import structlog

from autopilot.domain.errors import UserError
from autopilot.domain.offer import Offer, OfferQuery
from autopilot.domain.registry import RegistryLogin
from autopilot.ports.provider import (
    Created,
    CreateRequest,
    Done,
    KeptLogin,
    KeptLogins,
    MarketUnknown,
    Provider,
    Refused,
    Unknown,
)
from autopilot.ports.store import LeadershipLost, Store, StoreUnavailable
from autopilot.service.market_keys import Delegate
from autopilot.service.sd_notify import notify
from autopilot.store.leader import HOME_NOTE

log = structlog.get_logger(__name__)

CREATE_TIMEOUT_REAL_S = 120.0
"""A create that the leader before had sent may take effect this late: until then nothing new is rented."""
INSTALL_ID_NOTE = "install_id"


def stand_by(leader: str) -> None:
    """Tell the service manager, again and again, that all is well although nothing is done here."""
    notify("READY=1", "WATCHDOG=1", f"STATUS=standby: {leader} leads")


async def id_from_a_server(store: Store) -> str | None:
    """The id that a ledger in a file says, one that was on a server once: its machines bear it in their labels.

    Raises ``UserError`` for a backup of a server's ledger, as long as that may live on.
    """
    async with store.snapshot() as uow:
        if await uow.notes.get(HOME_NOTE) is not None:
            raise UserError(
                "this ledger is a backup of one on a server, and a daemon here would destroy its machines",
                hint=f"if that ledger is gone for good, delete the row {HOME_NOTE!r} of the table notes here",
            )
        return await uow.notes.get(INSTALL_ID_NOTE)


async def shared_install_id(store: Store, own: str, home: str) -> str:
    """The id that all daemons on one server put into labels: that of the first one, kept in the ledger.

    ``home`` names the database itself. Raises ``UserError`` for a copy of it: a daemon there would take the machines
    of the original for its own and end them.
    """
    async with store.transaction() as uow:
        known_home = await uow.notes.get(HOME_NOTE)
        if known_home not in (None, home):
            raise UserError(
                "this ledger is a copy of another one, and a daemon here would destroy its machines",
                hint=f"if the other one is gone for good, delete the row {HOME_NOTE!r} of the table notes here",
            )
        await uow.notes.set(HOME_NOTE, home)
        known = await uow.notes.get(INSTALL_ID_NOTE)
        if known is None:
            await uow.notes.set(INSTALL_ID_NOTE, own)
        return known or own


class FencedLogins:
    """The registry logins that a market keeps, changed by the leader alone."""

    def __init__(self, inner: KeptLogins, check_lead: Callable[[], Awaitable[None]]) -> None:
        self._inner = inner
        self._check_lead = check_lead

    async def list(self) -> tuple[KeptLogin, ...]:
        return await self._inner.list()

    async def save(self, name: str, login: RegistryLogin) -> Done[KeptLogin] | Refused | Unknown:
        await self._check_lead()
        return await self._inner.save(name, login)

    async def delete(self, login_id: str) -> Done[None] | Refused | Unknown:
        await self._check_lead()
        return await self._inner.delete(login_id)


class FencedProvider(Delegate):
    """A market that only the leader of the ledger uses, checked again before each change.

    While the ledger cannot be read nothing is rented or bid; what is to be ended still is.
    """

    def __init__(self, inner: Provider, store: Store, *, hold_creates_real_s: float) -> None:
        super().__init__(inner)
        self._store = store
        self._creates_from = asyncio.get_running_loop().time() + hold_creates_real_s

    async def offers(self, query: OfferQuery) -> tuple[Offer, ...]:
        if asyncio.get_running_loop().time() < self._creates_from:
            raise MarketUnknown("a machine that the previous daemon requested may still appear")
        return await self._inner.offers(query)

    @property
    def kept_logins(self) -> KeptLogins | None:
        inner = self._inner.kept_logins
        return None if inner is None else FencedLogins(inner, self._check_lead)

    async def create(self, request: CreateRequest) -> Done[Created] | Refused | Unknown:
        await self._check_lead()
        return await self._inner.create(request)

    async def change_bid(self, instance_id: str, bid: Decimal) -> Done[Decimal] | Refused | Unknown:
        await self._check_lead()
        return await self._inner.change_bid(instance_id, bid)

    async def start(self, instance_id: str) -> Done[None] | Refused | Unknown:
        await self._check_lead()
        return await self._inner.start(instance_id)

    async def stop(self, instance_id: str) -> Done[None] | Refused | Unknown:
        await self._check_not_lost()
        return await self._inner.stop(instance_id)

    async def destroy(self, instance_id: str) -> Done[None] | Refused | Unknown:
        await self._check_not_lost()
        return await self._inner.destroy(instance_id)

    async def _check_lead(self) -> None:
        """Raises ``StoreUnavailable``."""
        async with self._store.snapshot():
            pass

    async def _check_not_lost(self) -> None:
        """Raises ``LeadershipLost``."""
        try:
            await self._check_lead()
        except LeadershipLost:
            raise
        except StoreUnavailable as problem:
            log.warning("leadership.unclear", reason=str(problem))
