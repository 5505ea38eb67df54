"""What every store keeps of answers to requests that carried a key."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings

from autopilot.ports.store import ConstraintViolated, KeptAnswer, Store
from tests.store_records import START, forgotten, records

HOUR = timedelta(hours=1)


def an_answer(key: str = "k", owner: int = 1000, after: timedelta = timedelta(0)) -> KeptAnswer:
    return KeptAnswer(owner, key, "a" * 64, START + after, 201, '{"job": null}')


class WhatAStoreKeepsOfAnswers:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(answer=records(KeptAnswer))
    async def test_an_answer_comes_back_equal(self, store: Store, answer: KeptAnswer) -> None:
        async with forgotten(store) as work:
            await work.answers.add(answer)
            assert await work.answers.find(answer.owner, answer.key) == answer

    async def test_a_key_is_its_owner_s(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.answers.add(an_answer())
            await work.answers.add(an_answer(owner=1001))
            assert await work.answers.find(1002, "k") is None
            assert await work.answers.find(1000, "K") is None

    async def test_a_key_is_used_once_and_the_rest_of_its_transaction_goes_with_it(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.answers.add(an_answer())
        with pytest.raises(ConstraintViolated):
            await self._add_both(store)
        async with store.snapshot() as work:
            assert await work.answers.find(1000, "k") == an_answer()
            assert await work.answers.find(1000, "other") is None

    async def _add_both(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.answers.add(an_answer("other"))
            await work.answers.add(an_answer(after=HOUR))

    async def test_old_ones_are_forgotten(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.answers.add(an_answer("old"))
            await work.answers.add(an_answer("new", after=HOUR))
            assert await work.answers.forget(START) == 0
            assert await work.answers.forget(START + HOUR) == 1
            assert await work.answers.find(1000, "old") is None
            assert await work.answers.find(1000, "new") is not None
