"""Answers to requests that carried a key."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, insert, select

from autopilot.ports.store.records import KeptAnswer
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import kept_answers
from autopilot.store.statements import SqlRepository


class SqlAnswers(SqlRepository):
    __slots__ = ()

    async def add(self, answer: KeptAnswer) -> None:
        await self._sql.run(insert(kept_answers).values(**values_of(kept_answers, answer)))

    async def find(self, owner: int, key: str) -> KeptAnswer | None:
        of_key = (kept_answers.c.owner == owner) & (kept_answers.c.key == key)
        row = await self._sql.fetch_first(select(kept_answers).where(of_key))
        return None if row is None else record_of(KeptAnswer, kept_answers, row)

    async def forget(self, before: datetime) -> int:
        return (await self._sql.run(delete(kept_answers).where(kept_answers.c.at < before))).rowcount
