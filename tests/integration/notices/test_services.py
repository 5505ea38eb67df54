"""Notices through Apprise itself, to an ntfy server on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from aiohttp import web

from autopilot.domain.errors import UserError
from autopilot.notices import services
from autopilot.notices.message import SinkFailed, message_of
from autopilot.notices.services import NEAR_SERVICES, SERVICES, ServiceSink
from autopilot.ports.store import PendingNotice

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
NOTICE = PendingNotice("01N", "ops", "job_failed", NOW, None, None, "Job train has failed", "It cost $4.20.", NOW)


class Ntfy:
    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, object]] = []
        self.paths: list[str] = []
        self.status = 200

    async def take(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        self.bodies.append(json.loads(await request.text()))
        return web.json_response({"id": "x"}, status=self.status, headers={"location": "/elsewhere"})


@pytest.fixture
async def ntfy() -> AsyncIterator[Ntfy]:
    server = Ntfy()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"ntfy://secret-user:secret-word@127.0.0.1:{runner.addresses[0][1]}/training"
    yield server
    await runner.cleanup()


@pytest.mark.slow
async def test_a_notice_reaches_a_service(ntfy: Ntfy) -> None:
    await ServiceSink(ntfy.url, local=True).send(message_of([NOTICE]))
    (body,) = ntfy.bodies
    assert (body["topic"], body["title"]) == ("training", "Job train has failed")
    assert "It cost $4.20." in str(body["message"])


@pytest.mark.slow
async def test_a_service_that_refuses_is_a_failure_that_shows_no_password(ntfy: Ntfy) -> None:
    ntfy.status = 401
    with pytest.raises(SinkFailed) as refused:
        await ServiceSink(ntfy.url, local=True).send(message_of([NOTICE]))
    assert "secret" not in str(refused.value)
    assert "401" in str(refused.value)


@pytest.mark.slow
async def test_a_redirect_of_a_service_is_not_followed(ntfy: Ntfy) -> None:
    ntfy.status = 307
    with pytest.raises(SinkFailed):
        await ServiceSink(ntfy.url, local=True).send(message_of([NOTICE]))
    assert set(ntfy.paths) == {"/"}


@pytest.mark.slow
async def test_a_service_whose_name_leads_to_this_machine_is_not_called(ntfy: Ntfy) -> None:
    """For every library, the address of the connection is what counts."""
    with pytest.raises(SinkFailed, match=r"127\.0\.0\.1 is an address of this machine"):
        await ServiceSink(ntfy.url.replace("ntfy://", "ntfys://")).send(message_of([NOTICE]))
    assert ntfy.paths == []


async def test_a_service_that_does_not_answer_is_given_up(ntfy: Ntfy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "WAIT_REAL_S", 0.05)
    with pytest.raises(SinkFailed, match=r"within 0\.05 s"):
        await ServiceSink(ntfy.url, local=True).send(message_of([NOTICE]))


@pytest.mark.parametrize("url", ["syslog://", "macosx://", "dbus://", "json://127.0.0.1/", "ntfy://host/topic", "x"])
def test_only_network_services_of_the_list_are_used(url: str) -> None:
    with pytest.raises(UserError, match="not a supported notice service"):
        ServiceSink(url)


def test_every_service_of_the_list_is_one_of_apprises() -> None:
    apprise = pytest.importorskip("apprise")
    known = {scheme for row in apprise.Apprise().details()["schemas"] for scheme in _schemes(row)}
    assert {*SERVICES, *NEAR_SERVICES} <= known
    assert len(SERVICES) > 10


def _schemes(row: dict[str, list[str] | None]) -> list[str]:
    return [*(row["protocols"] or []), *(row["secure_protocols"] or [])]
