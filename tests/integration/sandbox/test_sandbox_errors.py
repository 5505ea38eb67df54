"""Error bodies, authorisation, redirects, rate limits and quotas."""

import json
from pathlib import Path
from typing import Any

import pytest

ERRORS = json.loads((Path(__file__).parents[2] / "assets" / "vastai" / "errors.json").read_text())
LIST = "/api/v1/instances/"


def body_of(on: str, **replaced: object) -> tuple[int, Any]:
    """The documented reply for a situation."""
    entry = next(entry for entry in ERRORS if entry.get("on", "").startswith(on))
    text = json.dumps(entry["body"])
    return entry["status"], json.loads(text.replace("1234567", str(replaced.get("ask", 1234567))))


async def test_unknown_offer(desk: Any) -> None:
    order = {"image": "x", "disk": 10, "price": 0.2}
    assert await desk.raw("PUT", "/api/v0/asks/1234567/", json=order) == body_of("PUT /asks/{id}/")


async def test_taken_offer_has_another_id_from_then_on(desk: Any) -> None:
    offer = await desk.offer("on-demand")
    await desk.rent(None)
    order = {"image": "x", "disk": 10}
    reply = await desk.raw("PUT", f"/api/v0/asks/{offer['id']}/", json=order)
    assert reply == body_of("PUT /asks/{id}/", ask=offer["id"])


async def test_cancel_unavail_is_410_and_makes_no_contract(desk: Any) -> None:
    ask = (await desk.offer())["id"]
    order = {"image": "x", "disk": 10, "price": 0.01, "cancel_unavail": True}
    assert await desk.raw("PUT", f"/api/v0/asks/{ask}/", json=order) == body_of(
        "PUT /asks/{id}/ cancel_unavail", ask=ask
    )
    assert (await desk.raw("GET", LIST))[1]["total_instances"] == 0


async def test_an_offer_id_that_is_none(desk: Any) -> None:
    order = {"image": "x", "disk": 10}
    status, body = await desk.raw("PUT", "/api/v0/asks/abc/", json=order)
    expected = next(entry for entry in ERRORS if "3467" in json.dumps(entry.get("body", "")))
    assert (status, body) == (expected["status"], expected["body"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"env": "-e A=b"},
        {"env": {"A": "x" * 257}},
        {"env": {"A=B": "x"}},
        {"env": {f"K{n}": "x" * 250 for n in range(140)}},
        {"disk": 7},
        {"disk": "NaN"},
        {"price": 0.0005},
        {"price": 129},
        {"price": "cheap"},
        {"label": "x" * 257},
        {"onstart": "x" * 4097},
        {"image": None},
        {"args": "ls"},
    ],
)
async def test_what_create_does_not_take(desk: Any, wrong: dict[str, object]) -> None:
    ask = (await desk.offer())["id"]
    order = {"image": "x", "disk": 10, "price": 0.5} | wrong
    status, body = await desk.raw("PUT", f"/api/v0/asks/{ask}/", json=order)
    assert status == 400
    assert body["success"] is False
    assert (await desk.raw("GET", LIST))[1]["total_instances"] == 0


async def test_no_credit(desk: Any) -> None:
    instance_id = await desk.rent(0.5)
    ask = (await desk.offer())["id"]
    await desk.emu("POST", "credit", amount=0)
    expected = body_of("PUT /asks/{id}/ or start, no credit")
    assert await desk.raw("PUT", f"/api/v0/asks/{ask}/", json={"image": "x", "price": 0.5}) == expected
    assert await desk.raw("PUT", f"/api/v0/instances/{instance_id}/", json={"state": "running"}) == expected
    row = await desk.row(instance_id)
    assert [row[name] for name in ("intended_status", "cur_state", "next_state")] == ["stopped"] * 3


@pytest.mark.parametrize("price", [0, 0.0009, -1, 33, "x", True])
async def test_bids_out_of_bounds(desk: Any, price: object) -> None:
    instance_id = await desk.rent(0.5)
    status, body = await desk.raw("PUT", f"/api/v0/instances/bid_price/{instance_id}/", json={"price": price})
    assert status == 400
    if price != 33:
        assert body == body_of("bid_price")[1]


async def test_unknown_instances(desk: Any) -> None:
    expected = body_of("bid_price / instances")
    assert await desk.raw("PUT", "/api/v0/instances/bid_price/5/", json={"price": 1}) == expected
    assert await desk.raw("PUT", "/api/v0/instances/5/", json={"state": "stopped"}) == expected
    assert await desk.raw("DELETE", "/api/v0/instances/5/", json={}) == expected
    assert await desk.raw("GET", "/api/v0/instances/5/?owner=me") == (200, {"instances": None})
    assert await desk.raw("PUT", "/api/v0/instances/request_logs/5/", json={}) == body_of("request_logs")


async def test_lists(desk: Any) -> None:
    status, body = await desk.raw("GET", "/api/v0/instances/")
    assert (status, body["error"]) == (410, "deprecated_endpoint")
    by_price = {"select_filters": '{"dph_total": {"lt": 1}}'}
    assert await desk.raw("GET", LIST, params=by_price) == body_of("GET /api/v1/instances/")
    for token in ("nonsense", "e30="):
        assert await desk.raw("GET", LIST, params={"after_token": token}) == body_of("charges/v1 bad token")
    assert await desk.raw("GET", "/api/v0/charges/") == body_of("charges without day")


