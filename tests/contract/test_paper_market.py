"""What paper takes from the real market and what it adds, beyond the provider contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.offer import CapacityType
from autopilot.mailbox.keys import heartbeat_key, orders_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import build_orders
from autopilot.mailbox.reading import parse_heartbeat
from autopilot.ports.provider import Created, Done, MarketUnknown, RefusalCode, Refused
from autopilot.providers.paper.adapter import PaperProvider, PaperSettings
from autopilot.providers.paper.bootstrap import PaperBootstrap
from tests.contract.harness import QuickClock
from tests.contract.paper_harness import PaperHarness, paper_harness
from tests.contract.provider_contract import LOOK_EVERY_S, absent, eventually, rent, request, running, seen
from tests.contract.runpod_harness import runpod_harness


@pytest.fixture
async def paper(tmp_path: Path) -> AsyncIterator[PaperHarness]:
    async with paper_harness(tmp_path, QuickClock(), CapacityType.SPOT) as made:
        yield made


async def test_offers_are_the_real_ones_without_the_machines_held_here(paper: PaperHarness) -> None:
    real = await paper.market.provider.offers(paper.query)
    # Each connection keeps to the market's limits, and knows nothing of what another has asked just now.
    await paper.advance(LOOK_EVERY_S)
    assert await paper.provider.offers(paper.query) == tuple(replace(o, provider="paper-vastai") for o in real)
    offer = await paper.make_offer_available()
    await rent(paper)
    left = {found.machine_id for found in await paper.provider.offers(paper.query)}
    assert left == {found.machine_id for found in real} - {offer.machine_id}


async def test_the_account_is_the_real_one_or_the_paper_credit(paper: PaperHarness, tmp_path: Path) -> None:
    await paper.market.control("credit", amount=12)
    assert (await paper.provider.account()).credit == 12
    settings = PaperSettings(tmp_path / "own.json", credit=Decimal("3.50"))
    own = PaperProvider("paper-vastai", paper.market.connect(), settings, paper.market.clock)
    assert (await own.account()).credit == Decimal("3.50")
    await own.close()


async def test_without_credit_nothing_is_rented(paper: PaperHarness) -> None:
    offer = await paper.make_offer_available()
    await paper.market.control("credit", amount=0)
    await paper.provider.account()
    outcome = await paper.provider.create(request(paper, offer))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OUT_OF_CREDIT


async def test_an_offer_that_was_never_seen_cannot_be_taken(paper: PaperHarness) -> None:
    asked = request(paper, await paper.make_offer_available())
    outcome = await paper.provider.create(replace(asked, offer_id="4711"))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE


async def test_a_falling_floor_brings_an_outbid_instance_back(paper: PaperHarness) -> None:
    instance_id = await running(paper)
    await paper.outbid(instance_id)
    paused = await seen(paper, instance_id, InstanceStatus.STOPPED)
    start = await paper.provider.start(instance_id)
    assert isinstance(start, Refused)
    assert start.code is RefusalCode.QUEUED
    await paper.market.control("floor", machine_id=int(paused.machine_id), price="0.01")
    back = await seen(paper, instance_id, InstanceStatus.RUNNING)
    assert back.bid == paused.bid


async def test_where_an_outbid_ends_a_rental_it_is_gone(paper: PaperHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper.real, "capabilities", replace(paper.real.capabilities, pauses_when_outbid=False))
    instance_id = await running(paper)
    await paper.market.control("floor", machine_id=int((await paper.provider.instances())[0].machine_id), price="3")
    assert await eventually(paper, lambda: absent(paper, instance_id))


async def test_where_bids_are_for_good_a_change_is_refused(
    paper: PaperHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper.real, "capabilities", replace(paper.real.capabilities, can_rebid=False))
    instance_id = await running(paper)
    assert isinstance(await paper.provider.change_bid(instance_id, Decimal(1)), Refused)


async def test_a_search_that_fails_leaves_the_last_floor_standing(paper: PaperHarness) -> None:
    instance_id = await running(paper)
    await paper.advance(120)
    await paper.market.control("fault", on="search", kind="http_503", times=None)
    with pytest.raises(MarketUnknown):
        await paper.provider.offers(paper.query)
    (instance,) = await paper.provider.instances()
    assert (instance.instance_id, instance.status) == (instance_id, InstanceStatus.RUNNING)


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[LocalBlobStore]:
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "")
    runner = web.AppRunner(blob_listener(store), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    store.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield store
    await runner.cleanup()


async def test_an_instance_whose_permit_runs_out_is_gone_at_that_moment(
    paper: PaperHarness, blobs: LocalBlobStore
) -> None:
    orders = build_orders(
        blobs,
        job_id="job",
        lease_id="lease",
        instance_id=None,
        run_epoch=1,
        seq=1,
        permit_ttl_s=300,
        role="run",
        checkpoint_interval_s=60,
        work=Work("train", checkpoint_path="ckpt", estimate_s=36_000),
        restore=None,
        heartbeat=None,
    )
    await blobs.put(orders_key("job", "lease"), orders.to_json())
    asked = request(paper, await paper.make_offer_available())
    asked = replace(asked, onstart=PaperBootstrap(blobs).onstart("job", "lease"))
    outcome = await paper.provider.create(asked)
    assert isinstance(outcome, Done)
    assert isinstance(outcome.value, Created)
    instance_id = outcome.value.instance_id
    await seen(paper, instance_id, InstanceStatus.RUNNING)
    await paper.provider.instances()
    beat = parse_heartbeat(await blobs.get(heartbeat_key("job", "lease")) or b"")
    assert beat is not None
    assert beat.state == "running"
    await paper.advance(250)
    await paper.provider.instances()
    assert await paper.provider.instance(instance_id) is not None
    await paper.advance(3600)
    assert await paper.provider.instances() == ()
    spent = await paper.billed(instance_id)
    # Set-up, five minutes of permit and at most one look apart: not the hour that passed unseen.
    assert spent < asked.bid * 6 / 60 + Decimal("0.01")


@pytest.mark.slow
async def test_a_pool_gives_more_than_one_instance(tmp_path: Path) -> None:
    """On a market of pools an offer is no single machine; there, too, only reads are sent."""
    clock = QuickClock()
    async with runpod_harness(tmp_path, clock, CapacityType.SPOT) as real:
        paper = PaperProvider("paper-runpod", real.connect(), PaperSettings(tmp_path / "runpod.json"), clock)
        (offer, *_) = await paper.offers(real.query)
        for label in ("one", "two"):
            outcome = await paper.create(replace(request(real, offer, label), onstart=""))
            assert isinstance(outcome, Done), outcome
        assert {instance.label for instance in await paper.instances()} == {"one", "two"}
        assert paper.capabilities.spot
        assert (await real.control("instances"))["instances"] == []
        await paper.close()
