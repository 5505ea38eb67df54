"""Every kind of fault: what it looks like, and whether the call took effect."""

import asyncio
from typing import Any

import aiohttp
import pytest

from autopilot_lab.sandbox.runpod import injected_faults
from tests.integration.sandbox_runpod.runpod_desk import AGENT, RENT, Refusal, sample

WISH = {"bidPerGpu": 0.25, "gpuTypeId": "NVIDIA GeForce RTX 3090", "imageName": "x", "name": "n"}


async def raw_rent(desk: Any) -> tuple[int, str, str]:
    """Status, content type and text."""
    body = {"query": RENT % "id", "variables": {"input": WISH}}
    async with desk.http.post(f"{desk.url}/graphql", json=body, headers=desk.headers()) as response:
        return response.status, response.content_type, await response.text()


async def rented(desk: Any) -> int:
    kinds: list[str] = await desk.kinds()
    return kinds.count("pod.rented")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "status", "content_type"),
    [
        ("http_401", 401, "application/problem+json"),
        ("http_403", 403, "application/problem+json"),
        ("http_410", 410, "application/problem+json"),
        ("http_429", 429, "application/problem+json"),
        ("http_429_html", 429, "text/html"),
        ("http_500", 500, "application/problem+json"),
        ("http_500_html", 500, "text/html"),
        ("http_502", 502, "text/html"),
        ("http_503", 503, "application/problem+json"),
        ("http_504", 504, "application/problem+json"),
        ("cloudflare_1010", 403, "text/html"),
        ("cloudflare_1010_with_200", 200, "text/html"),
        ("internal_error", 200, "application/json"),
        ("unauthorized_200", 200, "application/json"),
        ("null_result", 200, "application/json"),
        ("data_null", 200, "application/json"),
        ("no_resources", 200, "application/json"),
    ],
)
async def test_a_lost_call_has_no_effect(desk: Any, kind: str, status: int, content_type: str) -> None:
    await desk.emu("POST", "fault", on="podRentInterruptable", kind=kind)
    assert (await raw_rent(desk))[:2] == (status, content_type)
    assert await rented(desk) == 0
    assert (await raw_rent(desk))[0] == 200
    assert await rented(desk) == 1


async def test_the_bodies_of_spoilt_answers_are_the_sampled_ones(desk: Any) -> None:
    create = "mutation{podFindAndDeployOnDemand{id}}"
    for kind, name, call in (
        ("internal_error", "error_internal", desk.resume_on_demand("p")),
        ("no_resources", "error_no_resources_machine", desk.gql(create)),
    ):
        known = sample(f"graphql/{name}.json")
        await desk.emu("POST", "fault", on=known["errors"][0]["path"][0], kind=kind)
        with pytest.raises(Refusal) as caught:
            await call
        assert (caught.value.status, caught.value.body) == (200, known)
    await desk.emu("POST", "fault", on="podFindAndDeployOnDemand", kind="null_result")
    known = sample("graphql/error_no_capacity_null_shape.json")
    assert await desk.gql(create) == known["data"]


async def test_a_lost_connection_has_no_effect(desk: Any) -> None:
    for fault in ({"kind": "reset"}, {"kind": "hang", "hang_s": 0.1}):
        await desk.emu("POST", "fault", on="podRentInterruptable", **fault)
        with pytest.raises((aiohttp.ClientConnectionError, aiohttp.ServerDisconnectedError)):
            await raw_rent(desk)
    assert await rented(desk) == 0


@pytest.mark.parametrize("kind", sorted(injected_faults.UNHEARD))
async def test_an_unheard_call_has_taken_effect(desk: Any, kind: str) -> None:
    await desk.emu("POST", "fault", on="podRentInterruptable", kind=kind, hang_s=0.1)
    if kind in ("effect_then_timeout", "effect_then_reset"):
        with pytest.raises((aiohttp.ClientConnectionError, aiohttp.ServerDisconnectedError)):
            await raw_rent(desk)
    else:
        status, _, text = await raw_rent(desk)
        assert status == (500 if kind == "effect_then_500" else 200)
        assert '"id"' not in text
    assert await rented(desk) == 1
    pods = (await desk.gql("{myself{pods{name}}}"))["myself"]["pods"]
    assert pods == [{"name": "n"}]


async def test_a_refused_call_is_heard_though_a_fault_waits(desk: Any) -> None:
    await desk.emu("POST", "fault", on="podRentInterruptable", kind="html")
    with pytest.raises(Refusal):
        await desk.rent(bid=0.0001)


async def test_retry_after(desk: Any) -> None:
    await desk.emu("POST", "fault", on="myself", kind="http_429", retry_after=12)
    async with desk.http.post(f"{desk.url}/graphql", json={"query": "{myself{id}}"}, headers=desk.headers()) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "12")


