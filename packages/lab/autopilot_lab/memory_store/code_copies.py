"""Copies of the users' code, in memory."""

from __future__ import annotations

from datetime import datetime

from autopilot.domain.code import CodeCopy
from autopilot.domain.schedule import ScheduleStatus
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryCodeCopies(MemoryRepository):
    __slots__ = ()

    async def save(self, copy: CodeCopy) -> None:
        with self._access.write() as tables:
            tables.code_copies.put(copy.id, copy)

    async def find(self, owner: int, sha256: str) -> CodeCopy | None:
        known = self._access.read().code_copies.values()
        found = [copy for copy in known if (copy.owner, copy.sha256, copy.withdrawn_at) == (owner, sha256, None)]
        return max(found, key=_age_order, default=None)

    async def list_unused(self) -> tuple[CodeCopy, ...]:
        tables = self._access.read()
        copies = list(tables.code_copies.values())
        used = {job.code.copy_id for job in tables.jobs.values()} if copies else set()
        live = (each for each in tables.schedules.values() if each.status is not ScheduleStatus.ENDED)
        used |= {each.code.copy_id for each in live}
        return tuple(sorted((copy for copy in copies if copy.id not in used), key=_age_order))

    async def remove(self, copy: CodeCopy) -> None:
        with self._access.write() as tables:
            tables.code_copies.remove(copy.id)


def _age_order(copy: CodeCopy) -> tuple[datetime, str]:
    return copy.sent_at, copy.id
