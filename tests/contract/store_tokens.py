"""What every store keeps of tokens."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from autopilot.domain.token import Scope, Token
from autopilot.ports.store import ConstraintViolated, Store
from tests.store_records import START, forgotten, records


def a_token(number: int = 1, sha256: str = "a" * 64) -> Token:
    return Token(number, f"ci-{number}", sha256, Scope.SUBMIT, False, ("hf",), START, None)


class WhatAStoreKeepsOfTokens:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(token=records(Token))
    async def test_a_token_comes_back_equal(self, store: Store, token: Token) -> None:
        async with forgotten(store) as work:
            await work.tokens.save(token)
            assert await work.tokens.find(token.sha256) == token
            assert await work.tokens.list_all() == (token,)

    async def test_a_hash_belongs_to_one_token(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.tokens.save(a_token(2, "b" * 64))
            await work.tokens.save(a_token())
            await work.tokens.save(a_token())
            assert await work.tokens.list_all() == (a_token(), a_token(2, "b" * 64))
            assert await work.tokens.find("A" * 64) is None
        with pytest.raises(ConstraintViolated):
            await self._save_second(store)

    async def _save_second(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.tokens.save(a_token(3))
