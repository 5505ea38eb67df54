"""Every request that the real SDK was seen to send gets an answer in the contract's shape."""

import json
from pathlib import Path
from typing import Any

import pytest

CAPTURED = Path(__file__).parents[2] / "assets" / "vastai" / "requests_captured.jsonl"
ERROR_SHAPES = (
    {"success", "error", "msg"},
    {"error", "msg"},
    {"success", "msg"},
    {"success", "error", "msg", "ask_id"},
)


def requests() -> list[Any]:
    rows = [json.loads(line) for line in CAPTURED.read_text().splitlines()]
    unique = {}
    for row in rows:
        # `/_mode` steered the recorder itself; it is no request of the SDK.
        if row["path"] != "/_mode":
            key = (row["method"], row["path"], row["rawquery"], json.dumps(row["body"], sort_keys=True))
            unique[key] = row
    return list(unique.values())


async def test_all_captured_requests(open_desk: Any) -> None:
    desk = await open_desk(api_keys=("k", "KEY123"))
    assert len(requests()) > 60
    for request in requests():
        headers = {
            name: request["headers"][name] for name in ("Authorization", "User-Agent") if name in request["headers"]
        }
        path = request["path"] + (f"?{request['rawquery']}" if request["rawquery"] else "")
        body = {} if request["body"] == "" else {"json": request["body"]}
        status, answer = await desk.raw(request["method"], path, headers=headers, **body)
        where = f"{request['method']} {path} -> {status} {answer}"
        if request["path"].startswith("/s3/"):
            assert status == 404, where
        elif status == 200:
            assert isinstance(answer, dict), where
            assert answer.get("success", True) is True, where
        else:
            assert status in (400, 404), where
            assert isinstance(answer, dict), where
            assert set(answer) in ERROR_SHAPES, where


@pytest.mark.parametrize(
    ("path", "key"),
    [("/api/v0/bundles/", "offers"), ("/api/v1/instances/", "instances"), ("/api/v0/users/current", "credit")],
)
async def test_the_main_answers_carry_their_payload(desk: Any, path: str, key: str) -> None:
    method = "POST" if "bundles" in path else "GET"
    assert key in (await desk.raw(method, path, json={} if method == "POST" else None))[1]


async def test_side_endpoints_through_the_sdk(desk: Any) -> None:
    assert await desk.sdk("show_env_vars") == {}
    assert (await desk.sdk("create_env_var", "K", "V"))["success"] is True
    assert await desk.sdk("show_volumes") == []
    assert await desk.sdk("show_invoices_v1", charges=False, start_date="2026-01-01", end_date="2026-01-05")
