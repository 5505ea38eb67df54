"""The listener's relay, before a socket on which something else than a daemon answers: slowly, oddly or not at all."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from autopilot.api.bearer import hash_token
from autopilot.api.of_listener import FILE, PEER, SIZE
from autopilot.api.requests import LARGE_BYTES
from autopilot.blobs.place import MailboxPlace
from autopilot.listener import gate, receiving, relay
from autopilot.listener.api_port import api_listener
from autopilot.listener.hosts import check_hosts
from autopilot.listener.known_tokens import KnownTokens, write_known_tokens
from tests.patience import eventually

TOKEN = "aptk_" + "k" * 43
LOGIN = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Inner:
    """What takes the daemon's place."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[web.Request] = field(default_factory=list)
    hung_up: int = 0
    at_once: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.at_once += 1
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.hung_up += 1
            raise
        if request.path == "/v1/drift":
            answer = web.StreamResponse()
            answer.content_length = 100
            await answer.prepare(request)
            await answer.write(b"{")
            assert request.transport is not None
            request.transport.close()
            return answer
        return web.json_response(
            {"path": request.path_qs}, headers={"Set-Cookie": "a=b", "Idempotency-Replayed": "true"}
        )


@dataclass
class World:
    place: MailboxPlace
    inner: Inner
    port: int
    http: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        headers = LOGIN | options.pop("headers", {})
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.http.request(method, url, headers=headers, **options) as answer:
            return answer.status, await answer.json(content_type=None)


@asynccontextmanager
async def a_world(*, has_daemon: bool = True, refused_after_s: float = 0.05) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        place, inner = MailboxPlace(Path(name)), Inner()
        inner.may_answer.set()
        write_known_tokens(place.tokens_path, [hash_token(TOKEN)], place.root)
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", inner.answer)
        daemon = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await daemon.setup()
        if has_daemon:
            await web.UnixSite(daemon, str(place.daemon_socket)).start()
        known = gate.by_token(KnownTokens(place.tokens_path))
        checks = gate.Gate(known, refused_after_s), check_hosts((), "127.0.0.1")
        served = api_listener(place, *checks, receiving.Receiving(place))
        listener = web.AppRunner(served, handler_cancellation=True, shutdown_timeout=0.1)
        await listener.setup()
        site = web.TCPSite(listener, "127.0.0.1", 0)
        await site.start()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            yield World(place, inner, listener.addresses[0][1], http)
        inner.may_answer.set()
        await listener.cleanup()
        await daemon.cleanup()


async def until(look: Any) -> None:
    await eventually(look)


async def test_a_call_is_passed_on_as_it_is_with_the_headers_that_count_and_no_others() -> None:
    async with a_world() as world:
        path = "/v1/jobs/a%2Fb/logs?after=%2B1&tail=1"
        odd = {"Cookie": "x=y", "Idempotency-Key": "k", "X-Forwarded-For": "192.0.2.1"}
        assert await world.ask("GET", path, headers=odd) == (200, {"path": path})
        (asked,) = world.inner.asked
        assert (asked.headers["Authorization"], asked.headers[PEER]) == (LOGIN["Authorization"], "127.0.0.1")
        assert asked.headers["Idempotency-Key"] == "k"
        assert not {"Cookie", "X-Forwarded-For"} & set(asked.headers)
        async with world.http.get(f"http://127.0.0.1:{world.port}/v1/status", headers=LOGIN) as answer:
            assert "Set-Cookie" not in answer.headers
            assert answer.headers["Idempotency-Replayed"] == "true"
            assert answer.headers["Cache-Control"] == "no-store"


async def test_a_client_s_hangup_is_passed_to_the_daemon() -> None:
    async with a_world() as world:
        world.inner.may_answer.clear()
        call = asyncio.create_task(world.ask("POST", "/v1/jobs", json={}))
        await until(lambda: world.inner.asked)
        call.cancel()
        await until(lambda: world.inner.hung_up == 1)


async def test_without_a_daemon_it_says_so() -> None:
    async with a_world(has_daemon=False) as world:
        status, body = await world.ask("GET", "/v1/status")
        assert (status, body["reason"]) == (503, "daemon_unavailable")


async def test_an_answer_that_is_cut_off_is_cut_off_here_too() -> None:
    async with a_world() as world:
        with pytest.raises(aiohttp.ClientError):
            await world.ask("GET", "/v1/drift")


async def test_a_token_has_so_many_calls_at_once_and_another_token_its_own() -> None:
    async with a_world() as world:
        other = "aptk_" + "o" * 43
        write_known_tokens(world.place.tokens_path, [hash_token(TOKEN), hash_token(other)], world.place.root)
        world.inner.may_answer.clear()
        calls = [asyncio.create_task(world.ask("GET", "/v1/status")) for _ in range(gate.CALLS_OF_A_LOGIN)]
        await until(lambda: world.inner.at_once == gate.CALLS_OF_A_LOGIN)
        status, body = await world.ask("GET", "/v1/status")
        assert (status, body["reason"]) == (429, "too_many_requests")
        mine = asyncio.create_task(world.ask("GET", "/v1/jobs", headers={"Authorization": f"Bearer {other}"}))
        await until(lambda: world.inner.at_once == gate.CALLS_OF_A_LOGIN + 1)
        world.inner.may_answer.set()
        assert {status for status, _ in await asyncio.gather(*calls, mine)} == {200}
        assert (await world.ask("GET", "/v1/status"))[0] == 200


