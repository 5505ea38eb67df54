"""Tokens of the API."""

from __future__ import annotations

from sqlalchemy import select

from autopilot.domain.token import Token
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import tokens
from autopilot.store.statements import SqlRepository


class SqlTokens(SqlRepository):
    __slots__ = ()

    async def save(self, token: Token) -> None:
        await self._sql.upsert(tokens, [values_of(tokens, token)])

    async def find(self, sha256: str) -> Token | None:
        row = await self._sql.fetch_first(select(tokens).where(tokens.c.sha256 == sha256))
        return None if row is None else record_of(Token, tokens, row)

    async def list_all(self) -> tuple[Token, ...]:
        rows = await self._sql.fetch_all(select(tokens).order_by(tokens.c.number))
        return tuple(record_of(Token, tokens, row) for row in rows)
