"""Answers to requests that carried a key, in memory."""

from __future__ import annotations

from datetime import datetime

from autopilot.ports.store.failures import ConstraintViolated
from autopilot.ports.store.records import KeptAnswer
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryAnswers(MemoryRepository):
    __slots__ = ()

    async def add(self, answer: KeptAnswer) -> None:
        with self._access.write() as tables:
            if tables.kept_answers.get((answer.owner, answer.key)) is not None:
                raise ConstraintViolated("an answer of that owner and key is kept already")
            tables.kept_answers.put((answer.owner, answer.key), answer)

    async def find(self, owner: int, key: str) -> KeptAnswer | None:
        return self._access.read().kept_answers.get((owner, key))

    async def forget(self, before: datetime) -> int:
        with self._access.write() as tables:
            old = [answer for answer in tables.kept_answers.values() if answer.at < before]
            for answer in old:
                tables.kept_answers.remove((answer.owner, answer.key))
            return len(old)
