"""``autopilot orphans``: every machine on the accounts that no job of ours wants, with its price, and every registry
login of ours that no job uses. Changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.domain.instance import Instance
from autopilot.domain.labels import is_ours, read_label
from autopilot.domain.lease import Lease
from autopilot.domain.money import ZERO
from autopilot.engine.registry_logins import noted_logins
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, Provider
from autopilot.ports.store import StoreUnavailable, UnitOfWork
from autopilot.service.identity import known_install_id, open_clock
from autopilot.service.leadership import INSTALL_ID_NOTE
from autopilot.service.left_logins import LeftLogin, list_logins
from autopilot.service.wiring import connect_markets
from autopilot.store.care import ledger_as_it_is
from autopilot.telemetry.logging import configure_logging


class Kind(StrEnum):
    UNWANTED = "unwanted"
    """Ours, and the ledger wants nothing of it but its end."""
    UNKNOWN = "unknown"
    """It carries our label, of which the ledger knows nothing."""
    FOREIGN = "foreign"
    """Not ours: another installation's, or somebody's own."""


@dataclass(frozen=True, slots=True)
class Counted:
    kind: Kind
    instance: Instance
    why: str


@dataclass(frozen=True, slots=True)
class CountedLogin:
    """One of ours."""

    kind: Kind
    login: LeftLogin
    why: str


@dataclass(slots=True)
class Census:
    """``unreadable``: markets of which nothing can be said, with the reason."""

    install_id: str | None
    findings: list[Counted] = field(default_factory=list)
    logins: list[CountedLogin] = field(default_factory=list)
    wanted: int = 0
    unreadable: dict[str, str] = field(default_factory=dict)

    def bills(self, kind: Kind) -> Decimal:
        """$/h of all of that kind."""
        return sum((each.instance.bills for each in self.findings if each.kind is kind), ZERO)

    @property
    def ours(self) -> bool:
        """Something of ours is there without being wanted, or may be."""
        return bool(self.logins) or any(each.kind is not Kind.FOREIGN for each in self.findings)


def run(config: Path | None) -> Census:
    """Raises ``UserError``."""
    settings = load_settings(config)
    configure_logging(settings.log.format, "error", settings.secret_values())
    try:
        return asyncio.run(census(settings, open_clock(settings)))
    except StoreUnavailable as problem:
        raise UserError(str(problem), hint="run autopilot db check for details") from None


async def census(settings: Settings, clock: Clock) -> Census:
    """Reads the markets first, then the ledger. An intent is committed before its machine or login is requested, so
    each machine or login of ours that a market listed is then in the ledger.

    Raises ``UserError``, ``StoreUnavailable``.
    """
    listed, logins, unreadable = await _read_markets(settings, clock)
    async with ledger_as_it_is(settings.ledger_url) as uow:
        own_id = await uow.notes.get(INSTALL_ID_NOTE) or known_install_id(settings.state_dir)
        ours = [i for i in listed if own_id is not None and is_ours(i.label, own_id)]
        leases = await uow.leases.list_by_label({instance.label for instance in ours})
        counted = [found for login in logins if login.install_id == own_id and (found := await _judge(uow, login))]
    result = Census(own_id, logins=counted, unreadable=unreadable)
    for instance in listed:
        if instance not in ours:
            result.findings.append(Counted(Kind.FOREIGN, instance, _whose(instance.label)))
            continue
        named = [lease for lease in leases if lease.label == instance.label]
        if any(lease.is_wanted and lease.instance_id in (None, instance.instance_id) for lease in named):
            result.wanted += 1
        elif named:
            result.findings.append(Counted(Kind.UNWANTED, instance, _fate(instance, named)))
        else:
            result.findings.append(Counted(Kind.UNKNOWN, instance, "the ledger does not know its label"))
    return result


async def _judge(uow: UnitOfWork, login: LeftLogin) -> CountedLogin | None:
    """None for one that the ledger knows while a job that lives pulls a private image: it may be that job's."""
    if login.name not in await noted_logins(uow, login.provider):
        return CountedLogin(Kind.UNKNOWN, login, "the ledger does not know its name")
    jobs = await uow.jobs.list_open()
    if any(job.spec.registry is not None and not job.status.is_final for job in jobs):
        return None
    return CountedLogin(Kind.UNWANTED, login, "no job pulls a private image")


async def _read_markets(settings: Settings, clock: Clock) -> tuple[list[Instance], list[LeftLogin], dict[str, str]]:
    """What all markets list, and why some could not be read. Raises ``UserError``."""
    async with AsyncExitStack() as stack:
        providers = list(connect_markets(settings, clock).values())
        for provider in providers:
            stack.push_async_callback(provider.close)
        listed, unreadable = await list_all(providers)
        logins, unreadable_logins = await list_logins(providers)
        return listed, logins, unreadable | unreadable_logins


async def list_all(providers: Sequence[Provider]) -> tuple[list[Instance], dict[str, str]]:
    read = await asyncio.gather(*(provider.instances() for provider in providers), return_exceptions=True)
    listed: list[Instance] = []
    unreadable: dict[str, str] = {}
    for provider, answer in zip(providers, read, strict=True):
        if isinstance(answer, MarketUnknown):
            unreadable[provider.name] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            listed += answer
    return listed, unreadable


def _fate(instance: Instance, named: Sequence[Lease]) -> str:
    holder = next((lease for lease in named if lease.instance_id == instance.instance_id), None)
    if holder is None:
        return "a second machine under one label"
    if holder.is_over:
        return f"its lease is over: {holder.state}"
    return f"to be destroyed, asked {holder.ending.attempts} times"


def _whose(label: str) -> str:
    parts = read_label(label)
    return f"installation {parts.install_id}" if parts else "no label of ours"
