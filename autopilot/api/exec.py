"""``exec``: a command of the user's beside the job, on the machine that runs it. Its output is kept nowhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from autopilot import render
from autopilot.api.entry import machine_of
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.engine.engine import Engine
from autopilot.engine.event_log import exec_called
from autopilot.engine.execs import NoAnswer
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.store import EventRecord, Store, UnitOfWork

LONGEST_S = 600
MOST_COMMAND_BYTES = 64_000

Find = Callable[[UnitOfWork, str], Awaitable[Job]]
"""The job of that reference; raises ``JobNotFound``."""


class ExecService:
    def __init__(self, engine: Engine, store: Store, clock: Clock, ids: Ids, find: Find) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._ids = ids
        self._find = find

    async def call(self, reference: str, command: str, timeout_s: int, uid: int) -> render.Json:
        """What the command said and how it ended; ``timeout_s`` are real seconds.

        Raises ``UserError``: not allowed, no machine for it, an agent that cannot; ``ExecBusy``, ``NoAnswer``,
        ``BlobUnavailable``.
        """
        _check_command(command, timeout_s)
        async with self._store.snapshot() as uow:
            job = await self._find(uow, reference)
        lease = self._machine_of(job, uid)
        at = self._clock.now()
        try:
            answer = await self._engine.execs.call(job.id, lease.id, self._ids.new(), command, timeout_s)
        except NoAnswer:
            await self._note(exec_called(lease, uid, None, "unanswered", at))
            raise
        await self._note(exec_called(lease, uid, answer.exit_code, answer.ended, at))
        return {
            "exit_code": answer.exit_code,
            "output": answer.output.decode(errors="replace"),
            "is_cut": answer.is_cut,
            "ended": answer.ended,
        }

    async def _note(self, record: EventRecord) -> None:
        async with self._store.transaction() as uow:
            await uow.events.add([record])

    def _machine_of(self, job: Job, uid: int) -> Lease:
        """Raises ``UserError``."""
        lease = machine_of(job, uid)
        if not job.spec.may_exec:
            raise UserError(
                f"the job file of {job.spec.name} says exec = false", hint="a running job cannot change that"
            )
        if not self._engine.can_exec(lease.id):
            hint = "machines that are rented from now on can"
            raise UserError(f"the agent on the machine of job {job.spec.name} is too old to run commands", hint=hint)
        return lease


def _check_command(command: str, timeout_s: int) -> None:
    if not command.strip() or "\0" in command:
        raise UserError("exec needs a command", hint="autopilot exec JOB -- nvidia-smi")
    if len(command.encode(errors="replace")) > MOST_COMMAND_BYTES:
        raise UserError(f"the command has more than {MOST_COMMAND_BYTES:,} bytes")
    if not 1 <= timeout_s <= LONGEST_S:
        raise UserError(f"timeout_s must be from 1 to {LONGEST_S}", hint="put longer commands into the job")
