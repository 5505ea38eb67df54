"""The Mithril adapter against the emulator over HTTP: what only this market does, and what goes wrong there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.domain.drift import DriftKind
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.offer import CapacityType
from autopilot.domain.remark import RemarkKind
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.mithril import plugin
from autopilot_lab.sandbox.mithril.bids import BidStatus
from tests.contract.harness import QuickClock
from tests.contract.mithril_harness import KEY, MithrilHarness, mithril_harness
from tests.contract.provider_contract import (
    LABEL,
    OTHER_LABEL,
    eventually,
    listed,
    listing,
    rent,
    request,
    running,
    seen,
)
from tests.patience import PATIENCE_S

D = Decimal


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


@pytest.fixture
async def harness(tmp_path: Path, clock: QuickClock) -> AsyncIterator[MithrilHarness]:
    async with mithril_harness(tmp_path, clock) as made:
        yield made


async def a_request(harness: MithrilHarness, **changes: Any) -> CreateRequest:
    return replace(request(harness, await harness.make_offer_available()), **changes)


async def only(harness: MithrilHarness) -> Instance:
    (instance,) = await listed(harness)
    return instance


async def truth(harness: MithrilHarness, bid_id: str) -> dict[str, Any]:
    return next(bid for bid in (await harness.control("bids"))["bids"] if bid["id"] == bid_id)


async def requests(harness: MithrilHarness) -> int:
    counted: dict[str, int] = await harness.control("requests")
    return sum(counted.values())


async def refused(outcome: Any, code: RefusalCode) -> Refused:
    assert isinstance(outcome, Refused), outcome
    assert outcome.code is code
    return outcome


# -- creating


async def test_a_new_bid_is_done_and_waits_free_of_charge(harness: MithrilHarness) -> None:
    assert isinstance(await harness.provider.create(await a_request(harness)), Done)
    waiting = await only(harness)
    assert waiting.status is InstanceStatus.PROVISIONING
    assert waiting.bills == 0
    assert waiting.message == "the bid waits to win"


async def test_a_bid_that_wins_nothing_counts_as_outbid_after_its_patience(harness: MithrilHarness) -> None:
    asked = await a_request(harness)
    region, kind = asked.machine_id.split("/")
    await harness.control("rival", region=region, instance_type=kind, limit="50.00")
    outcome = await harness.provider.create(asked)
    assert isinstance(outcome, Done)
    waiting = await seen(harness, outcome.value.instance_id, InstanceStatus.STOPPED)
    assert waiting.intended_running
    assert waiting.bills == 0
    assert waiting.price_to_win == D("50.01")
    # Raised above that, it wins in the next auction: there was no other bid.
    assert await harness.provider.change_bid(waiting.instance_id, D("50.01")) == Done(D("50.01"))
    await seen(harness, waiting.instance_id, InstanceStatus.RUNNING)


async def test_a_name_that_is_taken_is_what_an_earlier_attempt_made(harness: MithrilHarness) -> None:
    asked = await a_request(harness)
    first = await harness.provider.create(asked)
    async with harness.fault("create", "name_conflict"):
        again = await harness.provider.create(asked)
    assert isinstance(first, Done)
    assert again == first
    assert len(await listed(harness)) == 1


async def test_a_name_that_is_taken_and_found_nowhere_is_unknown(harness: MithrilHarness) -> None:
    async with harness.fault("create", "name_conflict"):
        assert isinstance(await harness.provider.create(await a_request(harness)), Unknown)


async def test_the_key_of_a_create_is_its_label(harness: MithrilHarness) -> None:
    """So that a create that a gateway sends twice makes one bid."""
    asked = await a_request(harness)
    first, again = await harness.provider.create(asked), await harness.provider.create(asked)
    assert isinstance(first, Done)
    assert again == first


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("http_401", RefusalCode.NO_RIGHTS),
        ("http_402", RefusalCode.OUT_OF_CREDIT),
        ("http_403", RefusalCode.NO_RIGHTS),
        ("http_429", RefusalCode.RATE_LIMITED),
        ("over_quota", RefusalCode.OFFER_GONE),
        ("no_billing", RefusalCode.OUT_OF_CREDIT),
    ],
)
async def test_a_known_no_makes_nothing(harness: MithrilHarness, kind: str, code: RefusalCode) -> None:
    asked = await a_request(harness)
    async with harness.fault("create", kind):
        await refused(await harness.provider.create(asked), code)
    assert await listed(harness) == ()


@pytest.mark.parametrize("kind", ["http_404_html", "http_409", "http_500", "http_502", "http_503", "http_504", "reset"])
async def test_after_any_other_refusal_the_outcome_is_unknown(harness: MithrilHarness, kind: str) -> None:
    asked = await a_request(harness)
    async with harness.fault("create", kind):
        assert isinstance(await harness.provider.create(asked), Unknown)


@pytest.mark.parametrize("kind", ["effect_then_500", "html", "empty", "bad_json"])
async def test_an_answer_that_cannot_be_read_is_unknown_and_its_bid_is_found(
    harness: MithrilHarness, kind: str
) -> None:
    asked = await a_request(harness)
    async with harness.fault("create", kind):
        assert isinstance(await harness.provider.create(asked), Unknown)
    assert (await only(harness)).label == asked.label


async def test_what_the_market_would_turn_down_is_not_sent(harness: MithrilHarness) -> None:
    for changes in (
        {"capacity_type": CapacityType.ON_DEMAND},
        {"label": "x" * 65},
        {"onstart": "x" * 10_001},
        {"offer_id": "somewhere"},
    ):
        await refused(await harness.provider.create(await a_request(harness, **changes)), RefusalCode.INVALID)
    await refused(await harness.provider.create(await a_request(harness, bid=D("0.009"))), RefusalCode.BID_TOO_LOW)
    assert (await harness.control("requests")).get("create", 0) == 0


async def test_the_script_carries_the_environment(harness: MithrilHarness, tmp_path: Path) -> None:
    assert isinstance(await harness.provider.create(await a_request(harness, env={"KEY": "it's $HOME"})), Done)
    (bid,) = (await harness.control("bids"))["bids"]
    assert bid["startup_script"] == "#!/bin/sh\nexport KEY='it'\"'\"'s $HOME'\ntrue"


# -- what happens to a machine


async def test_the_price_of_the_auction_is_what_a_machine_costs(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    before = await only(harness)
    region, kind = before.machine_id.split("/")
    price = before.computes_at
    assert price < before.bid
    (pool,) = [
        each
        for each in (await harness.control("auctions"))["auctions"]
        if (each["region"], each["instance_type"]) == (region, kind)
    ]
    losing = before.bid - D("0.01")
    await harness.control("rival", bid_id=instance_id, limit=str(losing), quantity=pool["slots"])
    await harness.advance(200)
    after = await only(harness)
    assert after.status is InstanceStatus.RUNNING
    assert (after.bid, after.computes_at) == (before.bid, losing)


async def test_a_notice_that_is_withdrawn_leaves_it_running(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    bid = (await only(harness)).bid
    await harness.control("rival", bid_id=instance_id, limit=str(bid + 1), duration_s=100)
    await harness.advance(125)
    warned = await only(harness)
    assert warned.status is InstanceStatus.RUNNING
    assert warned.message.startswith("outbid")
    await harness.advance(125)
    assert not (await only(harness)).message.startswith("outbid")
    assert (await truth(harness, instance_id))["boots"] == 1


async def test_an_outbid_machine_comes_back_by_itself(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    bid = (await only(harness)).bid
    await harness.control("rival", bid_id=instance_id, limit=str(bid + 1), duration_s=700)
    await seen(harness, instance_id, InstanceStatus.STOPPED)
    await seen(harness, instance_id, InstanceStatus.RUNNING)
    assert (await truth(harness, instance_id))["boots"] == 2


async def test_a_move_to_another_host_keeps_the_instance(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    await harness.control("relocate", bid_id=instance_id)
    moving = await only(harness)
    assert moving.status is InstanceStatus.RUNNING
    assert moving.message.startswith("it is moved")
    await harness.advance(310)
    assert (await only(harness)).status is InstanceStatus.PROVISIONING
    again = await seen(harness, instance_id, InstanceStatus.RUNNING)
    assert again.instance_id == instance_id
    assert (await truth(harness, instance_id))["machines"] == 2


async def test_a_machine_that_does_not_come_up_says_so(harness: MithrilHarness) -> None:
    asked = await a_request(harness)
    async with harness.fault("create", "error_machine"):
        outcome = await harness.provider.create(asked)
    assert isinstance(outcome, Done)
    failed = await seen(harness, outcome.value.instance_id, InstanceStatus.STOPPED)
    assert failed.start_failed


async def test_a_pause_that_the_answer_does_not_show_is_unknown(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    for kind in ("effect_then_500", "empty", "html"):
        async with harness.fault("change", kind):
            assert isinstance(await harness.provider.stop(instance_id), Unknown)
            assert isinstance(await harness.provider.change_bid(instance_id, D("3.00")), Unknown)


async def test_a_limit_below_the_minimum_leaves_the_limit_as_it_was(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    before = await only(harness)
    await refused(await harness.provider.change_bid(instance_id, D("0.10")), RefusalCode.BID_TOO_LOW)
    await refused(await harness.provider.change_bid(instance_id, D("0.009")), RefusalCode.BID_TOO_LOW)
    assert (await only(harness)).bid == before.bid


# -- giving back


async def test_destroying_ends_the_bid_so_that_it_never_rents_again(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    assert await harness.provider.destroy(instance_id) == Done(None)
    assert (await truth(harness, instance_id))["status"] == "Terminated"
    await harness.advance(3600)
    assert await listed(harness) == ()
    assert await harness.provider.instance(instance_id) is None
    assert (await truth(harness, instance_id))["boots"] == 1


@pytest.mark.parametrize("kind", ["effect_then_500", "html"])
async def test_a_destroy_without_an_answer_is_unknown_and_can_be_asked_again(
    harness: MithrilHarness, kind: str
) -> None:
    instance_id = await running(harness)
    async with harness.fault("end", kind):
        assert isinstance(await harness.provider.destroy(instance_id), Unknown)
    assert await harness.provider.destroy(instance_id) == Done(None)


# -- lists


@pytest.mark.parametrize("on", ["list", "instances"])
@pytest.mark.parametrize("kind", ["repeated_cursor", "bad_json", "html", "empty", "http_500"])
async def test_a_list_that_cannot_be_believed_is_none(harness: MithrilHarness, on: str, kind: str) -> None:
    instance_id = await rent(harness)
    async with harness.fault(on, kind):
        with pytest.raises(MarketUnknown):
            await harness.provider.instances()
    await eventually(harness, lambda: listing(harness, {instance_id}))


async def test_a_list_that_lacks_a_bid_that_exists_is_none(harness: MithrilHarness) -> None:
    instance_id = await rent(harness)
    await eventually(harness, lambda: listing(harness, {instance_id}))
    async with harness.fault("list", "stale_list", lag_s=1e6):
        with pytest.raises(MarketUnknown, match="stale"):
            await harness.provider.instances()


async def test_machines_that_are_listed_late_are_read_one_by_one(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    async with harness.fault("instances", "stale_list", lag_s=1e6):
        late = await only(harness)
    assert (late.instance_id, late.status) == (instance_id, InstanceStatus.RUNNING)


@pytest.mark.parametrize("kind", ["null_prices", "no_price", "http_500", "bad_json"])
async def test_without_a_price_the_limit_is_what_it_costs(
    harness: MithrilHarness, clock: QuickClock, kind: str
) -> None:
    await running(harness)
    clock.advance(61)
    async with harness.fault("price", kind):
        held = await only(harness)
        assert held.status is InstanceStatus.RUNNING
        assert held.computes_at == held.bid


@pytest.mark.parametrize("kind", ["null_prices", "no_price"])
async def test_a_pool_without_prices_is_not_offered(harness: MithrilHarness, kind: str) -> None:
    async with harness.fault("price", kind):
        assert await harness.provider.offers(harness.query) == ()


async def test_prices_are_asked_for_once_a_minute(harness: MithrilHarness, clock: QuickClock) -> None:
    for _ in range(3):
        await harness.provider.offers(harness.query)
    pools = (await harness.control("requests"))["price"]
    assert pools == len(await harness.provider.offers(harness.query))
    clock.advance(61)
    await harness.provider.offers(harness.query)
    assert (await harness.control("requests"))["price"] == 2 * pools


@pytest.mark.slow
async def test_lists_that_ended_bids_fill_are_asked_for_what_is_live(
    harness: MithrilHarness, clock: QuickClock
) -> None:
    """They stay listed for ever, a hundred on a page, and so do their machines."""
    instance_id = await running(harness)
    await harness.control("strangers", ended=5000)
    await only(harness)
    before, begun = await requests(harness), clock.monotonic()
    held = await only(harness)
    assert (held.instance_id, held.status) == (instance_id, InstanceStatus.RUNNING)
    assert await requests(harness) - before <= 12
    assert clock.monotonic() - begun < 15
    assert await harness.provider.destroy(instance_id) == Done(None)
    assert await listed(harness) == ()


@pytest.mark.slow
async def test_no_filter_hides_what_may_be_billed(harness: MithrilHarness) -> None:
    """A bid in a status that no list was asked for is read by itself. Who never saw it finds it by its id."""
    instance_id = await running(harness)
    await harness.control("strangers", ended=5000)
    await only(harness)
    harness.market.bids[instance_id].shown_as = "Frozen"
    for _ in range(2):
        held = await only(harness)
        assert (held.instance_id, held.status) == (instance_id, InstanceStatus.RUNNING)
    after_a_restart = harness.connect()
    alone = await after_a_restart.instance(instance_id)
    assert alone is not None
    assert alone.status is InstanceStatus.RUNNING
    await after_a_restart.close()


async def test_an_unknown_status_counts_as_running(harness: MithrilHarness) -> None:
    instance_id = await rent(harness)
    harness.market.bids[instance_id].shown_as = "Frozen"
    held = await only(harness)
    assert (held.instance_id, held.status, held.message) == (instance_id, InstanceStatus.RUNNING, "bid Frozen")
    assert "status" in {each.field for each in harness.provider.drifts() if each.kind is DriftKind.VALUE}


@pytest.mark.parametrize("after_a_restart", [False, True])
async def test_a_bid_of_ours_that_states_no_region_is_in_its_pool(
    harness: MithrilHarness, *, after_a_restart: bool
) -> None:
    """Its machine is seen with the price of the pool, and nothing is bid against it."""
    before = await harness.make_offer_available()
    async with contextlib.AsyncExitStack() as faults:
        for family in ("create", "list", "show"):
            await faults.enter_async_context(harness.fault(family, "null_region"))
        instance_id = await running(harness)
        if after_a_restart:
            harness.provider = harness.connect()
        held = await only(harness)
        assert (held.instance_id, held.machine_id) == (instance_id, before.machine_id)
        assert held.price is not None
        await harness.control("slots", bid_id=instance_id, slots=1)
        await harness.advance(240)
        await only(harness)
        shown = await harness.provider.offers(harness.query)
        assert before.machine_id not in {each.machine_id for each in shown}, "the lowest that has a machine is ours"


@pytest.mark.slow
async def test_a_machine_of_a_bid_that_ended_is_shown_until_it_is_off(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    bid = harness.market.bids[instance_id]
    bid.status = BidStatus.TERMINATED
    await harness.control("strangers", ended=5000)
    for _ in range(2):
        held = await only(harness)
        assert (held.instance_id, held.status, held.intended_running) == (instance_id, InstanceStatus.RUNNING, False)


async def test_what_is_switched_off_from_inside_goes_on_billing(harness: MithrilHarness) -> None:
    instance_id = await running(harness)
    await harness.control("power_off", bid_id=instance_id)
    before = await harness.billed(instance_id)
    await harness.advance(3600)
    assert await harness.billed(instance_id) - before > D("0.50")
    assert (await only(harness)).bills > 0


async def test_starting_is_free(harness: MithrilHarness) -> None:
    instance_id = await rent(harness)
    starting = await seen(harness, instance_id, InstanceStatus.PROVISIONING)
    await harness.advance(125)
    assert (await truth(harness, instance_id))["machine"]["status"] == "STARTING"
    assert starting.bills == 0
    assert await harness.billed(instance_id) == 0


# -- what the market takes


async def test_no_bid_is_above_what_the_market_takes(harness: MithrilHarness) -> None:
    asked = await a_request(harness, bid=D("30.00"))
    region, kind = asked.machine_id.split("/")
    await harness.control("highest", region=region, instance_type=kind, price="5.00")
    harness.clock.advance(61)
    assert isinstance(await harness.provider.create(asked), Done)
    held = await only(harness)
    assert held.bid == D("5.00")
    assert await harness.provider.change_bid(held.instance_id, D("7.00")) == Done(D("5.00"))


async def test_a_replaced_ssh_key_is_looked_up_again(harness: MithrilHarness) -> None:
    await rent(harness)
    await harness.control("ssh_key", id="sshkey_second")
    assert isinstance(await harness.provider.create(await a_request(harness, label=OTHER_LABEL)), Done)
    await harness.control("ssh_key", id="sshkey_third")
    harness.clock.advance(700)
    before = (await harness.control("requests"))["create"]
    assert isinstance(await harness.provider.create(await a_request(harness, label=f"{OTHER_LABEL}X")), Done)
    assert (await harness.control("requests"))["create"] == before + 1


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_price_of_the_record_holds_until_the_next(harness: MithrilHarness, is_old: bool) -> None:
    (offer, *_) = await harness.provider.offers(harness.query)
    region, kind = offer.machine_id.split("/")
    start = harness.clock.now()
    await harness.advance(1800)
    await harness.control("rival", region=region, instance_type=kind, limit="9.00", quantity=1)
    await harness.control("rival", region=region, instance_type=kind, limit="8.00")
    await harness.advance(3600)
    async with harness.fault("history", "old_history") if is_old else contextlib.nullcontext():
        seen_prices = await harness.provider.past_prices(harness.query, start, harness.clock.now())
    told = {
        each.observed_at - start: each.clearing_price for each in seen_prices if each.machine_id == offer.machine_id
    }
    assert len(told) == 5400 / 900, "none is missing"
    assert told[timedelta(seconds=900)] == offer.clearing_price
    assert told[timedelta(seconds=3600)] == D("8.00")


# -- the account


async def test_a_wrong_key_is_a_matter_of_rights(harness: MithrilHarness, clock: QuickClock) -> None:
    other = plugin.connect({"base_url": harness.url, "api_key": "wrong", "timeout_s": PATIENCE_S}, clock)
    for read in (other.account, other.instances):
        with pytest.raises(MarketUnknown) as problem:
            await read()
        assert problem.value.code is RefusalCode.NO_RIGHTS
    await other.close()


async def test_a_project_that_the_key_cannot_see_is_named(harness: MithrilHarness, clock: QuickClock) -> None:
    other = plugin.connect(
        {"base_url": harness.url, "api_key": KEY, "project": "proj_other", "timeout_s": PATIENCE_S}, clock
    )
    with pytest.raises(MarketUnknown, match="proj_other") as problem:
        await other.account()
    assert problem.value.code is RefusalCode.NO_RIGHTS
    await other.close()


async def test_the_account_has_no_credit_and_a_digest_of_its_key(harness: MithrilHarness) -> None:
    account = await harness.provider.account()
    assert account.credit is None
    assert account.digest
    assert KEY not in account.account_id


async def test_a_refusal_in_unknown_words_is_logged(harness: MithrilHarness) -> None:
    assert isinstance(await harness.provider.create(await a_request(harness, offer_id="nowhere/it_x")), Refused)
    assert [remark.kind for remark in harness.provider.remarks()] == [RemarkKind.UNKNOWN_WORDS]


async def test_another_s_bid_for_several_machines_is_listed_whole(harness: MithrilHarness) -> None:
    asked = await a_request(harness)
    region, kind = asked.machine_id.split("/")
    body = {
        "project": "proj_sandbox",
        "region": region,
        "instance_type": kind,
        "limit_price": "$2.00",
        "instance_quantity": 2,
        "name": "somebody's",
        "launch_specification": {"ssh_keys": ["sshkey_sandbox"]},
    }
    url, headers = f"{harness.url}/v2/spot/bids", {"Authorization": f"Bearer {KEY}"}
    async with harness.http.post(url, json=body, headers=headers) as response:
        assert response.status == 201
    asked_before = (await harness.control("requests")).get("price", 0)
    harness.clock.advance(61)
    theirs = await only(harness)
    assert (await harness.control("requests")).get("price", 0) == asked_before
    assert (theirs.bid, theirs.num_gpus) == (D("4.00"), 2)
    assert theirs.label != LABEL


async def test_an_offer_tells_what_its_kind_of_machine_has(harness: MithrilHarness) -> None:
    for offer in await harness.provider.offers(harness.query):
        region, type_id = offer.machine_id.split("/")
        kind = harness.market.pools[region, type_id].spec.type
        host = offer.host
        assert (host.cpus, host.ram_gb, host.region) == (D(kind.num_cpus), D(kind.ram_gb), region)
        assert host.country == ("US" if region.startswith("us-") else "")
