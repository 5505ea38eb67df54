"""``autopilot sweep --from-elsewhere``: the fuse on a second host, which has the market's key and nothing else of us.

Without the ledger it is unknown which machines a job needs. The label shows whose machine it is, and since when. No
lease lives longer than ``LONGEST_LIFE``, so no job needs a machine older than that. A registry login's name shows
whose it is, not since when: it counts as needed while its installation has a younger machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from autopilot.config.settings import load_settings
from autopilot.domain.errors import UserError
from autopilot.domain.evolve_lease import ABSENCE_GAP
from autopilot.domain.instance import Instance
from autopilot.domain.labels import read_label
from autopilot.domain.params import Params
from autopilot.engine.actions import LONGEST_LIFE
from autopilot.engine.destroy_fallback import apply_destroy_fallback
from autopilot.engine.sweep import MARK_AGE
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown, Provider
from autopilot.service.identity import open_clock
from autopilot.service.left_logins import LeftLogin, delete_logins, list_logins
from autopilot.service.orphans import list_all
from autopilot.service.wiring import connect_markets
from autopilot.telemetry.logging import configure_logging

log = structlog.get_logger(__name__)

OVERDUE = LONGEST_LIFE + timedelta(hours=1)
ROUNDS = 20
"""Destroys are asked for so often, ``ABSENCE_GAP`` apart, before the next call of the command is left to go on."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A machine with a label of ours. ``due``: old enough to be destroyed."""

    instance: Instance
    install_id: str
    age: timedelta
    due: bool


@dataclass(frozen=True, slots=True)
class SeenLogin:
    """A registry login with a name of ours. ``due``: its installation has no machine that is young."""

    login: LeftLogin
    due: bool


@dataclass(slots=True)
class Swept:
    """``gone`` and ``left``: instances that were to be destroyed, by what became of them; and the same of logins."""

    seen: list[Seen] = field(default_factory=list)
    gone: list[Instance] = field(default_factory=list)
    left: list[Instance] = field(default_factory=list)
    logins: list[SeenLogin] = field(default_factory=list)
    logins_gone: list[LeftLogin] = field(default_factory=list)
    logins_left: list[LeftLogin] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)


def run(config: Path | None, install_id: str | None, *, kill: bool, older_than: timedelta) -> Swept:
    """Raises ``UserError``."""
    if kill and install_id is None:
        raise UserError(
            "sweep --kill needs --install-id: only one installation's machines are destroyed",
            hint="without --kill they are listed with their ids; the daemon's own host has it in its install-id file",
        )
    settings = load_settings(config)
    configure_logging(settings.log.format, "error", settings.secret_values())

    async def look() -> Swept:
        clock = open_clock(settings)
        async with AsyncExitStack() as stack:
            providers = list(connect_markets(settings, clock).values())
            for provider in providers:
                stack.push_async_callback(provider.close)
            return await sweep(providers, clock, install_id, kill=kill, older_than=older_than)

    return asyncio.run(look())


async def sweep(
    providers: Sequence[Provider], clock: Clock, install_id: str | None, *, kill: bool, older_than: timedelta
) -> Swept:
    """Look, and with ``kill`` look again ``MARK_AGE`` later and end what is due at both looks."""
    result = await _look(providers, clock, install_id, older_than)
    due = {(each.instance.provider, each.instance.instance_id) for each in result.seen if each.due}
    due_logins = {each.login for each in result.logins if each.due}
    if not kill or not (due or due_logins):
        return result
    await clock.sleep(MARK_AGE.total_seconds())
    again = await _look(providers, clock, install_id, older_than)
    result.unreadable |= again.unreadable
    confirmed = [
        each.instance for each in again.seen if each.due and (each.instance.provider, each.instance.instance_id) in due
    ]
    by_name = {provider.name: provider for provider in providers}
    ended = await asyncio.gather(*(_end(by_name[each.provider], each, clock) for each in confirmed))
    for instance, is_gone in zip(confirmed, ended, strict=True):
        (result.gone if is_gone else result.left).append(instance)
    doomed = [each.login for each in again.logins if each.due and each.login in due_logins]
    result.logins_gone, result.logins_left = await delete_logins(by_name, doomed, clock)
    return result


async def _look(providers: Sequence[Provider], clock: Clock, install_id: str | None, older_than: timedelta) -> Swept:
    """Where a market's machines could not be read, no login is due: a young one may be among them."""
    listed, unreadable = await list_all(providers)
    seen = _list_ours(listed, install_id, older_than, clock.now())
    logins, unreadable_logins = await list_logins(providers)
    young = {each.install_id for each in seen if not each.due}
    ours = [
        SeenLogin(login, due=not unreadable and login.install_id not in young)
        for login in logins
        if install_id in (None, login.install_id)
    ]
    return Swept(seen, logins=ours, unreadable=unreadable | unreadable_logins)


def _list_ours(listed: Sequence[Instance], install_id: str | None, older_than: timedelta, now: datetime) -> list[Seen]:
    seen = []
    for instance in listed:
        parts = read_label(instance.label)
        if parts is not None and install_id in (None, parts.install_id):
            age = now - parts.made_at
            seen.append(Seen(instance, parts.install_id, age, due=age >= older_than))
    return seen


async def _end(provider: Provider, instance: Instance, clock: Clock) -> bool:
    """Gone = absent from two complete lists ``ABSENCE_GAP`` apart and from a single read; asked for until then."""
    absences = 0
    for asked in range(ROUNDS):
        if not absences:
            outcome = await provider.destroy(instance.instance_id)
            log.info("instance.destroy_asked", instance=instance.instance_id, outcome=repr(outcome))
            if asked >= 1:
                await apply_destroy_fallback(provider, instance.instance_id, Params().bids.least)
        await clock.sleep(ABSENCE_GAP.total_seconds())
        try:
            is_absent = all(one.instance_id != instance.instance_id for one in await provider.instances())
            is_absent = is_absent and await provider.instance(instance.instance_id) is None
        except MarketUnknown:
            continue
        absences = absences + 1 if is_absent else 0
        if absences == 2:
            return True
    return False
