"""A daemon by both transports of ``autopilot.client``: they say the same of the same trouble."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.cli.exit_codes import exit_code_of
from autopilot.cli.exits import Exit
from autopilot.client import AsyncClient, asynchronous, http, json_client, tries
from autopilot.client.errors import (
    AnswerLost,
    ApiError,
    DaemonError,
    NoAccess,
    NotRunning,
    Unreachable,
    UnreadableAnswer,
)
from autopilot.client.json_client import JsonClient
from autopilot.client.tries import Tries
from autopilot.config.daemon_address import DaemonAddress
from tests.certificates import make_certificate

Respond = Callable[[web.Request], web.StreamResponse]
AWAY = {"reason": "daemon_unavailable", "detail": "the daemon does not answer", "hint": "it may be restarting"}
REFUSAL = {"reason": "over_budget", "detail": "too much", "hint": "raise it"}
LOST, GONE = AnswerLost("lost"), NotRunning("gone")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "AGAIN_AFTER_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(asynchronous, "_FOLLOW_AGAIN_S", 0.0)


@asynccontextmanager
async def a_daemon(respond: Respond) -> AsyncIterator[web.AppRunner]:
    async def answer(request: web.Request) -> web.StreamResponse:
        return respond(request)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        yield runner
    finally:
        await runner.cleanup()


@asynccontextmanager
async def at_a_socket(respond: Respond) -> AsyncIterator[Path]:
    async with a_daemon(respond) as runner:
        with tempfile.TemporaryDirectory(prefix="ap-") as name:
            await web.UnixSite(runner, f"{name}/s").start()
            yield Path(name) / "s"


def break_off(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def ask_both(address: DaemonAddress) -> DaemonError:
    """What both raise for the same question."""
    with pytest.raises(DaemonError) as plain:
        await asyncio.to_thread(JsonClient(address).status)
    own = {"socket": address.socket} if address.socket else {"url": address.url, "ca_file": address.ca_file}
    async with AsyncClient(**own, token=address.token) as client:
        with pytest.raises(DaemonError) as typed:
            await client.status()
    assert type(plain.value) is type(typed.value)
    assert plain.value.hint == typed.value.hint
    if not isinstance(plain.value, AnswerLost):  # the two libraries name a broken connection each in its own way
        assert plain.value.message == typed.value.message
    return plain.value


@pytest.mark.parametrize(
    ("respond", "kind", "code", "message"),
    [
        (break_off, AnswerLost, Exit.UNREACHABLE, "broke off"),
        (lambda _: web.json_response(AWAY, status=503), AnswerLost, Exit.UNREACHABLE, "does not answer"),
        (lambda _: web.json_response(REFUSAL, status=402), ApiError, Exit.REFUSED, "too much"),
        (lambda _: web.json_response({}, status=502), ApiError, Exit.UNREACHABLE, "answered HTTP 502"),
        (lambda _: web.Response(text="<html>", status=502), UnreadableAnswer, Exit.FAILED, "cannot be read"),
    ],
)
async def test_an_answer_is_read_in_one_way(
    respond: Respond, kind: type[DaemonError], code: Exit, message: str
) -> None:
    async with at_a_socket(respond) as socket:
        problem = await ask_both(DaemonAddress(socket))
    assert type(problem) is kind
    assert exit_code_of(problem) is code
    assert message in problem.message


async def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for transport in (http, json_client):
        monkeypatch.setattr(transport, "MOST_BYTES", 1 << 20)
    async with at_a_socket(lambda _: web.Response(body=b" " * (1 << 20) + b"{}")) as socket:
        problem = await ask_both(DaemonAddress(socket))
    assert type(problem) is UnreadableAnswer
    assert problem.message == "the daemon's answer (HTTP 200) is larger than 1 MiB"


async def test_an_absent_daemon_is_reported_in_one_way(tmp_path: Path) -> None:
    at_socket = await ask_both(DaemonAddress(tmp_path / "none"))
    elsewhere = await ask_both(DaemonAddress(None, "http://127.0.0.1:9"))
    for problem in (at_socket, elsewhere):
        assert type(problem) is NotRunning
        assert exit_code_of(problem) is Exit.UNREACHABLE


async def test_both_speak_tls_and_send_their_token(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path, "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    asked: list[str | None] = []

    def refuse(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Authorization"))
        return web.json_response(REFUSAL, status=403)

    async with a_daemon(refuse) as runner:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        refusal = await ask_both(DaemonAddress(None, url, str(certificate), "aptk_x"))
        assert (type(refusal), asked) == (ApiError, ["Bearer aptk_x"] * 2)
        strange = await ask_both(DaemonAddress(None, url))
    assert type(strange) is NoAccess
    assert exit_code_of(strange) is Exit.REFUSED
    assert "is not trusted" in strange.message


async def test_following_output_waits_for_a_daemon_behind_its_listener() -> None:
    asked = 0

    def come_back(_: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        if asked < 3:
            return web.json_response(AWAY, status=503)
        return web.Response(text="event: end\ndata: {}\n\n", content_type="text/event-stream")

    async with at_a_socket(come_back) as socket, AsyncClient(socket=socket) as client:
        assert [chunk async for chunk in client.logs("train", follow=True)] == []
    assert asked == 3


@pytest.mark.parametrize(
    ("may_repeat", "waits_for_start", "problems", "raised"),
    [
        (False, True, [LOST], LOST),
        (True, False, [GONE], GONE),
        (True, False, [LOST, GONE, GONE, GONE], LOST),
        (True, True, [GONE, LOST, GONE, GONE], GONE),
        (True, False, [LOST, NoAccess("no")], None),
    ],
)
def test_when_a_request_is_sent_again(
    may_repeat: bool, waits_for_start: bool, problems: list[Unreachable], raised: Unreachable | None
) -> None:
    made = Tries(may_repeat=may_repeat, waits_for_start=waits_for_start)
    *passing, last = problems
    for problem in passing:
        made.pause_after(problem)
    with pytest.raises(Unreachable) as error:
        made.pause_after(last)
    assert error.value is (raised or last)
