"""Answers to requests that carried a key, so that a second one with it acts no second time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from autopilot.ports.store.records import KeptAnswer


class Answers(Protocol):
    async def add(self, answer: KeptAnswer) -> None:
        """Raises ``ConstraintViolated`` if the owner has used that key."""
        ...

    async def find(self, owner: int, key: str) -> KeptAnswer | None: ...

    async def forget(self, before: datetime) -> int:
        """Remove those from before then; returns how many."""
        ...
