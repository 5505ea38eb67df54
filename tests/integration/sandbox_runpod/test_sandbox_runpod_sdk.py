"""The real, unmodified SDK drives the sandbox; and its own ways with errors, which an adapter has to know."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from requests.exceptions import ConnectionError, JSONDecodeError, ReadTimeout

from tests.integration.sandbox_runpod.runpod_desk import SAMPLES, sample

GPU = "NVIDIA GeForce RTX 3090"


@pytest.fixture(scope="session")
def runpod() -> Any:
    """Slow to import; it sets up its HTTP library's logger and, unless already done, the root logger."""
    root, http = logging.getLogger(), logging.getLogger("urllib3")
    handlers, levels = list(root.handlers), (root.level, http.level)
    import runpod

    assert runpod.__version__.startswith("1.11")
    root.handlers[:] = handlers
    for logger, level in zip((root, http), levels, strict=True):
        logger.setLevel(level)
    return runpod


@pytest.fixture
def sdk(runpod: Any, desk: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("RUNPOD_API_BASE_URL", desk.url)
    runpod.api_key = desk.key  # the way in which the SDK takes its key

    async def call(name: str, *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(runpod, name), *arguments, **options)

    return call


async def test_the_catalogue(sdk: Any) -> None:
    gpus = await sdk("get_gpus")
    assert {"id": GPU, "displayName": "RTX 3090", "memoryInGb": 24} in gpus
    gpu = await sdk("get_gpu", GPU, 4)
    known = sample("graphql/gpuTypes_get_gpu.json")["data"]["gpuTypes"][0]
    assert gpu.keys() == known.keys()
    assert gpu["lowestPrice"]["uninterruptablePrice"] == pytest.approx(1.2)
    with pytest.raises(ValueError, match="No GPU found"):
        await sdk("get_gpu", "No Such GPU")
    assert (await sdk("get_user"))["networkVolumes"] == []


async def test_an_on_demand_pods_life(sdk: Any, desk: Any) -> None:
    order = {"volume_in_gb": 10, "env": {"A": "1"}, "ports": "22/tcp", "cloud_type": "COMMUNITY"}
    pod = await sdk("create_pod", "test", "ubuntu:24.04", GPU, **order)
    assert set(pod) == {"id", "imageName", "env", "machineId", "machine"}
    await desk.advance(100)
    row = await sdk("get_pod", pod["id"])
    assert row.keys() == sample("graphql/pod_running.json")["data"]["pod"].keys()
    assert (row["desiredStatus"], row["podType"], row["costPerHr"]) == ("RUNNING", "RESERVED", 0.3)
    assert (row["volumeMountPath"], row["containerDiskInGb"]) == ("/runpod-volume", 10)
    assert [each["id"] for each in await sdk("get_pods")] == [pod["id"]]
    assert await sdk("stop_pod", pod["id"]) == {"id": pod["id"], "desiredStatus": "EXITED"}
    assert (await sdk("resume_pod", pod["id"], 1))["desiredStatus"] == "RUNNING"
    assert await sdk("terminate_pod", pod["id"]) is None
    assert await sdk("get_pod", pod["id"]) is None
    requests = await desk.emu("GET", "requests")
    assert (requests["podFindAndDeployOnDemand"], requests["podTerminate"], requests["gpuTypes"]) == (1, 1, 1)


async def test_a_spot_pod_over_the_sdks_raw_query(sdk: Any, desk: Any, runpod: Any) -> None:
    from runpod.api.graphql import run_graphql_query

    text = f'{{bidPerGpu:0.25, gpuTypeId:"{GPU}", imageName:"x", name:"n"}}'
    query = f"mutation{{podRentInterruptable(input:{text}){{id podType}}}}"
    answer = await asyncio.to_thread(run_graphql_query, query)
    assert answer["data"]["podRentInterruptable"]["podType"] == "INTERRUPTABLE"


async def test_a_quotation_mark_breaks_the_query(sdk: Any, runpod: Any) -> None:
    with pytest.raises(runpod.error.QueryError, match="Syntax Error"):
        await sdk("create_pod", 'a"b', "x", GPU)


async def test_a_business_error_loses_its_code(sdk: Any, runpod: Any) -> None:
    with pytest.raises(runpod.error.QueryError, match="no longer any instances"):
        await sdk("create_pod", "n", "x", "NVIDIA A100-SXM4-80GB", cloud_type="COMMUNITY")
    with pytest.raises(runpod.error.QueryError, match="pod not found to terminate"):
        await sdk("terminate_pod", "none")
    with pytest.raises(runpod.error.QueryError, match="pod not found to stop"):
        await sdk("stop_pod", "none")


async def test_a_cpu_pod_is_out_of_stock(sdk: Any, runpod: Any) -> None:
    with pytest.raises(runpod.error.QueryError, match="no longer any instances"):
        await sdk("create_pod", "n", "x")


async def test_a_wrong_key(sdk: Any, runpod: Any) -> None:
    runpod.api_key = "wrong"
    for call in (("get_pods",), ("create_pod", "n", "x", GPU), ("terminate_pod", "p")):
        with pytest.raises(runpod.error.AuthenticationError):
            await sdk(*call)


CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "get_pods": ("myself", ()),
    "get_pod": ("pod", ("p",)),
    "stop_pod": ("podStop", ("p",)),
    "create_pod": ("podFindAndDeployOnDemand", ("n", "x", GPU)),
    "terminate_pod": ("podTerminate", ("p",)),
}
QUERY_ERROR, AUTHENTICATION = "QueryError", "AuthenticationError"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "outcomes"),
    [
        ("http_401", dict.fromkeys(CALLS, AUTHENTICATION)),
        ("internal_error", dict.fromkeys(CALLS, QUERY_ERROR)),
        ("unauthorized_200", dict.fromkeys(CALLS, QUERY_ERROR)),
        ("no_resources", dict.fromkeys(CALLS, QUERY_ERROR)),
        ("http_429", dict.fromkeys(CALLS, KeyError) | {"terminate_pod": None}),
        ("http_410", dict.fromkeys(CALLS, KeyError) | {"terminate_pod": None}),
        ("http_500", dict.fromkeys(CALLS, KeyError) | {"terminate_pod": None}),
        ("http_429_html", dict.fromkeys(CALLS, JSONDecodeError)),
        ("http_500_html", dict.fromkeys(CALLS, JSONDecodeError)),
        ("http_502", dict.fromkeys(CALLS, JSONDecodeError)),
        ("cloudflare_1010", dict.fromkeys(CALLS, JSONDecodeError)),
        ("cloudflare_1010_with_200", dict.fromkeys(CALLS, JSONDecodeError)),
        ("reset", dict.fromkeys(CALLS, ConnectionError)),
        ("null_result", dict.fromkeys(CALLS, None) | {"get_pods": TypeError}),
        ("data_null", dict.fromkeys(CALLS, TypeError) | {"terminate_pod": None}),
    ],
)
async def test_what_the_sdk_makes_of_errors(
    sdk: Any, desk: Any, runpod: Any, kind: str, outcomes: dict[str, Any]
) -> None:
    for name, outcome in outcomes.items():
        family, arguments = CALLS[name]
        await desk.emu("POST", "fault", on=family, kind=kind)
        if outcome is None:
            assert await sdk(name, *arguments) is None, name
        else:
            expected = getattr(runpod.error, outcome) if isinstance(outcome, str) else outcome
            with pytest.raises(expected):
                await sdk(name, *arguments)
    assert [kind for kind in await desk.kinds() if kind.startswith("pod.")] == []


