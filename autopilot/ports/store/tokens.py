"""Tokens of the API."""

from __future__ import annotations

from typing import Protocol

from autopilot.domain.token import Token


class Tokens(Protocol):
    """None is ever removed: its number names the owner of jobs."""

    async def save(self, token: Token) -> None:
        """Insert or update. Raises ``ConstraintViolated`` if another has that hash."""
        ...

    async def find(self, sha256: str) -> Token | None: ...

    async def list_all(self) -> tuple[Token, ...]:
        """By number."""
        ...
