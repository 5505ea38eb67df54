"""Scripted faults: what the caller sees, and what happened behind it."""

import asyncio
from typing import Any

import aiohttp
import pytest
import requests

LIST = "/api/v1/instances/"


async def labels(desk: Any) -> list[str]:
    return [row["label"] for row in (await desk.emu("GET", "instances"))["instances"]]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_server_errors_without_effect(desk: Any, status: int) -> None:
    await desk.emu("POST", "fault", on="create", kind=f"http_{status}")
    with pytest.raises(requests.HTTPError) as caught:
        await desk.rent(label="a")
    assert caught.value.response.status_code == status
    assert await labels(desk) == []
    await desk.rent(label="b")
    assert await labels(desk) == ["b"]


async def test_429_in_both_spellings(desk: Any) -> None:
    await desk.emu("POST", "fault", on="list", kind="http_429", times=1, detail=True, retry_after=1.5)
    async with desk.http.get(f"{desk.url}{LIST}", headers={"Authorization": "Bearer sandbox-key"}) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "1.5")
        assert "detail" in await response.json()
    await desk.emu("POST", "fault", on="list", kind="http_429")
    status, text = await desk.raw("GET", LIST)
    assert (status, text.startswith("API requests too frequent")) == (429, True)


async def test_effect_then_500(desk: Any) -> None:
    await desk.emu("POST", "fault", on="create", kind="effect_then_500")
    with pytest.raises(requests.HTTPError):
        await desk.rent(label="ghost")
    assert await labels(desk) == ["ghost"]


async def test_effect_then_timeout(desk: Any) -> None:
    desk.vast.client.timeout = 0.3
    offer = await desk.offer()
    await desk.emu("POST", "fault", on="create", kind="effect_then_timeout")
    with pytest.raises(requests.exceptions.Timeout):
        await desk.sdk("create_instance", offer["id"], image="x", disk=10, price=0.5, label="ghost")
    assert await labels(desk) == ["ghost"]


async def test_a_hanging_call_is_dropped_in_the_end(desk: Any) -> None:
    await desk.emu("POST", "fault", on="list", kind="effect_then_timeout", hang_s=0.1)
    with pytest.raises(requests.exceptions.ConnectionError):
        await desk.sdk("show_instances_v1", {"limit": 25})


async def test_a_hanging_call_does_not_hold_up_the_stop(desk: Any) -> None:
    await desk.emu("POST", "fault", on="list", kind="effect_then_timeout")
    call = asyncio.create_task(desk.raw("GET", LIST))

    async def arrived() -> bool:
        return bool((await desk.emu("GET", "requests")).get("list") == 1)

    await desk.eventually(arrived)
    assert not call.done()
    await desk.sandbox.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await call


async def test_resets_with_and_without_effect(desk: Any) -> None:
    await desk.emu("POST", "fault", on="create", kind="reset")
    with pytest.raises(requests.exceptions.ConnectionError):
        await desk.rent(label="never")
    await desk.emu("POST", "fault", on="create", kind="effect_then_reset")
    with pytest.raises(requests.exceptions.ConnectionError):
        await desk.rent(label="ghost")
    assert await labels(desk) == ["ghost"]


@pytest.mark.parametrize("kind", ["html", "empty", "bad_json"])
async def test_unreadable_bodies(desk: Any, kind: str) -> None:
    await desk.emu("POST", "fault", on="create", kind=kind)
    with pytest.raises(requests.exceptions.JSONDecodeError):
        await desk.rent(label="ghost")
    assert await labels(desk) == ["ghost"]


async def test_success_false_at_create_leaves_a_stopped_contract(desk: Any) -> None:
    offer = await desk.offer()
    await desk.emu("POST", "fault", on="create", kind="success_false")
    reply = await desk.sdk("create_instance", offer["id"], image="x", disk=10, price=5, cancel_unavail=True)
    assert reply["success"] is False
    assert (await desk.row(reply["new_contract"]))["cur_state"] == "stopped"
    assert (await desk.sdk("change_bid", reply["new_contract"], price=6))["success"] is True
    assert (await desk.row(reply["new_contract"]))["cur_state"] == "running"


@pytest.mark.parametrize("kind", ["success_false", "no_effect_success"])
async def test_a_destroy_that_does_nothing(desk: Any, kind: str) -> None:
    instance_id = await desk.rent()
    await desk.emu("POST", "fault", on="destroy", kind=kind)
    assert (await desk.sdk("destroy_instance", instance_id))["success"] is (kind == "no_effect_success")
    assert (await desk.row(instance_id))["id"] == instance_id
    await desk.sdk("destroy_instance", instance_id)
    assert await desk.sdk("show_instance", instance_id) is None


async def test_null_fields_break_the_sdks_own_row_but_not_the_page(desk: Any) -> None:
    instance_id = await desk.rent()
    await desk.advance(50)
    await desk.emu("POST", "fault", on="show", kind="null_fields")
    with pytest.raises(TypeError):
        await desk.sdk("show_instance", instance_id)
    await desk.emu("POST", "fault", on="list", kind="null_fields")
    row = (await desk.sdk("show_instances_v1", {"limit": 25}))["instances"][0]
    assert (row["start_date"], row["extra_env"]) == (None, None)


