"""Daemons that share a ledger, with different ``[owners]``: what one of them does not name the other may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autopilot.answers.models.account import TokenBody
from autopilot.api.access import ApiCaller, Unauthorised, recognise
from autopilot.api.bearer import hash_token
from autopilot.api.tokens import TokenService
from autopilot.clock import ManualClock
from autopilot.domain.delegation import NO_LIMITED_USERS, Settled
from autopilot.domain.token import Scope, Token
from autopilot_lab.memory_store.store import MemoryStore
from tests.store_records import START

ALICE = Token(-4711, "alice", "", Scope.ADMIN, False, (), START, None)
WITH_ALICE = Settled((ALICE,))


class Pair:
    def __init__(self) -> None:
        self.store, self.clock = MemoryStore(), ManualClock(START)

    async def lead(self, daemon: str, settled: Settled) -> TokenService:
        service = TokenService(self.store, self.clock, lambda: None, None, settled)
        await service.open(daemon)
        return service

    async def is_in_force(self, secret: str, settled: Settled) -> bool:
        try:
            await recognise(self.store, hash_token(secret), self.clock.now(), settled)
        except Unauthorised:
            return False
        return True


@pytest.fixture
def pair() -> Pair:
    return Pair()


async def made(pair: Pair, daemon: str = "one") -> str:
    service = await pair.lead(daemon, WITH_ALICE)
    answer = await service.create(TokenBody(name="t", scope=Scope.READ), ApiCaller(4711, ALICE))
    return str(answer["secret"])


async def test_a_takeover_by_a_daemon_that_never_named_a_maker_ends_nothing_for_good(pair: Pair) -> None:
    secret = await made(pair)
    await pair.lead("two", NO_LIMITED_USERS)
    assert not await pair.is_in_force(secret, NO_LIMITED_USERS), "no user here bounds it"
    await pair.lead("one", WITH_ALICE)
    assert await pair.is_in_force(secret, WITH_ALICE)


async def test_a_user_removed_from_a_daemon_s_own_settings_ends_for_good(pair: Pair) -> None:
    secret = await made(pair)
    await pair.lead("two", NO_LIMITED_USERS)
    await pair.lead("one", NO_LIMITED_USERS)
    await pair.lead("one", WITH_ALICE)
    assert not await pair.is_in_force(secret, WITH_ALICE)


async def test_a_ledger_of_one_daemon_ends_them_at_the_next_start(pair: Pair) -> None:
    secret = await made(pair, "")
    await pair.lead("", NO_LIMITED_USERS)
    await pair.lead("", WITH_ALICE)
    assert not await pair.is_in_force(secret, WITH_ALICE)


async def test_another_daemon_s_narrower_bounds_hold_while_it_leads(pair: Pair) -> None:
    service = await pair.lead("one", WITH_ALICE)
    answer = await service.create(TokenBody(name="t", scope=Scope.ADMIN, sees_all=False), ApiCaller(4711, ALICE))
    narrow = Settled((replace(ALICE, scope=Scope.READ),))
    await pair.lead("two", narrow)
    caller = await recognise(pair.store, hash_token(answer["secret"]), pair.clock.now(), narrow)
    assert caller.scope is Scope.READ