async def test_a_runtime_that_is_not_known_in_time(desk: Any) -> None:
    pod_id = await desk.running()
    await desk.emu("POST", "fault", on="pod", kind="null_runtime")
    fields = "desiredStatus runtime{uptimeInSeconds}"
    assert await desk.pod(pod_id, fields) == {"desiredStatus": "RUNNING", "runtime": None}
    assert (await desk.pod(pod_id, fields))["runtime"] == {"uptimeInSeconds": 0}
    await desk.emu("POST", "fault", on="v2.show", kind="null_runtime")
    assert (await desk.rest("GET", f"/v2/pods/{pod_id}"))[1]["runtime"] is None


async def test_stale_and_truncated_lists(desk: Any) -> None:
    async def listed() -> list[str]:
        return [pod["id"] for pod in (await desk.gql("{myself{pods{id}}}"))["myself"]["pods"]]

    old = await desk.running()
    new = (await desk.rent())["id"]
    await desk.emu("POST", "fault", on="myself", kind="stale_list", lag_s=30)
    assert await listed() == [old]
    await desk.emu("POST", "fault", on="myself", kind="truncated_list")
    assert await listed() == [old]
    await desk.terminate(old)
    await desk.emu("POST", "fault", on="myself", kind="stale_list", lag_s=30)
    assert await listed() == [old]
    assert await listed() == [new]
    await desk.emu("POST", "fault", on="v2.list", kind="stale_list", lag_s=30)
    assert [pod["id"] for pod in (await desk.rest("GET", "/v2/pods"))[1]["pods"]] == [old]


async def test_a_bad_host_never_gets_a_runtime(desk: Any) -> None:
    await desk.emu("POST", "fault", on="podRentInterruptable", kind="no_runtime")
    pod_id = (await desk.rent())["id"]
    await desk.advance(3600)
    row = await desk.pod(pod_id, "desiredStatus runtime{uptimeInSeconds} latestTelemetry{state}")
    assert row == {"desiredStatus": "RUNNING", "runtime": None, "latestTelemetry": None}
    assert (await desk.emu("GET", "books"))["books"][0]["cost"]["gpu"] == "0.250000000"


async def test_python_urllib_is_turned_away(desk: Any) -> None:
    headers = desk.headers() | {"User-Agent": "Python-urllib/3.11"}
    async with desk.http.post(f"{desk.url}/graphql", json={"query": "{myself{id}}"}, headers=headers) as response:
        assert (response.status, await response.text()) == (403, "error code: 1010")
    async with desk.http.get(f"{desk.url}/v2/pods", headers=headers) as response:
        assert response.status == 403


async def test_rest_faults(desk: Any) -> None:
    await desk.emu("POST", "fault", on="v2.create", kind="effect_then_500")
    assert (await desk.create())[0] == 500
    assert await rented(desk) == 1
    await desk.emu("POST", "fault", on="v2.delete", kind="http_403")
    pod_id = (await desk.rest("GET", "/v2/pods"))[1]["pods"][0]["id"]
    assert (await desk.rest("DELETE", f"/v2/pods/{pod_id}"))[0] == 403
    assert (await desk.rest("DELETE", f"/v2/pods/{pod_id}"))[0] == 204


async def test_wrong_wishes_of_the_control_api(desk: Any) -> None:
    for name, body in (
        ("fault", {"on": "nothing", "kind": "reset"}),
        ("fault", {"on": "v2.create", "kind": "null_result"}),
        ("fault", {"on": "myself", "kind": "bad"}),
        ("mode", {"spot": "maybe"}),
        ("floor", {"machine_id": "none", "price": 1}),
        ("floor", {"machine_id": (await desk.machine())["machine_id"]}),
        ("rival", {"pod_id": "none", "bid": 1}),
        ("rival", {"machine_id": (await desk.machine())["machine_id"], "bid": 1, "gpu_count": 2}),
        ("balance", {"amount": "much"}),
        ("host", {"machine_id": (await desk.machine())["machine_id"], "state": "burning"}),
    ):
        async with desk.http.post(f"{desk.url}/_emu/runpod/{name}", json=body) as response:
            assert response.status == 400, (name, body)
            assert (await response.json())["error"]


async def test_a_hanging_call_does_not_hold_up_the_end(open_desk: Any) -> None:
    desk = await open_desk()
    await desk.emu("POST", "fault", on="myself", kind="hang")
    body = {"query": "{myself{id}}"}
    hanging = asyncio.create_task(desk.post(body, headers=AGENT | desk.headers()))
    await asyncio.sleep(0.1)
    await desk.sandbox.stop()
    with pytest.raises(aiohttp.ClientError):
        await hanging