async def test_a_stale_list_knows_neither_the_new_nor_the_gone(desk: Any) -> None:
    async def listed() -> list[int]:
        return [row["id"] for row in (await desk.sdk("show_instances_v1", {"limit": 25}))["instances"]]

    old = await desk.rent(0.01)
    await desk.advance(60)
    await desk.sdk("destroy_instance", old)
    new = await desk.rent(0.01)
    await desk.emu("POST", "fault", on="list", kind="stale_list", lag_s=30)
    assert await listed() == [old]
    assert await listed() == [new]


async def test_a_truncated_page_contradicts_its_own_total(desk: Any) -> None:
    for _ in range(3):
        await desk.rent(0.01)
    await desk.emu("POST", "fault", on="list", kind="truncated_page")
    page = await desk.sdk("show_instances_v1", {"limit": 25})
    assert (len(page["instances"]), page["total_instances"], page["next_token"]) == (1, 3, None)


async def test_search_quota_on_demand(desk: Any) -> None:
    await desk.emu("POST", "fault", on="search", kind="quota")
    with pytest.raises(requests.HTTPError) as caught:
        await desk.offer()
    assert caught.value.response.json()["error"] == "search_quota_exceeded"


async def test_a_redirected_put_loses_its_body(desk: Any) -> None:
    await desk.emu("POST", "fault", on="user", kind="redirect")
    assert (await desk.sdk("show_user"))["credit"] == 100
    instance_id = await desk.rent(0.5)
    await desk.emu("POST", "fault", on="state", kind="redirect")
    with pytest.raises(requests.HTTPError):
        await desk.sdk("stop_instance", instance_id)
    assert (await desk.row(instance_id))["intended_status"] == "running"


@pytest.mark.parametrize(("kind", "status"), [("stuck_loading", "loading"), ("pull_failed", "created")])
async def test_instances_that_never_start(desk: Any, kind: str, status: str) -> None:
    await desk.emu("POST", "fault", on="create", kind=kind)
    instance_id = await desk.rent(0.5)
    await desk.advance(7200)
    row = await desk.row(instance_id)
    assert (row["actual_status"], row["intended_status"]) == (status, "running")
    assert row["instance"]["gpuCostPerHour"] == 0


async def test_faults_for_ever_until_cleared(desk: Any) -> None:
    await desk.emu("POST", "fault", on="list", kind="http_500", times=None)
    assert {(await desk.raw("GET", LIST))[0] for _ in range(5)} == {500}
    await desk.emu("DELETE", "faults")
    assert (await desk.raw("GET", LIST))[0] == 200
    assert (await desk.emu("GET", "requests"))["list"] == 6


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fault", {"on": "nothing", "kind": "reset"}),
        ("fault", {"on": "list", "kind": "nothing"}),
        ("fault", {"on": "list", "kind": "reset", "extra": 1}),
        ("fault", {"on": "list", "kind": "reset", "times": "often"}),
        ("fault", {"on": "list", "kind": "reset", "probability": "high"}),
        ("floor", {"machine_id": 1, "price": 1}),
        ("host", {"machine_id": 43567, "state": "asleep"}),
        ("rival", {"machine_id": 43567, "bid": "many"}),
        ("traffic", {"instance_id": 5, "down_gb": 1}),
    ],
)
async def test_control_mistakes_are_explained(desk: Any, name: str, body: dict[str, object]) -> None:
    async with desk.http.post(f"{desk.url}/_emu/{name}", json=body) as response:
        assert response.status == 400
        assert (await response.json())["error"]


async def test_control_of_the_market(desk: Any) -> None:
    instance_id = await desk.rent(0.5)
    machine_id = (await desk.row(instance_id))["machine_id"]
    await desk.emu("POST", "on_demand_arrival", machine_id=machine_id, duration_s=60)
    assert (await desk.emu("GET", "instances"))["instances"][0]["cause"] == "displaced"
    await desk.advance(60)
    rival = await desk.emu("POST", "rival", machine_id=machine_id, bid="0.7")
    assert rival["holding"] is True
    await desk.emu("DELETE", "rival", id=rival["id"])
    await desk.emu("POST", "host", machine_id=machine_id, state="offline")
    assert (await desk.row(instance_id))["actual_status"] == "offline"
    await desk.emu("POST", "host", machine_id=machine_id, state="online")
    await desk.emu("POST", "floor", machine_id=machine_id, price="0.6")
    machine = next(m for m in (await desk.emu("GET", "machines"))["machines"] if m["machine_id"] == machine_id)
    assert (machine["floor"], machine["tenants"]) == ("0.6", [instance_id])
    kinds = [event["kind"] for event in (await desk.emu("GET", "events"))["events"]]
    assert kinds.count("instance.paused") == 3
    clock = await desk.emu("GET", "clock")
    assert (clock["origin"], clock["speed"], clock["now"]) == (None, 1.0, "2026-11-21T07:01:00+00:00")
