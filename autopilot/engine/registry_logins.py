"""Logins for private images: read when a machine is rented, and, where a market keeps them, made, known and deleted.

What a market keeps is made under a name that is in the ledger before (an intent), and that names this installation, so
that one of unknown outcome, or of a ledger that was lost, is found again. Never in a row, an event or a log: the login.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from autopilot.certify.job import NO_LOGIN
from autopilot.domain import events as e
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job, JobSpec
from autopilot.domain.labels import is_ours
from autopilot.domain.lease import Lease
from autopilot.domain.registry import RegistryLogin, server_of
from autopilot.ports.provider import Done, KeptLogins, MarketUnknown, Provider, Refused, Unknown
from autopilot.ports.store import Store, UnitOfWork

log = structlog.get_logger(__name__)

LOOK_EVERY = timedelta(hours=6)
"""So often the logins that a market keeps are searched for ours that no job uses."""
NOTE = "registry_logins."
NO_PASSWORD = "not-a-password"  # noqa: S105 - of a login that must be refused


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """``password``: of the secret with that name, for that server; raises ``UserError``. ``key``: the install's own."""

    password: Callable[[str, str], str]
    key: bytes


@dataclass(frozen=True, slots=True)
class PullWith:
    """What goes into a create: the login itself, or the id under which the market keeps it."""

    login: RegistryLogin | None = None
    login_id: str | None = None


def login_refused(spec: JobSpec, lease: Lease, message: str, now: datetime) -> e.ImageLoginRefused:
    secret = "" if spec.registry is None else spec.registry.secret
    return e.ImageLoginRefused(lease.id, server_of(spec.image), secret, message, now)


class Logins:
    def __init__(
        self, providers: Mapping[str, Provider], store: Store, install_id: str, access: RegistryAccess
    ) -> None:
        self._providers = providers
        self._store = store
        self._install_id = install_id
        self._access = access
        self._changing = asyncio.Lock()
        self._looked: tuple[datetime, frozenset[str]] | None = None

    async def prepare(self, provider: str, spec: JobSpec) -> Done[PullWith] | Refused | Unknown:
        """Raises ``UserError`` when the password is not there, or is kept for another server."""
        if spec.registry is None:
            return Done(PullWith())
        login = self.read(spec)
        kept = self._providers[provider].kept_logins
        if kept is None:
            return Done(PullWith(login=login))
        async with self._changing:
            return await self._keep(provider, kept, login)

    def hide(self, spec: JobSpec, message: str) -> str:
        """What a market or a host said, without the password: it knows it, and may say it."""
        if spec.registry is None:
            return message
        try:
            return message.replace(self.read(spec).password, "[password]")
        except UserError:
            return message

    def read(self, spec: JobSpec) -> RegistryLogin:
        """The login of a job that has one. Raises ``UserError`` if the password is missing, or stored for another
        server.
        """
        assert spec.registry is not None, "asked for only where there is one"
        registry = spec.registry
        if registry == NO_LOGIN:
            return RegistryLogin(registry.server, registry.user, NO_PASSWORD)
        return RegistryLogin(registry.server, registry.user, self._access.password(registry.secret, registry.server))

    async def _keep(self, provider: str, kept: KeptLogins, login: RegistryLogin) -> Done[PullWith] | Refused | Unknown:
        name = login.name(self._install_id, self._access.key)
        known = await self._read_note(provider)
        if (login_id := known.get(name)) is not None:
            return Done(PullWith(login_id=login_id))
        if name not in known:
            await self._note(provider, {**known, name: None})
        elif (login_id := await _find(kept, name)) is not None:
            # Its outcome was not known when it was made.
            await self._note(provider, {**known, name: login_id})
            return Done(PullWith(login_id=login_id))
        outcome = await kept.save(name, login)
        if not isinstance(outcome, Done):
            login_id = await _find(kept, name)
            if login_id is None:
                return outcome
        else:
            login_id = outcome.value.login_id
        await self._note(provider, {**known, name: login_id})
        log.info("registry_login.made", provider=provider, server=login.server, name=name)
        return Done(PullWith(login_id=login_id))

    async def tidy(self, jobs: Iterable[Job], now: datetime) -> None:
        """Delete ours that no open job uses, those that the ledger does not know as well; others' are never touched."""
        try:
            specs = [replace(job.spec, registry=NO_LOGIN) if job.certifies else job.spec for job in _open(jobs)]
            needed = frozenset(self._name(spec) for spec in specs if spec.registry is not None)
        except UserError as problem:
            log.warning("registry_logins.kept", reason=problem.message)
            return
        if self._looked is not None and self._looked[1] == needed and now - self._looked[0] < LOOK_EVERY:
            return
        async with self._changing:
            keeping = [(name, each.kept_logins) for name, each in self._providers.items()]
            done = [await self._tidy_at(name, kept, needed) for name, kept in keeping if kept is not None]
        if all(done):
            self._looked = now, needed

    def doubt(self) -> None:
        """A create that named one was refused: it may be there no more. They are looked at with the next tick."""
        self._looked = None

    async def _tidy_at(self, provider: str, kept: KeptLogins, needed: Collection[str]) -> bool:
        """Whether all is known and as it should be."""
        try:
            found = await kept.list()
        except MarketUnknown as problem:
            log.warning("registry_logins.unknown", provider=provider, reason=str(problem))
            return False
        ours = {each.name: each.login_id for each in found if is_ours(each.name, self._install_id)}
        for name in sorted(ours.keys() - needed):
            outcome = await kept.delete(ours[name])
            if isinstance(outcome, Done):
                del ours[name]
                log.info("registry_login.deleted", provider=provider, name=name)
            else:
                log.warning("registry_login.not_deleted", provider=provider, name=name, reason=outcome.message)
        if ours != await self._read_note(provider):
            await self._note(provider, ours)
        return not ours.keys() - needed

    def _name(self, spec: JobSpec) -> str:
        return self.read(spec).name(self._install_id, self._access.key)

    async def _read_note(self, provider: str) -> Mapping[str, str | None]:
        async with self._store.snapshot() as uow:
            return await noted_logins(uow, provider)

    async def _note(self, provider: str, known: Mapping[str, str | None]) -> None:
        async with self._store.transaction() as uow:
            await uow.notes.set(NOTE + provider, json.dumps(dict(known), sort_keys=True))


def _open(jobs: Iterable[Job]) -> Iterable[Job]:
    return (job for job in jobs if not job.status.is_final)


async def noted_logins(uow: UnitOfWork, provider: str) -> Mapping[str, str | None]:
    """What the ledger knows that the market keeps: name → id; None while it is not known whether it was made."""
    note = await uow.notes.get(NOTE + provider)
    known: dict[str, str | None] = json.loads(note) if note else {}
    return known


async def _find(kept: KeptLogins, name: str) -> str | None:
    try:
        return next((each.login_id for each in await kept.list() if each.name == name), None)
    except MarketUnknown:
        return None
