"""Copies of the users' code."""

from __future__ import annotations

from sqlalchemy import delete, exists, or_, select

from autopilot.domain.code import CodeCopy
from autopilot.domain.schedule import ScheduleStatus
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import code_copies, jobs, schedules
from autopilot.store.statements import SqlRepository


class SqlCodeCopies(SqlRepository):
    __slots__ = ()

    async def save(self, copy: CodeCopy) -> None:
        await self._sql.upsert(code_copies, [values_of(code_copies, copy)])

    async def find(self, owner: int, sha256: str) -> CodeCopy | None:
        of_owner = (code_copies.c.owner == owner) & (code_copies.c.sha256 == sha256)
        chosen = select(code_copies).where(of_owner, code_copies.c.withdrawn_at.is_(None))
        row = await self._sql.fetch_first(chosen.order_by(code_copies.c.sent_at.desc(), code_copies.c.id.desc()))
        return None if row is None else record_of(CodeCopy, code_copies, row)

    async def list_unused(self) -> tuple[CodeCopy, ...]:
        is_run = exists().where(jobs.c.code_copy_id == code_copies.c.id)
        is_live = schedules.c.status != ScheduleStatus.ENDED
        is_due = exists().where(schedules.c.code_copy_id == code_copies.c.id, is_live)
        chosen = select(code_copies).where(~or_(is_run, is_due)).order_by(code_copies.c.sent_at, code_copies.c.id)
        return tuple(record_of(CodeCopy, code_copies, row) for row in await self._sql.fetch_all(chosen))

    async def remove(self, copy: CodeCopy) -> None:
        await self._sql.run(delete(code_copies).where(code_copies.c.id == copy.id))
