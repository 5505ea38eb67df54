"""Answers that a well-behaved market never gives, and what is sent in reply to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from autopilot.clock import ScaledClock
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Created, CreateRequest, Done, MarketUnknown, RefusalCode, Refused, Unknown
from autopilot.providers.runpod import plugin
from autopilot.providers.runpod.adapter import RunpodProvider
from autopilot.providers.runpod.transport import USER_AGENT
from tests.contract.harness import QuickClock
from tests.integration.runpod.runpod_script import KEY, Http, Script, failed, one, pod, sample, serving, sweep
from tests.patience import PATIENCE_S

POD = "fkjbybgpwuvmhk"
OURS = "ap1.test.one"
EXITED = pod(desiredStatus="EXITED", runtime=None)
SPOT = CreateRequest(
    label="ap1.test.one",
    offer_id="NVIDIA RTX A4000/COMMUNITY/1",
    machine_id="NVIDIA RTX A4000/COMMUNITY/-",
    capacity_type=CapacityType.SPOT,
    bid=Decimal("0.22"),
    image="some/image:1",
    disk_gb=Decimal(40),
    env={},
    onstart="true",
)
ON_DEMAND = replace(SPOT, capacity_type=CapacityType.ON_DEMAND, bid=Decimal("0.24"))
QUERY = OfferQuery((("RTX A4000", 1),), Decimal(0), Decimal(40), verified_only=True, datacenter_only=False)
TYPES = {"data": {"gpuTypes": [{"id": "NVIDIA RTX A4000", "displayName": "RTX A4000", "memoryInGb": 16}]}}
RENTED = sample("graphql/podRentInterruptable.response")
NO_CAPACITY = sample("graphql/error_no_capacity_spot")
SPOT_REMOVED = Http(400, sample("graphql/error_spot_removed_http400"))
GONE = Http(410, {"error": "gone"})
REST_POD = sample("rest_v2/pod_running") | {"id": POD}


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    answers: dict[str, list[Any]] = {
        "probe": [{"data": {}}],
        "sweep": [sweep(pod())],
        "balance": [sample("graphql/myself_balance")],
        "pod": [one(pod())],
        "gpuTypes": [TYPES],
        "prices": [sample("graphql/gpuTypes_market.response")],
        "podRentInterruptable": [RENTED],
        "GET /v2/pods": [{"pods": [REST_POD]}],
        f"GET /v2/pods/{POD}": [REST_POD],
    }
    async with serving(Script(answers)) as started:
        yield started


@pytest.fixture
async def market(script: Script) -> AsyncIterator[RunpodProvider]:
    connected = connect(script)
    yield connected
    await connected.close()


def connect(script: Script, clock: Clock | None = None, **settings: Any) -> RunpodProvider:
    clock = clock or ScaledClock(datetime.now(UTC), 2000)
    connected = plugin.connect({"base_url": script.url, "api_key": KEY, "timeout_s": PATIENCE_S, **settings}, clock)
    assert isinstance(connected, RunpodProvider)
    return connected


def gone(script: Script) -> None:
    """GraphQL is withdrawn."""
    for name in ("probe", "sweep", "balance", "pod", "gpuTypes", "prices", "podRentInterruptable"):
        script.answers[name] = [GONE]


# -- lists and single reads


async def test_a_sweep_brings_pods_and_balance(script: Script, market: RunpodProvider) -> None:
    (instance,) = await market.instances()
    assert (instance.instance_id, instance.status) == (POD, InstanceStatus.RUNNING)
    assert (await market.account()).credit == Decimal("42.25")
    assert script.count("balance") == 0
    assert all(headers["User-Agent"] == USER_AGENT for _, headers, _ in script.seen)
    assert all(headers["Authorization"] == f"Bearer {KEY}" and KEY not in text for _, headers, text in script.seen)


async def test_a_balance_alone(script: Script, market: RunpodProvider) -> None:
    assert (await market.account()).credit == Decimal("42.25")
    script.answers["balance"] = [{"data": {"myself": {"clientBalance": None}}}]
    with pytest.raises(MarketUnknown, match="names no balance"):
        await market.account()


async def test_rows_of_strangers_are_read_for_id_and_name_alone(script: Script, market: RunpodProvider) -> None:
    odd = {"id": "theirs", "name": "notebook", "podType": "KUBERNETES", "desiredStatus": 7, "costPerHr": None}
    script.answers["sweep"] = [sweep(odd, pod(name=OURS), odd)]
    listed = {each.instance_id: each.label for each in await market.instances()}
    assert listed == {"theirs": "notebook", POD: OURS}
    gone(script)
    odd = {"id": "theirs", "name": "notebook", "status": None, "cost": "dear", "env": 7}
    script.answers["GET /v2/pods"] = [{"pods": [odd, odd, REST_POD | {"name": OURS}]}]
    script.answers["GET /v2/pods/theirs"] = [odd]
    assert len(await market.instances()) == 2
    theirs = await market.instance("theirs")
    assert theirs is not None
    assert theirs.label == "notebook"
    assert theirs.bills == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"data": None},
        {"data": {"myself": None}},
        sweep(pod()) | {"errors": [{"message": "one field failed"}]},
        {"data": {"myself": {"clientBalance": 1, "pods": None}}},
        sweep(None),
        sweep(pod(name=OURS), pod(name=OURS)),
        sweep(pod(name=None)),
        sweep(pod(name=OURS, podType=None)),
        sweep(pod(), balance="much"),
        "error code: 1010",
        sample("graphql/error_internal"),
        Http(502, "<html>"),
    ],
)
async def test_a_list_in_doubt_is_no_list(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["sweep"] = [answer]
    with pytest.raises(MarketUnknown) as raised:
        await market.instances()
    assert raised.value.code is None


@pytest.mark.parametrize(
    "answer", [Http(401, "{}"), sample("graphql/error_unauthorized_200"), Http(403, {"title": "No"})]
)
async def test_a_key_without_rights_is_named(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["sweep"] = [answer]
    with pytest.raises(MarketUnknown) as raised:
        await market.instances()
    assert raised.value.code is RefusalCode.NO_RIGHTS


async def test_reads_are_repeated_where_that_may_help(script: Script, market: RunpodProvider) -> None:
    script.answers["sweep"] = [Http(502, "<html>"), "error code: 1010", sweep(pod())]
    assert len(await market.instances()) == 1


async def test_a_read_that_is_limited_is_not_sent_again_at_once(script: Script, market: RunpodProvider) -> None:
    script.answers["sweep"] = [Http(429, "{}", {"Retry-After": "2"}), sweep(pod())]
    with pytest.raises(MarketUnknown) as raised:
        await market.instances()
    assert raised.value.code is RefusalCode.RATE_LIMITED
    assert script.count("sweep") == 1
    assert len(await market.instances()) == 1


async def test_terminated_pods_are_gone(script: Script, market: RunpodProvider) -> None:
    script.answers["sweep"] = [sweep(pod(desiredStatus="TERMINATED"))]
    script.answers["pod"] = [one(pod(desiredStatus="TERMINATED"))]
    assert await market.instances() == ()
    assert await market.instance(POD) is None


async def test_a_pod_that_a_list_lacks_is_asked_for_by_itself(script: Script, market: RunpodProvider) -> None:
    script.answers["sweep"], script.answers["pod"] = [sweep(pod(name=OURS))], [one(pod(name=OURS))]
    await market.instances()
    script.answers["sweep"] = [sweep()]
    with pytest.raises(MarketUnknown, match="stale"):
        await market.instances()
    script.answers["pod"] = [sample("graphql/pod_gone")]
    assert await market.instances() == ()


@pytest.mark.parametrize(
    "answer", [{"data": {}}, one(pod(id="another")), one({}), one([]), sample("graphql/error_internal")]
)
async def test_a_single_read_in_doubt(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["pod"] = [answer]
    with pytest.raises(MarketUnknown):
        await market.instance(POD)


@pytest.mark.parametrize("answer", [sample("graphql/pod_gone"), failed("pod", "pod not found")])
async def test_a_pod_that_is_plainly_not_there(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["pod"] = [answer]
    assert await market.instance(POD) is None


async def test_a_runtime_that_comes_and_goes(script: Script, market: RunpodProvider) -> None:
    started = datetime.now(UTC).isoformat()
    up, silent = pod(lastStartedAt=started), pod(lastStartedAt=started, runtime=None)
    script.answers["sweep"] = [sweep(silent), sweep(up), sweep(silent)]
    seen = [(await market.instances())[0].status for _ in range(3)]
    assert seen == [InstanceStatus.PROVISIONING, InstanceStatus.RUNNING, InstanceStatus.RUNNING]
    restarted = pod(lastStartedAt=datetime.now(UTC).isoformat(), runtime=None)
    script.answers["sweep"] = [sweep(restarted)]
    assert (await market.instances())[0].status is InstanceStatus.PROVISIONING


async def test_ids_that_are_none_are_never_sent(script: Script, market: RunpodProvider) -> None:
    evil = 'x"}) { id } }'
    with pytest.raises(MarketUnknown):
        await market.instance(evil)
    for outcome in (
        await market.destroy(evil),
        await market.stop(evil),
        await market.start(evil),
        await market.change_bid(evil, Decimal(1)),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.INVALID
    assert script.seen == []


# -- renting


async def test_a_spot_pod_is_rented_and_read_back(script: Script, market: RunpodProvider) -> None:
    assert await market.create(SPOT) == Done(Created(POD))
    sent = json.loads(script.asked("podRentInterruptable").partition(" ")[2])["variables"]["input"]
    assert (sent["bidPerGpu"], sent["name"]) == (0.22, SPOT.label)
    assert script.count("pod") == 1


@pytest.mark.parametrize("changes", [{"podType": "RESERVED"}, {"costPerHr": 0.5}])
async def test_other_terms_than_asked_for(script: Script, market: RunpodProvider, changes: dict[str, Any]) -> None:
    script.answers["pod"] = [one(pod(**changes))]
    outcome = await market.create(SPOT)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.instance_id) == (RefusalCode.WRONG_TERMS, POD)


@pytest.mark.parametrize("answer", [sample("graphql/pod_gone"), Http(502, "<html>")])
async def test_what_cannot_be_read_back_now_was_rented(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["pod"] = [answer]
    assert await market.create(SPOT) == Done(Created(POD))


async def test_an_answer_that_never_comes_is_unknown_and_nothing_is_sent_twice(script: Script) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(2 * PATIENCE_S)
        raise AssertionError("no call waits that long")

    script.answers["podRentInterruptable"] = [hang]
    script.answers["POST /v2/pods"] = [hang]
    market = connect(script, timeout_s=2)
    for request in (SPOT, ON_DEMAND):
        assert isinstance(await market.create(request), Unknown)
    assert (script.count("podRentInterruptable"), script.count("POST /v2/pods")) == (1, 1)
    await market.close()


@pytest.mark.parametrize(
    "answer", [Http(500, "{}"), Http(502, "<html>"), "error code: 1010", Http(307, "", {"Location": "/"})]
)
async def test_an_unreadable_answer_to_a_create(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["podRentInterruptable"] = script.answers["POST /v2/pods"] = [answer]
    for request in (SPOT, ON_DEMAND):
        assert isinstance(await market.create(request), Unknown)
    assert (script.count("podRentInterruptable"), script.count("POST /v2/pods")) == (1, 1)


async def test_a_cancelled_create_runs_to_its_end(script: Script, market: RunpodProvider) -> None:
    sent, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        sent.set()
        await go_on.wait()
        return web.json_response(RENTED)

    script.answers["podRentInterruptable"] = [slow]
    creating = asyncio.create_task(market.create(SPOT))
    await sent.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    go_on.set()
    await market.close()
    assert script.count("pod") == 1


async def test_on_demand_goes_by_rest(script: Script, market: RunpodProvider) -> None:
    script.answers["POST /v2/pods"] = [Http(201, REST_POD)]
    script.answers["pod"] = [one(pod(podType="RESERVED", costPerHr=0.24))]
    assert await market.create(ON_DEMAND) == Done(Created(POD))
    assert script.count("podRentInterruptable") == script.count("podFindAndDeployOnDemand") == 0


@pytest.mark.parametrize("answer", [Http(404, {"title": "Not Found"}), GONE])
async def test_on_demand_by_graphql_where_rest_has_no_route(
    script: Script, market: RunpodProvider, answer: Http
) -> None:
    script.answers["POST /v2/pods"] = [answer]
    script.answers["podFindAndDeployOnDemand"] = [{"data": {"podFindAndDeployOnDemand": {"id": POD}}}]
    script.answers["pod"] = [one(pod(podType="RESERVED"))]
    assert await market.create(ON_DEMAND) == Done(Created(POD))


async def test_with_both_interfaces_gone_nothing_is_to_be_had(script: Script, market: RunpodProvider) -> None:
    gone(script)
    script.answers["POST /v2/pods"] = script.answers["podFindAndDeployOnDemand"] = [GONE]
    for request in (ON_DEMAND, SPOT):
        outcome = await market.create(request)
        assert isinstance(outcome, Refused)
        assert outcome.code is RefusalCode.OFFER_GONE


# -- whether there is spot


@pytest.mark.slow
async def test_the_probe_rents_nothing_and_turns_spot_on(script: Script, market: RunpodProvider) -> None:
    assert not market.capabilities.spot
    offers = await market.offers(QUERY)
    assert market.capabilities.spot
    assert market.capabilities.can_rebid
    assert {offer.floor for offer in offers} == {Decimal("0.2"), Decimal("0.16")}
    assert script.count("podRentInterruptable") == 0
    assert script.count("probe") == 1


async def test_spot_that_is_not_in_the_schema_any_more(script: Script, market: RunpodProvider) -> None:
    script.answers["probe"] = [SPOT_REMOVED]
    offers = await market.offers(QUERY)
    assert offers
    assert {offer.floor for offer in offers} == {None}
    assert not market.capabilities.spot
    assert "not in the API any more" in market.spot_reason
    assert script.count("probe") == 1
    outcome = await market.create(SPOT)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    assert script.count("podRentInterruptable") == 0


async def test_spot_that_is_removed_between_probe_and_request(script: Script, market: RunpodProvider) -> None:
    script.answers["podRentInterruptable"] = [SPOT_REMOVED]
    outcome = await market.create(SPOT)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.OFFER_GONE
    assert not market.capabilities.spot


async def test_no_supply_is_learned_from_refusals_in_a_row(script: Script, market: RunpodProvider) -> None:
    script.answers["podRentInterruptable"] = [NO_CAPACITY, NO_CAPACITY, RENTED, NO_CAPACITY]
    for _ in range(5):
        await market.create(SPOT)
    assert market.capabilities.spot
    await market.create(SPOT)
    assert not market.capabilities.spot
    assert "want of capacity" in market.spot_reason


@pytest.mark.parametrize("answer", [Http(502, "<html>"), Http(401, "{}"), Http(429, "{}")])
async def test_a_probe_without_a_clear_answer_changes_nothing(script: Script, answer: Http) -> None:
    script.answers["probe"] = [answer]
    market = connect(script, clock := QuickClock())
    await market.instances()
    assert (market.capabilities.spot, market.capabilities.may_have_spot) == (False, True)
    assert "HTTP" in market.spot_reason
    script.answers["probe"] = [{"data": {}}]
    clock.advance(100)
    await market.instances()
    assert market.capabilities.spot
    await market.close()


async def test_spot_without_news_for_a_quarter_of_an_hour_is_not_waited_for(
    script: Script,
) -> None:
    script.answers["probe"] = [Http(502, "<html>")]
    market = connect(script, clock := QuickClock())
    await market.instances()
    clock.advance(4000)
    await market.instances()
    assert (market.capabilities.spot, market.capabilities.may_have_spot) == (False, False)
    await market.close()


@pytest.mark.parametrize("answer", [SPOT_REMOVED, GONE])
async def test_spot_is_probed_again_daily(script: Script, answer: Http) -> None:
    script.answers["probe"] = [answer, {"data": {}}]
    market = connect(script, clock := QuickClock())
    await market.instances()
    await market.instances()
    assert (market.capabilities.spot, script.count("probe")) == (False, 1)
    clock.advance(28 * 3600)
    await market.instances()
    assert (market.capabilities.spot, script.count("probe")) == (True, 2)
    assert script.seen[-1][0] == "sweep"
    await market.close()


# -- GraphQL is withdrawn


async def test_without_graphql_everything_goes_by_rest(script: Script, market: RunpodProvider) -> None:
    await market.instances()
    gone(script)
    script.answers["podStop"] = script.answers["podTerminate"] = [GONE]
    script.answers["POST /v2/pods"] = [Http(201, REST_POD)]
    script.answers[f"POST /v2/pods/{POD}/action"] = [REST_POD]
    script.answers[f"DELETE /v2/pods/{POD}"] = [Http(204)]
    script.answers["GET /v2/catalog/gpus"] = [sample("rest_v2/catalog_gpus")]
    (instance,) = await market.instances()
    assert instance.capacity_type is CapacityType.ON_DEMAND
    assert not market.capabilities.spot
    assert (await market.account()).credit is None
    offers = await market.offers(replace(QUERY, gpus=(("RTX 4090", 2),)))
    assert {(offer.floor, offer.on_demand_price) for offer in offers} == {
        (None, Decimal("0.88")),
        (None, Decimal("0.62")),
    }
    request = replace(ON_DEMAND, offer_id="NVIDIA GeForce RTX 4090/SECURE/1", bid=Decimal("0.44"))
    assert await market.create(request) == Done(Created(POD))
    assert await market.stop(POD) == Done(None)
    assert await market.start(POD) == Done(None)
    assert await market.destroy(POD) == Done(None)
    assert script.count("sweep") == 2


@pytest.mark.parametrize("answer", [GONE, Http(410, "<html>")])
async def test_a_destroy_that_finds_graphql_gone_goes_on_by_rest(
    script: Script, market: RunpodProvider, answer: Http
) -> None:
    """The SDK takes the first of these for a success."""
    script.answers["podTerminate"] = script.answers["pod"] = [answer]
    script.answers[f"DELETE /v2/pods/{POD}"] = [Http(204)]
    assert await market.destroy(POD) == Done(None)
    assert script.count(f"DELETE /v2/pods/{POD}") == 1


@pytest.mark.parametrize(
    "page",
    [
        {"pods": [REST_POD], "nextCursor": "x"},
        {"pods": None},
        {"pods": [{}]},
        {"pods": [REST_POD | {"name": OURS}] * 2},
    ],
)
async def test_a_rest_list_in_doubt(script: Script, market: RunpodProvider, page: dict[str, Any]) -> None:
    gone(script)
    script.answers["GET /v2/pods"] = [page]
    with pytest.raises(MarketUnknown):
        await market.instances()


# -- stop, terminate, resume


async def test_terminate_is_verified(script: Script, market: RunpodProvider) -> None:
    script.answers["podTerminate"] = [sample("graphql/podTerminate")]
    assert isinstance(await market.destroy(POD), Unknown)
    script.answers["pod"] = [sample("graphql/pod_gone")]
    assert await market.destroy(POD) == Done(None)


@pytest.mark.parametrize(
    "answer",
    [Http(429, {"error": "slow down"}), Http(502, "<html>"), sample("graphql/error_internal"), Http(500, {"e": 1})],
)
async def test_a_terminate_that_was_not_carried_out(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["podTerminate"] = [answer]
    assert isinstance(await market.destroy(POD), Unknown)
    script.answers["pod"] = [sample("graphql/pod_gone")]
    assert await market.destroy(POD) == Done(None)


async def test_a_pod_that_is_shown_is_not_taken_for_one_that_was_not_found(
    script: Script, market: RunpodProvider
) -> None:
    script.answers["podTerminate"] = script.answers["podStop"] = [sample("graphql/error_terminate_not_found")]
    assert isinstance(await market.destroy(POD), Unknown)
    assert isinstance(await market.stop(POD), Unknown)
    script.answers["pod"] = [sample("graphql/pod_gone")]
    assert await market.destroy(POD) == Done(None)
    stopped = await market.stop(POD)
    assert isinstance(stopped, Refused)
    assert stopped.code is RefusalCode.NOT_FOUND


async def test_a_terminate_that_cannot_be_verified(script: Script, market: RunpodProvider) -> None:
    script.answers["podTerminate"] = [sample("graphql/podTerminate")]
    script.answers["pod"] = [Http(502, "<html>")]
    assert isinstance(await market.destroy(POD), Unknown)
    script.answers["podTerminate"] = [Http(401, "{}")]
    outcome = await market.destroy(POD)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.NO_RIGHTS


async def test_stop(script: Script, market: RunpodProvider) -> None:
    script.answers["podStop"] = [sample("graphql/podStop")]
    assert await market.stop(POD) == Done(None)
    assert script.count("pod") == 0
    script.answers["podStop"] = [Http(429, {"error": "slow down"})]
    assert isinstance(await market.stop(POD), Unknown)
    script.answers["pod"] = [one(EXITED)]
    assert await market.stop(POD) == Done(None)


async def test_a_stopped_spot_pod_is_resumed_with_the_new_bid(script: Script, market: RunpodProvider) -> None:
    script.answers["pod"] = [one(EXITED | {"gpuCount": 3})]
    script.answers["podBidResume"] = [sample("graphql/podBidResume")]
    assert await market.change_bid(POD, Decimal("0.31")) == Done(Decimal("0.310002"))
    variables = json.loads(script.asked("podBidResume").partition(" ")[2])["variables"]
    assert variables == {"podId": POD, "bidPerGpu": 0.103334, "gpuCount": 3}


async def test_the_bid_of_a_running_pod_cannot_be_changed(script: Script, market: RunpodProvider) -> None:
    outcome = await market.change_bid(POD, Decimal("0.31"))
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.INVALID
    assert script.count("podBidResume") == 0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (sample("graphql/error_resume_no_free_gpus"), RefusalCode.OFFER_GONE),
        (sample("graphql/error_balance_resume"), RefusalCode.OUT_OF_CREDIT),
        (failed("podBidResume", "no"), RefusalCode.INVALID),
        (Http(400, sample("graphql/error_validation_http400")), RefusalCode.INVALID),
        (sample("graphql/error_internal"), None),
        (Http(502, "<html>"), None),
        ({"data": {"podBidResume": None}}, None),
    ],
)
async def test_resumes_that_fail(
    script: Script, market: RunpodProvider, answer: Any, expected: RefusalCode | None
) -> None:
    script.answers["pod"] = [one(EXITED)]
    script.answers["podBidResume"] = [answer]
    for outcome in (await market.change_bid(POD, Decimal("0.3")), await market.start(POD)):
        assert getattr(outcome, "code", None) is expected
        assert isinstance(outcome, Refused | Unknown)


async def test_start(script: Script, market: RunpodProvider) -> None:
    assert await market.start(POD) == Done(None)
    assert script.seen[-1][0] == "pod"
    script.answers["pod"] = [one(EXITED)]
    script.answers["podBidResume"] = [sample("graphql/podBidResume")]
    assert await market.start(POD) == Done(None)
    assert '"bidPerGpu": 0.22' in script.asked("podBidResume")
    script.answers["pod"] = [one(EXITED | {"podType": "RESERVED"})]
    script.answers["podResume"] = [{"data": {"podResume": {"id": POD}}}]
    assert await market.start(POD) == Done(None)
    assert script.count("podBidResume") == 1


async def test_nothing_is_sent_to_a_pod_that_is_not_there_or_not_to_be_seen(
    script: Script, market: RunpodProvider
) -> None:
    script.answers["pod"] = [sample("graphql/pod_gone")]
    outcome = await market.start(POD)
    assert isinstance(outcome, Refused)
    assert outcome.code is RefusalCode.NOT_FOUND
    script.answers["pod"] = [Http(502, "<html>")]
    assert isinstance(await market.change_bid(POD, Decimal(1)), Unknown)
    assert script.count("podBidResume") == 0


# -- offers and bills


async def test_prices_are_asked_for_once_for_all_types(script: Script, market: RunpodProvider) -> None:
    types = [*TYPES["data"]["gpuTypes"], {"id": "NVIDIA A100 80GB PCIe", "displayName": "A100 PCIe", "memoryInGb": 80}]
    script.answers["gpuTypes"] = [{"data": {"gpuTypes": types}}]
    slow = connect(script, offers_max_age_s=1e6)
    await slow.offers(QUERY)
    await slow.offers(replace(QUERY, disk_gb=Decimal(80)))
    assert script.count("prices") == 1
    both = await slow.offers(replace(QUERY, gpus=(("rtx a4000", 1), ("NVIDIA A100 80GB PCIe", 1))))
    assert {offer.gpu for offer in both} == {"rtx a4000", "NVIDIA A100 80GB PCIe"}
    assert script.count("prices") == 2
    await slow.offers(QUERY)
    assert (script.count("prices"), script.count("gpuTypes")) == (2, 1)
    await slow.close()


async def test_offers_keep_to_what_was_asked(script: Script, market: RunpodProvider) -> None:
    assert await market.offers(replace(QUERY, gpus=(("RTX 5090", 1),))) == ()
    assert script.count("prices") == 0
    (only,) = await market.offers(replace(QUERY, datacenter_only=True))
    assert only.datacenter
    assert await market.offers(replace(QUERY, min_vram_gb=Decimal(24))) == ()
    assert await market.offers(replace(QUERY, disk_gb=Decimal(5000))) == ()


@pytest.mark.parametrize("answer", [{"data": {"gpuTypes": None}}, {"data": None}, Http(502, "<html>"), Http(401, "{}")])
async def test_a_catalogue_or_prices_in_doubt(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["gpuTypes"] = [answer, TYPES]
    with pytest.raises(MarketUnknown):
        await market.offers(QUERY)
    script.answers["prices"] = [answer]
    with pytest.raises(MarketUnknown):
        await market.offers(QUERY)


async def test_bills_of_whole_days(script: Script, market: RunpodProvider) -> None:
    script.answers["GET /v2/billing/pods"] = [sample("rest_v2/billing_pods")]
    charges = await market.charges(date(2026, 6, 1), date(2026, 6, 1))
    assert sum(charge.amount for charge in charges) == Decimal("12.34")
    asked = script.asked("GET /v2/billing/pods")
    assert "bucketSize=day" in asked
    assert "startTime=2026-06-01T00:00:00Z&endTime=2026-06-02T00:00:00Z" in asked


@pytest.mark.parametrize(
    "answer",
    [{"records": None}, {"records": [{}]}, {"records": [], "metadata": {"recordCount": 1}}, Http(410, "{}")],
)
async def test_bills_in_doubt(script: Script, market: RunpodProvider, answer: Any) -> None:
    script.answers["GET /v2/billing/pods"] = [answer]
    with pytest.raises(MarketUnknown):
        await market.charges(date(2026, 6, 1), date(2026, 6, 1))


async def test_a_body_without_end_is_given_up(script: Script, market: RunpodProvider) -> None:
    script.answers["sweep"] = ["x" * (9 * 2**20)]
    with pytest.raises(MarketUnknown, match="larger than"):
        await market.instances()


async def test_the_key_of_a_team_says_which(script: Script) -> None:
    market = connect(script, team_id="team-1")
    script.answers["podStop"] = script.answers["podTerminate"] = [{"data": {}}]
    await market.instances()
    await market.offers(QUERY)
    await market.stop(POD)
    await market.destroy(POD)
    assert script.count("gpuTypes") == script.count("podStop") == script.count("podTerminate") == 1
    assert {headers.get("X-Team-Id") for _, headers, _ in script.seen} == {"team-1"}
    await market.close()
