"""What the real SDK makes of each kind of answer, and what we make of that."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from autopilot.providers.reading import NoReply
from autopilot.providers.runpod.reply import Fault
from autopilot.providers.runpod.sdk import Sdk, SdkRefused
from tests.integration.runpod.runpod_script import KEY, Http, Script, sample, serving

POD = "fkjbybgpwuvmhk"
ERROR = {"errors": [{"message": "Something else"}], "data": None}
HTML = "<html>Bad Gateway</html>"


async def call(answer: Any, name: str, use: str) -> Any:
    async with serving(Script({name: [answer]})) as script:
        sdk = Sdk(KEY, script.url)
        arguments = () if use == "gpu_types" else (POD,)
        return await asyncio.to_thread(getattr(sdk, use), *arguments)


CALLS = [("podStop", "stop"), ("podTerminate", "terminate"), ("gpuTypes", "gpu_types")]


@pytest.mark.parametrize(("name", "use"), CALLS)
async def test_status_401_is_a_matter_of_rights(name: str, use: str) -> None:
    with pytest.raises(SdkRefused) as raised:
        await call(Http(401, "{}"), name, use)
    assert raised.value.fault is Fault.NO_RIGHTS


@pytest.mark.parametrize(("name", "use"), CALLS)
@pytest.mark.parametrize("status", [200, 400, 429, 500])
async def test_json_with_errors_is_a_refusal_without_its_code(name: str, use: str, status: int) -> None:
    with pytest.raises(SdkRefused, match="Something else") as raised:
        await call(Http(status, ERROR), name, use)
    assert raised.value.fault is Fault.OTHER


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Unauthorized", Fault.NO_RIGHTS),
        ("pod not found to terminate", Fault.NOT_FOUND),
        ("Something went wrong. Please try again later or contact support.", Fault.TRANSIENT),
    ],
)
async def test_texts_that_are_known(text: str, fault: Fault) -> None:
    with pytest.raises(SdkRefused) as raised:
        await call({"errors": [{"message": text}], "data": {"podTerminate": None}}, "podTerminate", "terminate")
    assert raised.value.fault is fault


@pytest.mark.parametrize(("name", "use"), [("podStop", "stop"), ("gpuTypes", "gpu_types")])
@pytest.mark.parametrize("status", [410, 429])
async def test_json_without_data_cannot_be_read(name: str, use: str, status: int) -> None:
    with pytest.raises(NoReply, match="KeyError"):
        await call(Http(status, {"error": "no"}), name, use)


@pytest.mark.parametrize("status", [410, 429])
async def test_a_terminate_that_was_not_even_heard_seems_to_have_worked(status: int) -> None:
    """The reason why every terminate is verified."""
    assert await call(Http(status, {"error": "no"}), "podTerminate", "terminate") is None


@pytest.mark.parametrize(("name", "use"), CALLS)
@pytest.mark.parametrize("status", [200, 429, 500, 502])
async def test_what_is_not_json_cannot_be_read(name: str, use: str, status: int) -> None:
    with pytest.raises(NoReply, match="JSONDecodeError"):
        await call(Http(status, HTML), name, use)


async def test_a_stop_with_null_data_cannot_be_read() -> None:
    with pytest.raises(NoReply):
        await call({"data": None}, "podStop", "stop")
    assert await call({"data": {"podStop": None}}, "podStop", "stop") is False


async def test_a_closed_port_is_no_answer() -> None:
    with pytest.raises(NoReply, match="ConnectionError"):
        await asyncio.to_thread(Sdk(KEY, "http://127.0.0.1:9").stop, POD)


async def test_success_and_what_is_sent() -> None:
    async with serving(Script({"podStop": [sample("graphql/podStop")]})) as script:
        assert await asyncio.to_thread(Sdk(KEY, script.url).stop, POD)
        ((_, headers, _),) = script.seen
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["User-Agent"].startswith("RunPod-Python-SDK/1.11")


async def test_two_markets_in_one_process_do_not_get_into_each_others_way() -> None:
    async with (
        serving(Script({"podStop": [sample("graphql/podStop")]})) as one,
        serving(Script({"podStop": [sample("graphql/podStop")]})) as other,
    ):
        sdks = [Sdk(f"key-{n}", server.url) for n, server in enumerate((one, other))]
        await asyncio.gather(*(asyncio.to_thread(sdk.stop, POD) for sdk in sdks * 5))
        keys = [{headers["Authorization"] for _, headers, _ in server.seen} for server in (one, other)]
        assert keys == [{"Bearer key-0"}, {"Bearer key-1"}]
        assert (one.count("podStop"), other.count("podStop")) == (5, 5)
    assert "RUNPOD_API_BASE_URL" not in os.environ