async def test_bad_bodies(desk: Any) -> None:
    assert await desk.raw("POST", "/api/v0/bundles/", data="{not json") == body_of("bundles")
    assert await desk.raw("POST", "/api/v0/bundles/", json=[1]) == body_of("bundles")
    assert (await desk.raw("POST", "/api/v0/bundles/", json={"type": "free"}))[0] == 400


async def test_keys(desk: Any) -> None:
    unknown = {"Authorization": "Bearer unknown"}
    assert await desk.raw("GET", LIST, headers={}) == body_of("no Authorization header")
    assert await desk.raw("GET", LIST, headers=unknown) == body_of("unknown key (instances)")
    assert await desk.raw("POST", "/api/v0/bundles/", json={}, headers=unknown) == body_of("unknown key (billing")
    assert await desk.raw("GET", "/api/v0/charges/", headers=unknown) == body_of("unknown key (billing")
    assert (await desk.raw("GET", f"{LIST}?api_key=sandbox-key", headers={}))[0] == 200


async def test_an_instances_key_is_good_for_that_instance_only(desk: Any) -> None:
    offer = await desk.offer()
    reply = await desk.sdk("create_instance", offer["id"], image="x", disk=10, price=0.5)
    mine, other = reply["new_contract"], await desk.rent(0.01)
    key = {"Authorization": f"Bearer {reply['instance_api_key']}"}
    assert (await desk.raw("GET", f"/api/v0/instances/{mine}/", headers=key))[0] == 200
    assert (await desk.raw("PUT", f"/api/v0/instances/{mine}/", json={"state": "stopped"}, headers=key))[0] == 200
    for method, path in [
        ("GET", f"/api/v0/instances/{other}/"),
        ("DELETE", f"/api/v0/instances/{other}/"),
        ("GET", LIST),
        ("GET", "/api/v0/users/current"),
        ("PUT", f"/api/v0/instances/bid_price/{mine}/"),
        ("PUT", f"/api/v0/asks/{offer['id']}/"),
    ]:
        assert (await desk.raw(method, path, json={}, headers=key))[0] == 403, path
    assert (await desk.raw("DELETE", f"/api/v0/instances/{mine}/", json={}, headers=key))[0] == 200
    assert (await desk.raw("GET", f"/api/v0/instances/{mine}/", headers=key))[0] == 401
    assert (await desk.emu("GET", "instances"))["instances"][0]["destroyed_at"] is not None


async def test_a_wrong_slash_is_a_redirect(desk: Any) -> None:
    async with desk.http.get(f"{desk.url}/api/v1/instances?limit=5", allow_redirects=False) as response:
        assert response.status == 301
        assert response.headers["Location"] == "/api/v1/instances/?limit=5"
    assert (await desk.raw("PUT", "/api/v0/asks/1", json={}))[0] == 301
    assert (await desk.raw("GET", "/api/v0/users/current/"))[0] == 200
    assert (await desk.raw("GET", "/api/v0/nowhere/"))[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "interval_s"),
    [
        ("GET", LIST, None, 1.0),
        ("GET", "/api/v0/instances/5/", None, 2.0),
        ("PUT", "/api/v0/instances/5/", {"state": "stopped"}, 1.0),
        ("PUT", "/api/v0/instances/bid_price/5/", {"price": 1}, 5.5),
        ("DELETE", "/api/v0/instances/5/", {}, 3.0),
        ("GET", "/api/v0/charges/", None, 1.0),
    ],
)
async def test_minimum_intervals(open_desk: Any, method: str, path: str, body: object, interval_s: float) -> None:
    desk = await open_desk(enforce_rate_limits=True)
    first = (await desk.raw(method, path, json=body))[0]
    assert first != 429
    refused = (429, f"API requests too frequent: endpoint threshold={interval_s}")
    assert await desk.raw(method, path, json=body) == refused
    await desk.advance(interval_s - 0.1)
    assert await desk.raw(method, path, json=body) == refused
    await desk.advance(0.1)
    assert (await desk.raw(method, path, json=body))[0] == first


async def test_creating_too_early_is_punished(open_desk: Any) -> None:
    desk = await open_desk(enforce_rate_limits=True)
    order = {"image": "x", "price": 0.2}

    async def create() -> int:
        return int((await desk.raw("PUT", "/api/v0/asks/1/", json=order))[0])

    assert await create() == 404
    await desk.advance(4)
    assert await create() == 429
    await desk.advance(11.9)
    assert await create() == 429
    await desk.advance(12)
    assert await create() == 404


async def test_the_daily_quota_of_rows_ends_at_midnight(open_desk: Any) -> None:
    desk = await open_desk(search_quota_rows=6)
    query = {"type": "bid", "limit": 5}
    assert [(await desk.raw("POST", "/api/v0/bundles/", json=query))[0] for _ in range(2)] == [200, 200]
    status, body = await desk.raw("POST", "/api/v0/bundles/", json=query)
    expected = next(entry for entry in ERRORS if entry.get("on") == "bundles daily rows")["body"]
    assert status == 429
    assert set(body) == set(expected)
    assert (body["error"], body["remaining"], body["retry_after"]) == ("search_quota_exceeded", 0, 17 * 3600)
    await desk.advance(body["retry_after"])
    assert (await desk.raw("POST", "/api/v0/bundles/", json=query))[0] == 200
