"""What every store keeps of tokens."""

from __future__ import annotations

from dataclasses import replace

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

    async def test_who_made_it_is_kept(self, store: Store) -> None:
        by_user = replace(a_token(), made_by=2**32 - 2, made_under="owners")
        by_token = replace(a_token(2, "b" * 64), made_by=by_user.owner)
        async with store.transaction() as work:
            await work.tokens.save(by_user)
            await work.tokens.save(by_token)
        async with store.snapshot() as work:
            assert await work.tokens.list_all() == (by_user, by_token)
            assert await work.tokens.find("b" * 64) == by_token
        assert a_token().made_by is None

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
