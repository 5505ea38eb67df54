"""``ssh``: where the user's key opens the machine that runs the job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from autopilot import render
from autopilot.api.entry import machine_of
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.engine.engine import Engine
from autopilot.ports.store import Store, UnitOfWork

Find = Callable[[UnitOfWork, str], Awaitable[Job]]
"""The job of that reference; raises ``JobNotFound``."""


class SshService:
    def __init__(self, engine: Engine, store: Store, find: Find) -> None:
        self._engine = engine
        self._store = store
        self._find = find

    async def locate(self, reference: str, uid: int) -> render.Json:
        """Address, port and user as the machine reports them, and the lease, under which its host key is kept.

        Raises ``UserError``: not allowed, no machine, no key in the job, or a machine without a login.
        """
        async with self._store.snapshot() as uow:
            job = await self._find(uow, reference)
        lease, instead = machine_of(job, uid), f"autopilot exec {job.spec.name} -- COMMAND needs no SSH"
        if not job.spec.ssh_key:
            hint = f'[ssh] key = "~/.ssh/id_ed25519.pub" in the job file or in client.toml, for the next job; {instead}'
            raise UserError(f"job {job.spec.name} was submitted without an SSH key", hint=hint)
        login = self._engine.login(lease.id)
        if login is None:
            hint = f"try again in half a minute; {instead}"
            raise UserError(f"the machine of job {job.spec.name} has not reported its login yet", hint=hint)
        if login.fault:
            raise UserError(f"no login to the machine of job {job.spec.name}: {login.fault}", hint=instead)
        return {"host": login.host, "port": login.port, "user": login.user, "lease": lease.id}
