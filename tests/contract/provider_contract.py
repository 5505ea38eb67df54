"""What every provider must do, on any market: derive a test class and give it a ``harness`` fixture.

    class TestMine(ProviderContract):
        @pytest.fixture
        async def harness(self) -> AsyncIterator[Harness]: ...

A test for which a market has no occasion (no bids, no wire) is skipped by what its capabilities and harness say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import TypeVar

import pytest

from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.labels import is_ours, label_for
from autopilot.domain.money import ZERO, to_nano
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.prices import FINE_SPAN
from autopilot.domain.time import utc_day
from autopilot.engine.past_prices import PastPrices
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot_lab.memory_store.store import MemoryStore
from tests.contract.harness import STRANGERS, Harness, QuickClock

T = TypeVar("T")

INSTALL_ID = "contract"
LABEL = label_for(INSTALL_ID, "01LEASE")
OTHER_LABEL = label_for(INSTALL_ID, "01OTHER")
LOOKS = 60
LOOK_EVERY_S = 15.0
LONG_ENOUGH_S = 3600.0


class ProviderContract:
    @pytest.fixture
    def clock(self) -> QuickClock:
        return QuickClock()

    # -- reading

    async def test_offers_are_for_the_whole_machine_in_exact_money(self, harness: Harness) -> None:
        offers = await harness.provider.offers(harness.query)
        assert len(offers) >= 2
        assert len({offer.key for offer in offers}) == len(offers)
        for offer in offers:
            assert offer.provider == harness.provider.name
            assert (offer.gpu, offer.num_gpus) in harness.query.gpus
            assert offer.disk_gb >= harness.query.disk_gb
            assert offer.floor is not None or offer.on_demand_price is not None
            for price in (offer.floor, offer.on_demand_price):
                assert price is None or (to_nano(price) > 0 and isinstance(price, Decimal))
            for price in (offer.storage_price, offer.upload_price, offer.download_price):
                assert to_nano(price) >= 0
        rents = harness.provider.capabilities
        assert rents.spot or all(offer.floor is None for offer in offers)
        assert rents.on_demand or all(offer.on_demand_price is None for offer in offers)

    async def test_what_the_market_has_on_record_fills_the_time_before_the_first_look(
        self, harness: Harness, clock: QuickClock
    ) -> None:
        await harness.advance(LONG_ENOUGH_S)
        now = clock.now()
        seen = await harness.provider.past_prices(harness.query, now - FINE_SPAN, now)
        needs(bool(seen), "it keeps no record of its prices")
        offered = {(each.machine_id, each.num_gpus) for each in await harness.provider.offers(harness.query)}
        assert offered <= {(each.machine_id, each.num_gpus) for each in seen}
        assert len({(each.machine_id, each.observed_at) for each in seen}) == len(seen)
        for each in seen:
            assert (each.provider, each.samples) == (harness.provider.name, 3)
            assert (each.gpu, each.num_gpus) in harness.query.gpus
            assert now - FINE_SPAN <= each.observed_at < now
            assert each.floor is not None
            assert each.floor > 0
        store, last = MemoryStore(), seen[-1]
        ours = replace(last, floor=Decimal("0.001"), samples=1)
        async with store.transaction() as uow:
            await uow.prices.add([ours])
        counts = []
        for _ in range(2):  # The second daemon finds nothing to add.
            past = PastPrices(store)
            past.fill([harness.provider], [harness.query], now)
            await past.close()
            async with store.snapshot() as uow:
                known = await uow.prices.list_by_gpu(last.gpu, now - FINE_SPAN, now)
            assert ours in known, "what we saw ourselves is kept"
            counts.append(len(known))
        assert counts == [len([each for each in seen if each.gpu == last.gpu])] * 2

    async def test_the_account_has_an_exact_credit_or_none_to_tell(self, harness: Harness) -> None:
        credit = (await harness.provider.account()).credit
        assert credit is None or (isinstance(credit, Decimal) and to_nano(credit) > 0)

    async def test_the_list_is_complete(self, harness: Harness) -> None:
        assert await listed(harness) == ()
        rented = {await rent(harness, LABEL), await rent(harness, OTHER_LABEL)}
        shown = await eventually(harness, lambda: listing(harness, rented))
        assert {instance.label for instance in shown} == {LABEL, OTHER_LABEL}
        assert {instance.provider for instance in shown} == {harness.provider.name}

    async def test_a_garbled_list_is_no_list(self, harness: Harness) -> None:
        needs(harness.has_wire, "nothing can be garbled")
        instance_id = await rent(harness)
        await eventually(harness, lambda: listing(harness, {instance_id}))
        async with harness.garbled_lists():
            with pytest.raises(MarketUnknown):
                await harness.provider.instances()
        await eventually(harness, lambda: listing(harness, {instance_id}))

    async def test_an_instance_that_never_was_reads_as_none(self, harness: Harness) -> None:
        instance_id = await rent(harness)
        unknown = instance_id[:-1] + ("1" if instance_id[-1] != "1" else "2")
        assert await harness.provider.instance(unknown) is None
        for change in (harness.provider.stop(unknown), harness.provider.start(unknown)):
            outcome = await change
            assert isinstance(outcome, Refused), outcome
            assert outcome.code is RefusalCode.NOT_FOUND

    # -- renting

    async def test_what_was_rented_is_listed_under_its_label_as_asked(self, harness: Harness) -> None:
        offer = await harness.make_offer_available()
        asked = request(harness, offer)
        outcome = await harness.provider.create(asked)
        assert isinstance(outcome, Done), outcome
        (instance,) = await eventually(harness, lambda: listing(harness, {outcome.value.instance_id}))
        assert instance.label == asked.label
        assert instance.capacity_type is asked.capacity_type
        # A market may list under its full name ("NVIDIA GeForce …") what it offers under a shorter one.
        assert offer.gpu in instance.gpu
        assert instance.num_gpus == offer.num_gpus
        assert instance.bid == asked.bid
        assert abs(instance.storage_rate - offer.storage_rate(harness.query.disk_gb)) <= Decimal("0.000001")
        assert instance.intended_running
        running = await seen(harness, instance.instance_id, InstanceStatus.RUNNING)
        assert running.machine_id == offer.machine_id

    async def test_a_create_whose_answer_is_lost_is_found_by_its_label_once(self, harness: Harness) -> None:
        needs(harness.has_wire, "no answer can be lost")
        asked = request(harness, await harness.make_offer_available())
        async with harness.lost_create_answers():
            outcome = await harness.provider.create(asked)
        assert isinstance(outcome, Unknown), outcome

        async def found() -> list[Instance] | None:
            return [i for i in await harness.provider.instances() if i.label == LABEL] or None

        assert len(await eventually(harness, found)) == 1
        await harness.advance(LONG_ENOUGH_S / 10)
        assert len(await eventually(harness, found)) == 1

    async def test_a_refused_create_leaves_nothing_or_names_what_it_left(self, harness: Harness) -> None:
        offer = await harness.make_offer_available()
        outcome = await harness.provider.create(request(harness, offer, rate=Decimal("0.002")))
        assert isinstance(outcome, Refused), outcome
        await harness.advance(LOOK_EVERY_S)
        left = {instance.instance_id for instance in await listed(harness)}
        assert left == ({outcome.instance_id} if outcome.instance_id else set())

    async def test_an_offer_that_is_gone_is_refused(self, harness: Harness) -> None:
        offer = await harness.make_offer_available()
        taken = await harness.provider.create(request(harness, offer, label=OTHER_LABEL))
        assert isinstance(taken, Done), taken
        outcome = await harness.provider.create(request(harness, offer))
        if isinstance(outcome, Done):
            pytest.skip("the offer is for more than one machine")
        assert isinstance(outcome, Refused), outcome
        assert outcome.instance_id is None

    async def test_others_instances_are_listed_and_not_taken_for_ours(self, harness: Harness) -> None:
        foreign_label = "somebody's own"
        rented = {await rent(harness), await rent(harness, foreign_label)}
        shown = await eventually(harness, lambda: listing(harness, rented))
        assert {i.label for i in shown if is_ours(i.label, INSTALL_ID)} == {LABEL}
        assert {i.label for i in shown if not is_ours(i.label, INSTALL_ID)} == {foreign_label}

    # -- bidding

    async def test_an_outbid_instance_pauses_and_keeps_its_disk(self, harness: Harness) -> None:
        needs_spot(harness)
        instance_id = await running(harness)
        await harness.outbid(instance_id)
        if not harness.provider.capabilities.pauses_when_outbid:
            await eventually(harness, lambda: absent(harness, instance_id))
            return
        paused = await seen(harness, instance_id, InstanceStatus.STOPPED)
        assert paused.label == LABEL
        is_free = all(offer.storage_price == 0 for offer in await harness.provider.offers(harness.query))
        assert paused.storage_rate > 0 or is_free or not harness.provider.capabilities.keeps_disk_when_stopped

    async def test_a_raised_bid_brings_it_back(self, harness: Harness) -> None:
        needs_spot(harness)
        instance_id = await running(harness)
        able = harness.provider.capabilities
        needs(able.can_rebid and able.pauses_when_outbid, "a bid is for good")
        bid = await harness.outbid(instance_id)
        await seen(harness, instance_id, InstanceStatus.STOPPED)
        assert await harness.provider.change_bid(instance_id, bid) == Done(bid)
        if not able.resumes_by_itself:
            assert await harness.provider.start(instance_id) == Done(None)
        assert (await seen(harness, instance_id, InstanceStatus.RUNNING)).bid == bid

    async def test_a_bid_that_cannot_be_changed_says_so(self, harness: Harness) -> None:
        needs_spot(harness)
        instance_id = await running(harness)
        needs(not harness.provider.capabilities.can_rebid, "bids can be changed")
        before = await harness.provider.instance(instance_id)
        assert before is not None
        assert isinstance(await harness.provider.change_bid(instance_id, before.bid * 2), Refused)
        after = await harness.provider.instance(instance_id)
        assert after is not None
        assert after.bid == before.bid

    async def test_stop_and_start(self, harness: Harness) -> None:
        instance_id = await running(harness)
        assert await harness.provider.stop(instance_id) == Done(None)
        stopped = await seen(harness, instance_id, InstanceStatus.STOPPED)
        assert not stopped.intended_running
        assert await harness.provider.start(instance_id) == Done(None)
        await seen(harness, instance_id, InstanceStatus.RUNNING)

    # -- giving back

    async def test_a_destroyed_instance_is_gone_from_the_list_and_by_itself(self, harness: Harness) -> None:
        instance_id, kept = await rent(harness), await rent(harness, OTHER_LABEL)
        assert await harness.provider.destroy(instance_id) == Done(None)
        await eventually(harness, lambda: absent(harness, instance_id))
        assert [instance.instance_id for instance in await listed(harness)] == [kept]
        assert isinstance(await harness.provider.instance(kept), Instance)

    async def test_a_second_destroy_is_fine(self, harness: Harness) -> None:
        instance_id = await rent(harness)
        assert await harness.provider.destroy(instance_id) == Done(None)
        again = await harness.provider.destroy(instance_id)
        assert again == Done(None) or (isinstance(again, Refused) and again.code is RefusalCode.NOT_FOUND), again

    # -- money

    async def test_a_market_without_bills_says_so(self, harness: Harness, clock: QuickClock) -> None:
        needs(not harness.provider.capabilities.has_bills, "it bills")
        today = utc_day(clock.now())
        with pytest.raises(MarketUnknown):
            await harness.provider.charges(today, today)

    async def test_the_charges_add_up_to_the_books(self, harness: Harness, clock: QuickClock) -> None:
        needs(harness.provider.capabilities.has_bills, "it has no bills")
        since = utc_day(clock.now())
        instance_id = await running(harness)
        await harness.advance(LONG_ENOUGH_S)
        assert await harness.provider.destroy(instance_id) == Done(None)
        await eventually(harness, lambda: absent(harness, instance_id))
        await harness.advance(LONG_ENOUGH_S)
        until = utc_day(clock.now()) + timedelta(days=1)
        charges = [c for c in await harness.provider.charges(since, until) if c.instance_id == instance_id]
        assert all(since <= charge.day <= until and to_nano(charge.amount) >= 0 for charge in charges)
        total = sum((charge.amount for charge in charges), ZERO)
        assert total > 0
        assert total == await harness.billed(instance_id)
        long_ago = since - timedelta(days=9)
        assert await harness.provider.charges(long_ago, long_ago + timedelta(days=1)) == ()

    # -- coming back

    async def test_another_connection_finds_what_was_rented(self, harness: Harness) -> None:
        instance_id = await rent(harness)
        await harness.provider.close()
        harness.provider = harness.connect()
        (instance,) = await eventually(harness, lambda: listing(harness, {instance_id}))
        assert instance.label == LABEL
        assert await harness.provider.destroy(instance_id) == Done(None)
        # Each connection keeps to the market's limits, and knows nothing of what another has asked just now.
        await harness.advance(LOOK_EVERY_S)
        await eventually(harness, lambda: absent(harness, instance_id))


def request(harness: Harness, offer: Offer, label: str = LABEL, rate: Decimal | None = None) -> CreateRequest:
    price = offer.floor if harness.capacity_type is CapacityType.SPOT else offer.on_demand_price
    assert price is not None, "the harness found an offer that cannot be rented as it says"
    if harness.capacity_type is CapacityType.SPOT:
        price = price.quantize(Decimal("0.001"), ROUND_CEILING) + Decimal("0.010")
    return CreateRequest(
        label=label,
        offer_id=offer.offer_id,
        machine_id=offer.machine_id,
        capacity_type=harness.capacity_type,
        bid=rate or price,
        image=harness.image,
        disk_gb=harness.query.disk_gb,
        env={"GREETING": "it's $HOME"},
        onstart=harness.onstart,
    )


async def rent(harness: Harness, label: str = LABEL) -> str:
    outcome = await harness.provider.create(request(harness, await harness.make_offer_available(), label))
    assert isinstance(outcome, Done), outcome
    assert isinstance(outcome.value, Created)
    return outcome.value.instance_id


async def running(harness: Harness) -> str:
    instance_id = await rent(harness)
    await seen(harness, instance_id, InstanceStatus.RUNNING)
    return instance_id


async def seen(harness: Harness, instance_id: str, status: InstanceStatus) -> Instance:
    """The instance once the market lists it so."""

    async def look() -> Instance | None:
        shown = await harness.provider.instances()
        return next((i for i in shown if i.instance_id == instance_id and i.status is status), None)

    return await eventually(harness, look)


async def listed(harness: Harness) -> tuple[Instance, ...]:
    """All that the list shows, but for the strangers that stand in the emulated lists in any case."""
    return tuple(each for each in await harness.provider.instances() if not each.label.startswith(STRANGERS))


async def listing(harness: Harness, expected: set[str]) -> tuple[Instance, ...] | None:
    """The list once it holds exactly these."""
    shown = await listed(harness)
    assert len({instance.instance_id for instance in shown}) == len(shown)
    return shown if {instance.instance_id for instance in shown} == expected else None


async def absent(harness: Harness, instance_id: str) -> bool | None:
    shown = await harness.provider.instances()
    gone = all(instance.instance_id != instance_id for instance in shown)
    return True if gone and await harness.provider.instance(instance_id) is None else None


async def eventually(harness: Harness, look: Callable[[], Awaitable[T | None]]) -> T:
    for _ in range(LOOKS):
        found = await look()
        if found is not None:
            return found
        await harness.advance(LOOK_EVERY_S)
    raise AssertionError(f"not seen within {LOOKS * LOOK_EVERY_S:.0f} s of market time")


def needs(it: bool, otherwise: str) -> None:
    if not it:
        pytest.skip(otherwise)


def needs_spot(harness: Harness) -> None:
    needs(harness.capacity_type is CapacityType.SPOT, "not rented by a bid")