async def test_a_timeout_that_took_effect(sdk: Any, desk: Any) -> None:
    """The SDK waits for 30 seconds; here the server drops the call after a moment, which it does not tell apart."""
    await desk.emu("POST", "fault", on="podFindAndDeployOnDemand", kind="effect_then_timeout", hang_s=0.2)
    with pytest.raises((ConnectionError, ReadTimeout)):
        await sdk("create_pod", "lost", "x", GPU)
    assert [pod["name"] for pod in await sdk("get_pods")] == ["lost"]


async def captured_requests(runpod: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What the SDK sends for every call that an adapter may use; white space folded."""
    found: list[dict[str, str]] = []

    async def record(request: web.Request) -> web.Response:
        query = " ".join((await request.json())["query"].split())
        found.append({"method": request.method, "path": request.path, "query": query})
        data: dict[str, Any] = {"myself": {"pods": [], "networkVolumes": []}, "gpuTypes": [{}], "pod": None}
        return web.json_response({"data": data | dict.fromkeys(("podFindAndDeployOnDemand", "podStop", "podResume"))})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", record)
    async with TestServer(app) as server:
        monkeypatch.setenv("RUNPOD_API_BASE_URL", str(server.make_url("")).rstrip("/"))
        runpod.api_key = "key"
        order = {"env": {"A": "1"}, "ports": "22/tcp", "volume_in_gb": 10, "docker_args": "sleep 5"}
        for name, arguments, options in (
            ("get_gpus", (), {}),
            ("get_gpu", ("G", 2), {}),
            ("get_user", (), {}),
            ("get_pods", (), {}),
            ("get_pod", ("p",), {}),
            ("create_pod", ("n", "image", "G"), order),
            ("stop_pod", ("p",), {}),
            ("resume_pod", ("p", 1), {}),
            ("terminate_pod", ("p",), {}),
        ):
            await asyncio.to_thread(getattr(runpod, name), *arguments, **options)
    return found


async def test_the_sdk_sends_what_it_sent_when_it_was_pinned(runpod: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = (SAMPLES / "requests_captured.jsonl").read_text().splitlines()
    assert await captured_requests(runpod, monkeypatch) == [json.loads(line) for line in known]


async def test_many_threads_at_once(sdk: Any, desk: Any) -> None:
    await desk.running()
    answers = await asyncio.gather(*(sdk("get_pods") for _ in range(20)))
    assert all(len(pods) == 1 for pods in answers)
