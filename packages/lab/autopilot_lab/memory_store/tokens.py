"""Tokens of the API, in memory."""

from __future__ import annotations

from autopilot.domain.token import Token
from autopilot.ports.store.failures import ConstraintViolated
from autopilot_lab.memory_store.access import MemoryRepository


class MemoryTokens(MemoryRepository):
    __slots__ = ()

    async def save(self, token: Token) -> None:
        with self._access.write() as tables:
            if any(each.sha256 == token.sha256 and each.number != token.number for each in tables.tokens.values()):
                raise ConstraintViolated("another token has that hash")
            tables.tokens.put(token.number, token)

    async def find(self, sha256: str) -> Token | None:
        known = self._access.read().tokens.values()
        return next((token for token in known if token.sha256 == sha256), None)

    async def list_all(self) -> tuple[Token, ...]:
        return tuple(sorted(self._access.read().tokens.values(), key=lambda token: token.number))
