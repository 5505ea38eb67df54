"""A key that its owner revokes at the market: it is said, and the next one is read by the daemon that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import Done, MarketUnknown, Provider, RefusalCode
from autopilot.service.market_keys import KeyedProvider
from tests.contract.harness import QuickClock
from tests.contract.provider_contract import LOOK_EVERY_S, rent
from tests.contract.vastai_harness import KEY, VastaiHarness, vastai_harness


class Account:
    """Two accounts of vast.ai, and the file of a key."""

    def __init__(self, mine: VastaiHarness, others: VastaiHarness) -> None:
        self.mine = mine
        self.others = others
        self.file = KEY
        self.provider = KeyedProvider(self.read, self.connect)

    def read(self) -> str:
        if not self.file:
            raise UserError("the file is empty")
        return self.file

    def connect(self, key: str) -> Provider:
        return self.others.connect() if key == "others" else self.mine.connect_with(key)


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    async with AsyncExitStack() as stack:
        mine, others = [
            await stack.enter_async_context(vastai_harness(tmp_path / name, QuickClock(), CapacityType.SPOT))
            for name in ("mine", "others")
        ]
        made = Account(mine, others)
        stack.push_async_callback(made.provider.close)
        yield made


async def refused(account: Account) -> str:
    # A new connection knows nothing of what another has asked just now.
    for market in (account.mine, account.others):
        await market.advance(LOOK_EVERY_S)
    with pytest.raises(MarketUnknown) as raised:
        await account.provider.instances()
    assert raised.value.code is RefusalCode.NO_RIGHTS
    return str(raised.value)


async def test_the_key_in_the_file_is_taken_once_the_market_refuses_the_one_in_use(account: Account) -> None:
    instance_id = await rent(account.mine)
    assert [each.instance_id for each in await account.provider.instances()] == [instance_id]
    await account.mine.control("keys", keys=["second"])
    await refused(account)
    account.file = ""
    assert "the file is empty" in await refused(account)
    account.file = "wrong"
    await refused(account)
    account.file = "second"
    await account.mine.advance(LOOK_EVERY_S)
    assert [each.instance_id for each in await account.provider.instances()] == [instance_id]
    assert await account.provider.destroy(instance_id) == Done(None)


async def test_a_key_of_another_account_does_not_make_our_machines_gone(account: Account) -> None:
    instance_id = await rent(account.mine)
    await account.provider.instances()
    await account.mine.control("keys", keys=["second"])
    account.file = "others"
    for _ in range(2):
        assert "none of the 1 machines" in await refused(account)
    account.file = "second"
    await account.mine.advance(LOOK_EVERY_S)
    assert [each.instance_id for each in await account.provider.instances()] == [instance_id]
