"""A card behind vast.ai's account: its answer is read through the SDK, and what could be lost is said each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config.settings import ProviderSettings, Settings
from autopilot.domain.instance import Account, TopUp
from autopilot.ids import UlidIds
from autopilot.notices.outbox import Announcer, AnnouncingStore, Subscription
from autopilot.planning.card import judge_card
from autopilot.planning.market_notes import market_notes
from autopilot.ports.store import Store
from autopilot.service.doctor import Check, check_card
from tests.integration.engine.engine_world import World, a_world


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path) as made:
        made.market.set_credit(Decimal("41.27"))
        yield made


async def card(world: World, tops_up: bool | None = None) -> Check:
    settings = Settings(providers={"vastai": ProviderSettings(tops_up=tops_up)})
    return await check_card("vastai", world.engine.watches["vastai"].provider, settings)


@pytest.mark.parametrize("tops_up", [None, False, True])
async def test_an_account_that_tops_itself_up_is_no_last_fuse_under_any_settings(
    world: World, tops_up: bool | None
) -> None:
    world.market.tops_up = True
    check = await card(world, tops_up)
    assert check.ok is None
    assert "below $5.00; what that field means is not verified" in check.detail
    assert "its credit of $41.27 is no last safeguard" in check.detail
    assert "autopilot rents for $50.00 a day and $500.00 a month at most, by [limits]" in check.detail
    assert "can spend what the card pays" in check.detail
    assert "billing page" in check.hint


async def test_an_account_that_does_not_is_one_once_the_operator_has_looked(world: World) -> None:
    unsure, sure, other = await card(world), await card(world, False), await card(world, True)
    assert (unsure.ok, sure.ok, other.ok) == (None, True, None)
    assert "not verified" in unsure.detail
    assert "set tops_up = false (or true) in [providers.vastai]" in unsure.hint
    assert "can spend the credit of $41.27 at most" in sure.detail
    assert "no last safeguard" in other.detail


def test_a_market_that_tells_no_credit_has_no_fuse_but_ours() -> None:
    ok, told = judge_card(Account(None), False, Decimal(5), None)
    assert ok is None
    assert "autopilot rents for $5.00 a day at most" in told
    assert "[limits] sets no limit" in judge_card(Account(None), None, None, None)[1]
    unread = judge_card(Account(Decimal(3), top_up=TopUp()), None, None, None)
    assert unread[0] is None
    assert "does not tell" in unread[1]


async def test_the_daemon_tells_it_in_a_notice_and_in_each_plan(world: World) -> None:
    def wrap(store: Store) -> Store:
        return AnnouncingStore(store, Announcer({"ops": Subscription()}, UlidIds(world.clock), str), lambda: None)

    world.wrap = wrap
    world.market.tops_up = True
    await world.restart()
    await world.tick(2)
    await world.restart()
    await world.tick(2)
    async with world.store.snapshot() as uow:
        (notice,) = await uow.notices.list_due("ops", world.clock.now(), limit=10)
    assert notice.title == "A card may top up the account at vastai"
    assert "It holds $41.27 now" in notice.text
    assert "not verified" in notice.text
    (told,) = [note for note in market_notes(world.engine) if "card" in note]
    assert "its credit is no last safeguard" in told
