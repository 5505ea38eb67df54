"""A RunPod sandbox in short words."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from autopilot_lab.sandbox.server import Sandbox
from tests.patience import eventually

START = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SAMPLES = Path(__file__).parents[2] / "assets" / "runpod"
RENT = "mutation($input: PodRentInterruptableInput!){podRentInterruptable(input:$input){%s}}"
RESUME = (
    "mutation($podId:String!,$bidPerGpu:Float!,$gpuCount:Int!)"
    "{podBidResume(input:{podId:$podId,bidPerGpu:$bidPerGpu,gpuCount:$gpuCount}){id costPerHr desiredStatus}}"
)
AGENT = {"User-Agent": "sandbox-test/1"}


def sample(name: str) -> Any:
    return json.loads((SAMPLES / name).read_text())


def assert_same_shape(ours: Any, theirs: Any, path: str = "$") -> None:
    """Same names and kinds of values; null and an empty list go with anything, and a customer names variables."""
    if path.endswith(".env") or ours in (None, []) or theirs in (None, []):
        return
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), path
        for name in theirs:
            assert_same_shape(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(theirs, list):
        assert_same_shape(ours[0], theirs[0], f"{path}[]")
    elif isinstance(theirs, int | float) and not isinstance(theirs, bool):
        assert isinstance(ours, int | float), path
    else:
        assert type(ours) is type(theirs), path


class Refusal(Exception):
    """Errors of a GraphQL answer."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.message = body["errors"][0]["message"]
        self.code = body["errors"][0]["extensions"]["code"]


class Desk:
    """A sandbox, HTTP clients of its RunPod part, and the control API."""

    def __init__(self, sandbox: Sandbox, http: aiohttp.ClientSession) -> None:
        self.sandbox = sandbox
        self.url = sandbox.url
        self.http = http
        self.key = sandbox.config.runpod_keys[0]

    def headers(self, key: str | None = "", **more: str) -> dict[str, str]:
        key = self.key if key == "" else key
        return AGENT | ({} if key is None else {"Authorization": f"Bearer {key}"}) | more

    async def post(self, body: Any, **options: Any) -> tuple[int, Any]:
        options = {"headers": self.headers()} | options
        async with self.http.post(f"{self.url}/graphql", json=body, **options) as response:
            return response.status, await response.json()

    async def gql(self, query: str, key: str | None = "", team: str | None = None, **variables: Any) -> Any:
        """``data``; raises ``Refusal``."""
        headers = self.headers(key, **({"X-Team-Id": team} if team else {}))
        status, body = await self.post({"query": query, "variables": variables}, headers=headers)
        if status != 200 or "errors" in body:
            raise Refusal(status, body)
        return body["data"]

    async def rest(self, method: str, path: str, key: str | None = "", **options: Any) -> tuple[int, Any]:
        """Status and body, ``None`` for an empty one."""
        headers = self.headers(key) | options.pop("headers", {})
        async with self.http.request(method, f"{self.url}{path}", headers=headers, **options) as response:
            text = await response.text()
            is_json = response.content_type in ("application/json", "application/problem+json")
            return response.status, json.loads(text) if text and is_json else text or None

    async def emu(self, method: str, name: str, **body: object) -> Any:
        path = name if name in ("advance", "clock") else f"runpod/{name}"
        async with self.http.request(method, f"{self.url}/_emu/{path}", json=body) as response:
            answer = await response.json()
            assert response.status == 200, answer
            return answer

    async def advance(self, seconds: float) -> None:
        await self.emu("POST", "advance", seconds=seconds)

    async def machine(self, gpu_type_id: str = "NVIDIA GeForce RTX 3090", gpu_count: int = 1) -> dict[str, Any]:
        machines = (await self.emu("GET", "machines"))["machines"]
        return next(m for m in machines if (m["gpu_type_id"], m["gpu_count"]) == (gpu_type_id, gpu_count))

    async def rent(self, bid: float = 0.25, fields: str = "id", **more: Any) -> Any:
        """A spot pod on an RTX 3090; its container runs 40 s later."""
        wish = {"bidPerGpu": bid, "gpuTypeId": "NVIDIA GeForce RTX 3090", "gpuCount": 1, "name": "test"}
        wish |= {"imageName": "ubuntu:24.04", "cloudType": "ALL", "volumeInGb": 10, "volumeMountPath": "/workspace"}
        return (await self.gql(RENT % fields, input=wish | more))["podRentInterruptable"]

    async def running(self, **more: Any) -> str:
        """The id of a spot pod whose container runs."""
        pod = await self.rent(**more)
        await self.advance(40)
        return str(pod["id"])

    async def create(self, **more: Any) -> tuple[int, Any]:
        """An on-demand pod over REST v2."""
        wish = {"name": "test", "image": "ubuntu:24.04", "gpu": {"id": "NVIDIA GeForce RTX 3090", "count": 1}}
        wish |= {"cloud": "COMMUNITY", "mounts": {"persistent": {"size": 10, "path": "/workspace"}}}
        return await self.rest("POST", "/v2/pods", json=wish | more)

    async def pod(self, pod_id: str, fields: str = "id desiredStatus lastStatusChange", key: str | None = "") -> Any:
        query = "query($id:String!){pod(input:{podId:$id}){" + fields + "}}"
        return (await self.gql(query, key=key, id=pod_id))["pod"]

    async def stop(self, pod_id: str, key: str | None = "") -> Any:
        return await self.gql("mutation($id:String!){podStop(input:{podId:$id}){id desiredStatus}}", key=key, id=pod_id)

    async def terminate(self, pod_id: str, key: str | None = "") -> Any:
        return await self.gql("mutation($id:String!){podTerminate(input:{podId:$id})}", key=key, id=pod_id)

    async def resume_on_demand(self, pod_id: str, gpu_count: int = 1) -> Any:
        query = "mutation($id:String!,$n:Int){podResume(input:{podId:$id,gpuCount:$n}){id desiredStatus costPerHr}}"
        return await self.gql(query, id=pod_id, n=gpu_count)

    async def resume(self, pod_id: str, bid: float, gpu_count: int = 1) -> Any:
        return await self.gql(RESUME, podId=pod_id, bidPerGpu=bid, gpuCount=gpu_count)

    async def truth(self, pod_id: str) -> dict[str, Any]:
        instances = (await self.emu("GET", "instances"))["instances"]
        return next(dict(each) for each in instances if each["id"] == pod_id)

    async def kinds(self) -> list[str]:
        return [event["kind"] for event in (await self.emu("GET", "events"))["events"]]

    async def eventually(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        await eventually(condition)