async def test_failed_logins_wait_and_beyond_some_are_refused_at_once() -> None:
    # All fifty are there long before the first has waited.
    async with a_world(refused_after_s=3) as world:
        bad = {"Authorization": "Bearer aptk_no"}
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        found = await asyncio.gather(*(world.ask("GET", "/v1/status", headers=bad) for _ in range(50)))
        statuses = [status for status, _ in found]
        assert statuses.count(401) == gate.REFUSALS_AT_ONCE
        assert statuses.count(429) == 50 - gate.REFUSALS_AT_ONCE
        assert loop.time() - asked_at >= 3
        assert world.inner.asked == []
        assert (await world.ask("GET", "/v1/status"))[0] == 200


async def test_a_body_that_does_not_come_is_not_waited_for_and_the_daemon_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "BODY_WITHIN_S", 0.2)

    async def dripping() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    async with a_world() as world:
        status, body = await world.ask("POST", "/v1/jobs", data=dripping())
        assert (status, body["reason"]) == (408, "too_slow")
        assert world.inner.asked == []


async def test_uploads_are_whole_on_the_disk_before_the_daemon_hears_of_them_and_gone_afterwards() -> None:
    async with a_world() as world:
        world.inner.may_answer.clear()
        data = bytes(range(256)) * 4096
        call = asyncio.create_task(world.ask("PUT", f"/v1/code/{'0' * 64}", data=data))
        await until(lambda: world.inner.asked)
        headers = world.inner.asked[0].headers
        assert (world.place.receiving / headers[FILE]).read_bytes() == data
        assert headers[SIZE] == str(len(data))
        world.inner.may_answer.set()
        assert (await call)[0] == 200
        await until(lambda: not list(world.place.receiving.iterdir()))


async def test_a_token_sends_a_few_uploads_at_once_and_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_world() as world:
        world.inner.may_answer.clear()
        at = f"/v1/code/{'0' * 64}"
        calls = [asyncio.create_task(world.ask("PUT", at, data=b"x")) for _ in range(receiving.UPLOADS_OF_A_LOGIN)]
        await until(lambda: world.inner.at_once == receiving.UPLOADS_OF_A_LOGIN)
        status, body = await world.ask("PUT", at, data=b"x")
        assert (status, body["reason"]) == (429, "too_many_requests")
        assert body["detail"] == f"{receiving.UPLOADS_OF_A_LOGIN} uploads of this token are under way"
        world.inner.may_answer.set()
        await asyncio.gather(*calls)
        monkeypatch.setattr(receiving, "KEPT_FREE_BYTES", 1 << 60)
        status, body = await world.ask("PUT", at, data=b"x")
        assert (status, body["reason"]) == (507, "disk_full")


async def test_few_large_bodies_are_held_at_once_and_small_ones_are_not_counted() -> None:
    async with a_world() as world:
        world.inner.may_answer.clear()
        large = b"x" * (LARGE_BYTES + 1)
        most = receiving.UPLOADS_OF_A_LOGIN
        calls = [asyncio.create_task(world.ask("POST", "/v1/jobs", data=large)) for _ in range(most)]
        await until(lambda: world.inner.at_once == most)

        async def of_unknown_length() -> AsyncIterator[bytes]:
            yield b"x"

        for data in (large, of_unknown_length()):
            status, body = await world.ask("POST", "/v1/jobs", data=data)
            assert (status, body["reason"]) == (429, "too_many_requests")
        calls += [asyncio.create_task(world.ask("POST", "/v1/jobs", data=b"x" * LARGE_BYTES))]
        await until(lambda: world.inner.at_once == most + 1)
        world.inner.may_answer.set()
        assert {status for status, _ in await asyncio.gather(*calls)} == {200}
        assert (await world.ask("POST", "/v1/jobs", data=large))[0] == 200


def test_changes_of_tokens_count_at_once_and_a_broken_file_admits_no_token(tmp_path: Path) -> None:
    place = MailboxPlace(tmp_path)
    known = KnownTokens(place.tokens_path)
    assert not known.has("a")
    write_known_tokens(place.tokens_path, ["a", "b"], place.root)
    assert known.has("a")
    write_known_tokens(place.tokens_path, ["b"], place.root)
    assert not known.has("a")
    assert known.has("b")
    for broken in ("", "{}", "[1, null]", '"b"'):
        place.tokens_path.unlink()
        place.tokens_path.write_text(broken)
        assert not known.has("b")
