"""Whether a job is one too many: a second one of the same, submitted by mistake, or more than a token may have."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from decimal import Decimal

from autopilot.api.access import NotAllowed
from autopilot.domain.delegation import Delegation
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.token import MOST_OPEN_JOBS, is_of_token
from autopilot.ports.store import UnitOfWork


class SameJobOpen(UserError):
    """An open job of the same owner says the same."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            f"job {job.spec.name} ({job.id}) says the same and is not over: {job.status}",
            hint="--again submits another one like it",
        )
        self.job_id = job.id


def hash_file(toml: str, code_sha256: str, table: str | None = None) -> str:
    """Of the job file's content, regardless of order and spelling, and of the code and the table that come with it.

    ``toml`` has been parsed before: it is valid.
    """
    said = tomllib.loads(toml, parse_float=Decimal)
    beside = [code_sha256] if table is None else [code_sha256, table]
    text = json.dumps([said, *beside], sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


async def refuse_crowd(uow: UnitOfWork, job: Job) -> None:
    """Raises ``NotAllowed`` for a token that has as many jobs as it may have at once.

    What it made counts with it, and with its makers: a token that makes others gets no more room.
    """
    if is_of_token(job.owner):
        owners = [other.owner for other in await uow.jobs.list_open()]
        count = Delegation(await uow.tokens.list_all()).most_open(job.owner, owners)
        if count >= MOST_OPEN_JOBS:
            hint = "cancel some: parked and waiting jobs count"
            raise NotAllowed(
                f"this token and those related to it have {count} open jobs, which is the limit", hint=hint
            )


def refuse_doubles(submitted: Sequence[tuple[Job, str]]) -> None:
    """Of one submit, each with the name of its file. Raises ``UserError``."""
    seen: dict[str, str] = {}
    for job, source in submitted:
        if job.file_sha256 in seen:
            hint = "--again submits both"
            raise UserError(f"{source} says the same as {seen[job.file_sha256]}", hint=hint)
        seen[job.file_sha256] = source


async def refuse_same(uow: UnitOfWork, job: Job) -> None:
    """Raises ``SameJobOpen``."""
    for other in await uow.jobs.list_open():
        if (other.owner, other.file_sha256) == (job.owner, job.file_sha256):
            raise SameJobOpen(other)
