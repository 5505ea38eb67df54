"""Registry logins of ours that a market keeps, for the two commands that look without a daemon.

They cost nothing, but each is somebody's password. A name says whose it is, and neither since when nor what for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from autopilot.domain.evolve_lease import ABSENCE_GAP
from autopilot.domain.registry import read_login_name
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, Provider

log = structlog.get_logger(__name__)

ROUNDS = 3
"""Each of them asks to delete what is still listed, ``ABSENCE_GAP`` apart."""


@dataclass(frozen=True, slots=True)
class LeftLogin:
    """``name``: of the form that ours have; ``install_id``: whose it says that it is."""

    provider: str
    login_id: str
    name: str
    install_id: str


async def list_logins(providers: Sequence[Provider]) -> tuple[list[LeftLogin], dict[str, str]]:
    """Those with a name of our form, of any installation; and which markets' could not be read, and why."""
    keeping = [(provider.name, provider.kept_logins) for provider in providers]
    asked = [(name, kept.list()) for name, kept in keeping if kept is not None]
    read = await asyncio.gather(*(listing for _, listing in asked), return_exceptions=True)
    found: list[LeftLogin] = []
    unreadable: dict[str, str] = {}
    for (provider, _), answer in zip(asked, read, strict=True):
        if isinstance(answer, MarketUnknown):
            unreadable[f"{provider} registry logins"] = str(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            named = ((each, read_login_name(each.name)) for each in answer)
            found += [LeftLogin(provider, each.login_id, each.name, owner) for each, owner in named if owner]
    return found, unreadable


async def delete_logins(
    providers: Mapping[str, Provider], doomed: Sequence[LeftLogin], clock: Clock
) -> tuple[list[LeftLogin], list[LeftLogin]]:
    """Those that complete lists no longer show, and those that are left."""
    left = list(doomed)
    for _ in range(ROUNDS if doomed else 0):
        for login in left:
            kept = providers[login.provider].kept_logins
            assert kept is not None, "a login is listed only where the market keeps them"
            outcome = await kept.delete(login.login_id)
            log.info("registry_login.delete_asked", name=login.name, outcome=repr(outcome))
        listed, unreadable = await list_logins([providers[name] for name in {login.provider for login in left}])
        left = [login for login in left if unreadable or login in listed]
        if not left:
            break
        await clock.sleep(ABSENCE_GAP.total_seconds())
    return [login for login in doomed if login not in left], left
