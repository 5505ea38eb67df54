"""Answers that the sandbox never gives: wrong terms, lists that contradict themselves, hostile servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autopilot.clock import ScaledClock
from autopilot.domain.offer import CapacityType
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.vastai import plugin
from autopilot.providers.vastai.adapter import VastaiProvider
from tests.patience import PATIENCE_S

ASSETS = Path(__file__).parents[2] / "assets" / "vastai"
KEY = "a-very-secret-key"
ROW = json.loads((ASSETS / "instance_running_bid.json").read_text())["instances"] | {"label": "ap1.test.one"}
LIST, SHOW, CREATE = "GET /api/v1/instances/", "GET /api/v0/instances/47848147/", "PUT /api/v0/asks/111/"
CHARGES = "GET /api/v0/charges/"
REQUEST = CreateRequest(
    label="ap1.test.one",
    offer_id="111",
    machine_id="43567",
    capacity_type=CapacityType.SPOT,
    bid=Decimal("0.165"),
    image="some/image:1",
    disk_gb=Decimal(40),
    env={},
    onstart="true",
)
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Script:
    """Answers by method and path, the last one again and again; ``seen`` keeps what was asked."""

    answers: dict[str, list[Any]] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = f"{request.method} {request.path}"
        self.seen.append((name, dict(request.headers), f"{request.rel_url}"))
        answers = self.answers[name]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, str):
            return web.Response(text=answer)
        if callable(answer):
            made: web.StreamResponse = await answer(request)
            return made
        return web.json_response(answer)

    def count(self, name: str) -> int:
        return sum(seen == name for seen, _, _ in self.seen)


async def serving(script: Script) -> AsyncIterator[Script]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    script.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield script
    await runner.cleanup()


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    async for started in serving(Script()):
        yield started


@pytest.fixture
async def elsewhere() -> AsyncIterator[Script]:
    async for started in serving(Script()):
        yield started


@pytest.fixture
async def provider(script: Script) -> AsyncIterator[VastaiProvider]:
    clock = ScaledClock(datetime.now(UTC), 600)
    connected = plugin.connect({"base_url": script.url, "api_key": KEY, "timeout_s": PATIENCE_S}, clock)
    assert isinstance(connected, VastaiProvider)
    yield connected
    await connected.close()


@pytest.fixture
async def short(script: Script) -> AsyncIterator[VastaiProvider]:
    """For what never ends."""
    clock = ScaledClock(datetime.now(UTC), 600)
    connected = plugin.connect({"base_url": script.url, "api_key": KEY, "timeout_s": 0.5}, clock)
    assert isinstance(connected, VastaiProvider)
    yield connected
    await connected.close()


def page(*rows: dict[str, Any], total: object = None, token: object = None) -> dict[str, Any]:
    return {
        "success": True,
        "total_instances": len(rows) if total is None else total,
        "next_token": token,
        "instances": list(rows),
    }


WON = {"success": True, "new_contract": 47848147}


async def test_a_rental_on_demand_instead_of_a_bid_is_refused(script: Script, provider: VastaiProvider) -> None:
    script.answers = {CREATE: [WON], SHOW: [{"instances": ROW | {"is_bid": False}}]}
    outcome = await provider.create(REQUEST)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.WRONG_TERMS, "47848147")


@pytest.mark.parametrize("price", [0.1649, 0.17])
async def test_a_rental_at_another_bid_is_refused(script: Script, provider: VastaiProvider, price: float) -> None:
    script.answers = {CREATE: [WON], SHOW: [{"instances": ROW | {"dph_base": price}}]}
    outcome = await provider.create(REQUEST)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.WRONG_TERMS, "47848147")


@pytest.mark.parametrize("body", ["<html>", {"instances": None}, {"instances": ROW | {"dph_base": None}}, {}])
async def test_what_cannot_be_read_back_is_done_all_the_same(
    script: Script, provider: VastaiProvider, body: object
) -> None:
    script.answers = {CREATE: [WON], SHOW: [body]}
    assert await provider.create(REQUEST) == Done(Created("47848147"))
    assert script.count(SHOW) == 1


async def test_a_spot_create_always_names_its_price(script: Script, provider: VastaiProvider) -> None:
    prices: list[object] = []

    async def create(request: web.Request) -> web.Response:
        prices.append((await request.json())["price"])
        return web.json_response(WON)

    script.answers = {CREATE: [create], SHOW: [{"instances": None}]}
    await provider.create(REQUEST)
    await provider.create(CreateRequest(**{**_fields(REQUEST), "bid": Decimal(0)}))
    await provider.create(CreateRequest(**{**_fields(REQUEST), "capacity_type": CapacityType.ON_DEMAND}))
    assert prices == [0.165, 0.001, None]


def _fields(request: CreateRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in CreateRequest.__slots__}


async def test_a_request_that_makes_no_sense_is_not_sent(script: Script, provider: VastaiProvider) -> None:
    outcome = await provider.create(CreateRequest(**{**_fields(REQUEST), "disk_gb": Decimal(1)}))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.INVALID
    for change in (provider.destroy("1/../2"), provider.start(""), provider.change_bid("x", Decimal(1))):
        refused = await change
        assert isinstance(refused, Refused)
        assert refused.code is RefusalCode.INVALID
    assert script.seen == []


@pytest.mark.parametrize(
    "pages",
    [
        [page(ROW, total=2)],
        [page(ROW, total=0)],
        [page(ROW, total="many")],
        [{"success": True, "instances": [ROW], "next_token": None}],
        [page(ROW, ROW)],
        [page(ROW, token="t", total=2), page(ROW, total=2)],
        [page(ROW, token="t", total=2), page(ROW | {"id": 2}, token="t", total=2)],
        [page(ROW, token="t", total=2), page(ROW | {"id": 2}, total=3)],
        [page(ROW, token=7)],
        [page(ROW | {"id": None})],
        [page(ROW | {"is_bid": None})],
        [page(ROW | {"dph_base": None})],
        [{"success": True, "instances": None, "total_instances": 0}],
        [{"success": True, "instances": {}, "total_instances": 0}],
        [{"success": False, "instances": [], "total_instances": 0}],
        [{"instances_found": 0}],
        [[]],
    ],
)
async def test_a_list_that_is_not_plainly_complete_is_not_believed(
    script: Script, provider: VastaiProvider, pages: list[Any]
) -> None:
    script.answers = {LIST: pages}
    with pytest.raises(MarketUnknown):
        await provider.instances()


async def test_a_complete_list_over_two_pages(script: Script, provider: VastaiProvider) -> None:
    script.answers = {LIST: [page(ROW, token="t", total=2), page(ROW | {"id": 2}, total=2)]}
    assert [instance.instance_id for instance in await provider.instances()] == ["47848147", "2"]
    first, second = (url for _, _, url in script.seen)
    assert "after_token" not in first
    assert "after_token=t" in second


@pytest.mark.parametrize("body", [{"instances": []}, {"instances": {}}, {"instances": ROW | {"id": 5}}, {}, [], "null"])
async def test_only_null_says_that_an_instance_is_gone(script: Script, provider: VastaiProvider, body: object) -> None:
    script.answers = {SHOW: [body]}
    with pytest.raises(MarketUnknown):
        await provider.instance("47848147")


async def test_charges_must_be_whole(script: Script, provider: VastaiProvider) -> None:
    body = json.loads((ASSETS / "charges.json").read_text())
    days = date(2026, 11, 19), date(2026, 11, 20)
    script.answers = {CHARGES: [body]}
    assert len(await provider.charges(*days)) == 4
    for broken in (body | {"total": 3}, body | {"results": None}, body | {"results": [{}, {}]}):
        script.answers = {CHARGES: [broken]}
        with pytest.raises(MarketUnknown):
            await provider.charges(*days)


@pytest.mark.parametrize("credit", [None, "x", "NaN", [], {}])
async def test_an_account_without_credit_is_unknown(script: Script, provider: VastaiProvider, credit: object) -> None:
    script.answers = {"GET /api/v0/users/current": [{"id": 1, "credit": credit}]}
    with pytest.raises(MarketUnknown):
        await provider.account()


async def test_a_debt_is_read(script: Script, provider: VastaiProvider) -> None:
    script.answers = {"GET /api/v0/users/current": ['{"credit": -0.30000000000000004}']}
    assert (await provider.account()).credit == Decimal("-0.3")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(
    script: Script, elsewhere: Script, provider: VastaiProvider, status: int
) -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": f"{elsewhere.url}{request.rel_url}"})

    script.answers = {LIST: [redirect], CREATE: [redirect]}
    with pytest.raises(MarketUnknown):
        await provider.instances()
    assert isinstance(await provider.create(REQUEST), Unknown)
    assert elsewhere.seen == []


async def test_an_endless_answer_is_cut_off(script: Script, provider: VastaiProvider) -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 2**20)
                sent += 1
        except ConnectionError:
            return response

    script.answers = {LIST: [flood]}
    with pytest.raises(MarketUnknown, match="larger"):
        await provider.instances()
    assert sent < 64 * 3


async def test_an_answer_that_drips_is_cut_off(script: Script, short: VastaiProvider) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 2**16)
                await asyncio.sleep(0.05)
        except ConnectionError:
            return response

    script.answers = {LIST: [drip]}
    with pytest.raises(MarketUnknown):
        await short.instances()


async def test_a_closed_port() -> None:
    clock = ScaledClock(datetime.now(UTC), 600)
    provider = plugin.connect({"base_url": "http://127.0.0.1:1", "api_key": KEY}, clock)
    with pytest.raises(MarketUnknown, match="no answer to GET"):
        await provider.instances()
    outcome = await provider.create(REQUEST)
    assert isinstance(outcome, Unknown)
    assert KEY not in outcome.message
    await provider.close()


async def test_the_key_travels_in_its_header_only(script: Script, provider: VastaiProvider) -> None:
    async def echo(request: web.Request) -> web.Response:
        body = {"success": False, "error": "invalid_args", "msg": f"no: {request.headers['Authorization']}"}
        return web.json_response(body, status=400)

    script.answers = {LIST: [page()], CREATE: [echo]}
    await provider.instances()
    outcome = await provider.create(REQUEST)
    assert isinstance(outcome, Refused)
    assert KEY not in outcome.message
    for _, headers, url in script.seen:
        assert KEY not in url
        assert [name for name, value in headers.items() if KEY in value] == ["Authorization"]


async def test_rows_of_strangers_are_read_for_id_and_label_alone(script: Script, provider: VastaiProvider) -> None:
    """Machines rented elsewhere have no label: ours have one."""
    odd = {"id": 7, "label": None, "is_bid": "?", "dph_base": "dear", "actual_status": 3}
    rows = [odd, ROW, odd, {"id": 8, "label": "notebook"}]
    script.answers[LIST] = [{"success": True, "instances": rows, "total_instances": len(rows), "next_token": None}]
    listed = {each.instance_id: each.label for each in await provider.instances()}
    assert listed == {"7": "", str(ROW["id"]): "ap1.test.one", "8": "notebook"}


@pytest.mark.parametrize(
    "rows",
    [
        [ROW, ROW],
        [ROW | {"dph_base": None}],
        [{field: value for field, value in ROW.items() if field != "label"}],
        [ROW | {"label": 7}],
        [ROW | {"label": "notebook", "id": None}],
    ],
)
async def test_a_row_of_ours_and_one_that_may_be_must_be_read(
    script: Script, provider: VastaiProvider, rows: list[dict[str, Any]]
) -> None:
    script.answers[LIST] = [{"success": True, "instances": rows, "total_instances": len(rows), "next_token": None}]
    with pytest.raises(MarketUnknown):
        await provider.instances()
