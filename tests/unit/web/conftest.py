from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestClient, TestServer

from autopilot.web.server import Server
from tests.unit.web.page_reader import Browser
from tests.unit.web.web_ledger import a_reader

KEY = "the-key-of-the-link"


@pytest.fixture
async def stranger() -> AsyncIterator[Browser]:
    """A browser that has not opened the link."""
    async with TestClient(TestServer(Server(await a_reader(), KEY).app(), host="127.0.0.1")) as client:
        yield client


@pytest.fixture
async def browser(stranger: Browser) -> Browser:
    """One that has."""
    async with stranger.get(f"/enter/{KEY}", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        stranger.session.headers["Cookie"] = cookie.split(";")[0]
    return stranger
