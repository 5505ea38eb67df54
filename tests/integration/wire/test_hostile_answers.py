"""Recorded answers of the markets, spoilt, over real sockets to the real clients: never a fault, never a bad value.

For any answer, a read gives sane values or reports that the market is unknown, and a change gives one of its
three outcomes; an adapter that has seen any of it goes on working.
"""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot.clock import ScaledClock
from autopilot.domain.instance import Account, Charge, Instance
from autopilot.domain.money import to_nano
from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import CreateRequest, Done, MarketUnknown, Plugin, Provider, Refused, Unknown
from autopilot.providers.mithril import plugin as mithril
from autopilot.providers.runpod import plugin as runpod
from autopilot.providers.vastai import plugin as vastai
from tests.integration.wire.hostile_server import hostile_server
from tests.patience import PATIENCE_S

ASSETS = Path(__file__).parents[2] / "assets"
KEY = "sentinel-account-key"
DAY = dt.date(2026, 1, 1)
QUERY = OfferQuery(
    gpus=(("RTX 4090", 1), ("NVIDIA GeForce RTX 4090", 1), ("H100", 8)),
    min_vram_gb=Decimal(0),
    disk_gb=Decimal(20),
    verified_only=False,
    datacenter_only=False,
)
MARKETS: dict[str, tuple[Plugin, str, str]] = {
    "vastai": (vastai, "47848147", "1234"),
    "runpod": (runpod, "abc123xyz", "NVIDIA GeForce RTX 4090:1:COMMUNITY"),
    "mithril": (mithril, "bid_Ab3dEf6hIj9kLm2n", "us-central5-a/it_h100x8"),
}


def recorded(market: str) -> list[Any]:
    found = []
    for path in sorted((ASSETS / market).rglob("*.json")):
        body = json.loads(path.read_text())
        found.append(body.get("body", body) if isinstance(body, dict) else body)
    return found


RECORDED = {market: recorded(market) for market in MARKETS}
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from(
        ["", "NaN", "Infinity", "-1", "1e400", "1e-400", "9" * 400, "0x10", "१", "\0", "\ud800", "../..", " "]
    ),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just([[[[{}]]]]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def spoilt(draw: st.DrawFn, market: str) -> bytes:
    """A recorded body with up to three of its values replaced, removed or repeated."""
    body = json.loads(json.dumps(draw(st.sampled_from(RECORDED[market]))))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(places(body))))
        if not path:
            body = copy.deepcopy(draw(STRANGE))
            continue
        parent = body
        for key in path[:-1]:
            parent = parent[key]
        how = draw(st.sampled_from(["replace", "replace", "remove", "repeat"]))
        if how == "replace":
            parent[path[-1]] = copy.deepcopy(draw(STRANGE))
        elif how == "remove":
            del parent[path[-1]]
        elif isinstance(parent, list):
            parent.append(parent[path[-1]])
    text = json.dumps(body).encode()
    return text[: len(text) - draw(st.integers(0, 3))] if draw(st.integers(0, 9)) == 0 else text


def assert_sane(value: Any) -> None:
    """Exact money that the ledger can hold, texts that a database takes."""
    if isinstance(value, Decimal):
        assert value.is_finite()
        to_nano(value)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, dt.datetime):
        assert value.tzinfo is not None
    elif is_dataclass(value):
        for each in fields(value):
            assert_sane(getattr(value, each.name))
    elif isinstance(value, (tuple, list)):
        for item in value:
            assert_sane(item)
    if isinstance(value, Instance):
        assert value.instance_id
        assert 0 <= value.bid <= 10_000
        assert 0 <= value.storage_rate <= 10_000
    if isinstance(value, Offer):
        assert value.num_gpus >= 1
        assert all(price is None or price > 0 for price in (value.floor, value.on_demand_price))


async def ask_everything(provider: Provider, instance_id: str, offer_id: str) -> None:
    for read in (
        provider.instances(),
        provider.instance(instance_id),
        provider.start_words(instance_id),
        provider.account(),
        provider.offers(QUERY),
        provider.charges(DAY, DAY + dt.timedelta(days=1)),
    ):
        try:
            answer = await read
        except MarketUnknown:
            continue
        assert answer is None or isinstance(answer, (str, tuple, Instance, Account))
        assert_sane(answer)
        if isinstance(answer, tuple):
            assert all(isinstance(each, (Instance, Offer, Charge)) for each in answer)
    request = CreateRequest(
        label="ap1.abcdefgh.01KDVDNRY4R11887CN5CG1S8J6",
        offer_id=offer_id,
        machine_id="1",
        capacity_type=CapacityType.ON_DEMAND,
        bid=Decimal("0.4"),
        image="some/image:1",
        disk_gb=Decimal(20),
        env={},
        onstart="true",
    )
    for change in (
        provider.create(request),
        provider.create(replace(request, capacity_type=CapacityType.SPOT)),
        provider.change_bid(instance_id, Decimal("0.3")),
        provider.start(instance_id),
        provider.stop(instance_id),
        provider.destroy(instance_id),
    ):
        outcome = await change
        assert isinstance(outcome, (Done, Refused, Unknown))
        assert KEY not in repr(outcome)
        if isinstance(outcome, Done) and outcome.value is not None:
            assert_sane(outcome.value)


async def story(market: str, body: bytes, status: int) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} Told\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    plugin, instance_id, offer_id = MARKETS[market]
    async with hostile_server(answer) as server:
        given: dict[str, Any] = {"base_url": server.url, "api_key": KEY, "timeout_s": PATIENCE_S}
        provider = plugin.connect(given, ScaledClock(dt.datetime.now(dt.UTC), 100_000))
        try:
            await ask_everything(provider, instance_id, offer_id)
        finally:
            await provider.close()


STATUSES = st.sampled_from([200, 200, 200, 201, 204, 400, 401, 404, 410, 429, 500, 503])


def check(market: str, examples: int) -> None:
    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(body=spoilt(market), status=STATUSES)
    def answered(body: bytes, status: int) -> None:
        asyncio.run(story(market, body, status))

    answered()


@pytest.mark.parametrize("market", sorted(MARKETS))
def test_spoilt_answers_are_read_sanely_or_not_at_all(market: str) -> None:
    check(market, 10)


@pytest.mark.slow
@pytest.mark.parametrize("market", sorted(MARKETS))
def test_many_spoilt_answers_are_read_sanely_or_not_at_all(market: str) -> None:
    check(market, 300)


async def test_an_error_without_words_is_an_error() -> None:
    """The SDK gives back the message as it came, and cannot show one that is no text."""
    for message in (True, None):
        await story("runpod", json.dumps({"errors": [{"message": message}], "data": None}).encode(), 200)
