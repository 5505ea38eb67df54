"""Whether a job is a second one of the same: submitted twice by mistake, it would rent twice."""

from __future__ import annotations

import hashlib
import json
import tomllib
from decimal import Decimal

from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.ports.store import UnitOfWork


class SameJobOpen(UserError):
    """An open job of the same owner says the same."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            f"job {job.spec.name} ({job.id}) says the same and is not over: {job.status}",
            hint="--again submits another one like it",
        )
        self.job_id = job.id


def hash_file(toml: str, code_sha256: str) -> str:
    """Of what the job file says, in whatever order and spelling, and of the code that comes with it.

    ``toml`` has been read before: it is whole.
    """
    said = tomllib.loads(toml, parse_float=Decimal)
    text = json.dumps([said, code_sha256], sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


async def refuse_same(uow: UnitOfWork, job: Job) -> None:
    """Raises ``SameJobOpen``."""
    for other in await uow.jobs.list_open():
        if (other.owner, other.file_sha256) == (job.owner, job.file_sha256):
            raise SameJobOpen(other)
