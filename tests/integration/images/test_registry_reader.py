"""What an image requires is read from its registry with few requests, and no registry can make the daemon do more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.domain.image import ImageFacts
from autopilot.domain.registry import RegistryLogin
from autopilot.images import calls, reader
from autopilot.images.reader import RegistryReader
from autopilot.ports.images import NoSuchImage, NotRead
from tests.patience import eventually
from tests.registry import (
    DOCKER_REGISTRY,
    OCTETS,
    PASSWORD,
    USER,
    Content,
    Handler,
    TokenRegistry,
    docker_registry,
    token_registry,
)

REQUIRED = "cuda>=12.8 brand=tesla,driver>=535,driver<536"
ENV = ["PATH=/usr/bin", "CUDA_VERSION=12.8.1", f"NVIDIA_REQUIRE_CUDA={REQUIRED}", "SECRET=not read"]
needs_registry = pytest.mark.skipif(DOCKER_REGISTRY is None, reason="docker-registry is not installed")


def filled() -> Content:
    content = Content()
    amd64 = content.add_image("plain", Env=ENV, Entrypoint=["python3", "-m", "server"], User="app")
    arm64 = content.add_image("arm", "arm64", Env=ENV)
    content.add_index("both", {"arm64": arm64, "amd64": amd64})
    return content


@pytest.fixture
async def registry() -> AsyncIterator[TokenRegistry]:
    async with token_registry(filled()) as running:
        yield running


def reader_of(*places: str) -> RegistryReader:
    return RegistryReader(places)


async def read(registry: TokenRegistry, tag: str = "plain", login: RegistryLogin | None = None) -> object:
    return await reader_of(registry.place).read(f"{registry.place}/me/train:{tag}", login)


@needs_registry
async def test_a_real_registry_is_read(tmp_path: Path) -> None:
    async with docker_registry(tmp_path) as place:
        content = filled()
        await content.push(f"http://{place}", "me/train")
        made = reader_of(place)
        both = await made.read(f"{place}/me/train:both", None)
        arm = await made.read(f"{place}/me/train:arm", None)
        absent = await made.read(f"{place}/me/train:typo", None)
        no_repository = await made.read(f"{place}/you/train:plain", None)
    assert isinstance(both, ImageFacts)
    assert both.architectures == ("arm64", "amd64")
    assert both.variables == (("CUDA_VERSION", "12.8.1"), ("NVIDIA_REQUIRE_CUDA", REQUIRED))
    assert (both.entrypoint, both.user) == (("python3", "-m", "server"), "app")
    assert both.layers_bytes == len("a layer for amd64")
    assert isinstance(arm, ImageFacts)
    assert arm.architectures == ("arm64",)
    assert absent == NoSuchImage(f"{place} has no tag 'typo' of me/train (manifest unknown)")
    assert isinstance(no_repository, NoSuchImage | NotRead)


@needs_registry
async def test_a_real_registry_with_a_login(tmp_path: Path) -> None:
    async with docker_registry(tmp_path, asks_for_login=True) as place:
        await filled().push(f"http://{place}", "me/train", is_with_login=True)
        made, image = reader_of(place), f"{place}/me/train:plain"
        assert isinstance(await made.read(image, RegistryLogin(place, USER, PASSWORD)), ImageFacts)
        for login in (None, RegistryLogin(place, USER, "wrong"), RegistryLogin("other.example", USER, PASSWORD)):
            assert isinstance(await made.read(image, login), NotRead)


async def test_a_known_digest_costs_a_head_alone(registry: TokenRegistry) -> None:
    made, image = reader_of(registry.place), f"{registry.place}/me/train:both"
    first = await made.read(image, None)
    assert [each.split()[0] for each in registry.seen] == ["HEAD", "GET", "HEAD", "GET", "GET", "GET"]
    registry.seen.clear()
    assert await made.read(image, None) == first
    assert [each for each in registry.seen if "manifests" in each and each.startswith("GET")] == []


async def test_a_login_goes_to_the_own_realm_alone(registry: TokenRegistry) -> None:
    registry.is_public = False
    login = RegistryLogin(registry.place, USER, PASSWORD)
    assert isinstance(await read(registry, login=login), ImageFacts)
    assert registry.logins == [f"{USER}:{PASSWORD}"]
    async with token_registry(filled()) as other:
        registry.realm = f"http://{other.place}/token"
        made = reader_of(registry.place, other.place)
        assert isinstance(await made.read(f"{registry.place}/me/train:plain", login), ImageFacts)
        assert other.logins == [""]


async def test_a_login_does_not_follow_a_redirect(registry: TokenRegistry) -> None:
    seen: list[str | None] = []

    async def to_other(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"http://{other.place}{request.path}")

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=other.content.blobs[request.path.rsplit("/", 1)[1]], content_type=OCTETS)

    async with token_registry(filled()) as other:
        registry.instead["/blobs/"] = to_other
        other.instead["/blobs/"] = note
        made = reader_of(registry.place, other.place)
        assert isinstance(await made.read(f"{registry.place}/me/train:plain", None), ImageFacts)
    assert seen == [None]


def _redirect(target: str) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": target})

    return handle


def _answer(body: bytes, status: int = 200) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status)

    return handle


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 65_536)


@pytest.mark.parametrize(
    ("at", "handler", "said"),
    [
        ("/blobs/", _redirect("http://169.254.169.254/latest/meta-data"), "169.254.169.254 without TLS"),
        ("/blobs/", _redirect("https://169.254.169.254/latest"), "an address of this machine or its network"),
        ("/manifests/", _redirect("https://localhost:9/v2/"), "an address of this machine or its network"),
        ("/manifests/", _redirect("file:///etc/passwd"), "no address of a host"),
        ("/manifests/", _redirect("/v2/again/manifests/plain"), "redirected more than 3 times"),
        ("/blobs/", _endless, "more than 4,194,304 bytes"),
        ("/blobs/", _answer(b"{}"), "is not sha256:"),
        ("/token", _answer(b"[]"), "no JSON object"),
        ("/token", _answer(b'{"token": "a\\nb"}'), "without a token"),
        ("/token", _answer(b'{"token": "not-this-one"}'), "without a login"),
        ("/token", _answer(b"", 500), "answered 500"),
        ("/manifests/", _answer(b"", 429), "429"),
        ("/manifests/", _answer(b"", 503), "503"),
        ("/manifests/", _answer(b'{"errors": [{"code": "NAME_UNKNOWN"}]}', 404), "404"),
        ("/manifests/", _answer(b"[" * 100_000, 404), "no JSON object"),
    ],
)
async def test_a_hostile_registry_says_nothing(registry: TokenRegistry, at: str, handler: Handler, said: str) -> None:
    registry.instead[at] = handler
    answer = await read(registry)
    assert isinstance(answer, NotRead)
    assert said in answer.reason
    assert len(registry.seen) <= 10


async def test_a_realm_in_the_own_network_is_not_asked(registry: TokenRegistry) -> None:
    registry.realm = "https://169.254.169.254/token"
    answer = await read(registry, login=RegistryLogin(registry.place, USER, PASSWORD))
    assert isinstance(answer, NotRead)
    assert "169.254.169.254 is an address of this machine or its network" in answer.reason


async def test_a_registry_of_the_own_network_is_asked_only_if_the_settings_name_it(registry: TokenRegistry) -> None:
    answer = await RegistryReader().read(f"{registry.place}/me/train:plain", None)
    assert isinstance(answer, NotRead)
    assert registry.seen == []


async def test_where_registries_are_not_asked_none_is(registry: TokenRegistry) -> None:
    assert isinstance(await RegistryReader(others=False).read("python:3.12", None), NotRead)


async def test_a_registry_that_does_not_answer_costs_a_bounded_time(
    registry: TokenRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await is_over.wait()
        return web.Response()

    monkeypatch.setattr(calls, "CALL_REAL_S", 0.05)
    registry.instead["/manifests/"] = hang
    answer = await read(registry)
    is_over.set()
    assert isinstance(answer, NotRead)
    assert "no whole answer" in answer.reason


@pytest.mark.parametrize(
    "configuration",
    [
        {"config": {"Env": "A=1", "Entrypoint": "sh -c", "User": 3}},
        {"config": {"Env": [1, None, "NVIDIA_REQUIRE_CUDA"]}, "architecture": ["amd64"]},
        {"config": None},
        {},
    ],
)
async def test_odd_configurations_are_read_as_far_as_they_go(configuration: dict[str, object]) -> None:
    content = Content()
    described = content.add_blob(json.dumps(configuration).encode(), "application/json")
    content.add_manifest("plain", "application/json", {"config": described, "layers": [{"size": "1"}, 3]})
    async with token_registry(content) as registry:
        answer = await read(registry)
    assert isinstance(answer, ImageFacts)
    assert not answer.require()


async def test_slow_registries_do_not_pile_up(registry: TokenRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = asyncio.Event()

    async def hold(_: web.Request) -> web.StreamResponse:
        await may_answer.wait()
        return web.Response(status=503)

    monkeypatch.setattr(reader, "MOST_WAITING", 6)
    registry.instead["/manifests/"] = hold
    made = reader_of(registry.place)
    waiting = [asyncio.create_task(made.read(f"{registry.place}/me/train:{tag}", None)) for tag in range(6)]
    await eventually(lambda: len(registry.seen) == reader.AT_ONCE, "as many are asked as may be")
    assert await made.read(f"{registry.place}/me/train:more", None) == NotRead("too many images are read now")
    may_answer.set()
    assert all("503" in str(answer) for answer in await asyncio.gather(*waiting))
    del registry.instead["/manifests/"]
    assert isinstance(await made.read(f"{registry.place}/me/train:plain", None), ImageFacts)
