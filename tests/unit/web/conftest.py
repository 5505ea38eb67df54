from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from aiohttp.test_utils import TestServer

from autopilot.web.server import Server
from tests.unit.web.page_reader import Browser
from tests.unit.web.web_ledger import a_reader

KEY = "the-key-of-the-link"


@pytest.fixture
async def stranger() -> AsyncIterator[Browser]:
    """A browser that has not opened the link."""
    async with Browser(TestServer(Server(await a_reader(), KEY).app(), host="127.0.0.1")) as client:
        yield client


@pytest.fixture
async def browser(stranger: Browser) -> Browser:
    """One that has."""
    async with stranger.get(f"/enter/{KEY}", allow_redirects=False) as answer:
        cookie, path = answer.headers["Set-Cookie"], answer.headers["Location"]
        assert answer.status == 303
        assert re.fullmatch("/s/[0-9a-f]{32}/", path)
        assert f"Path={path};" in cookie, "it is sent to no other address of this machine"
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        stranger.session.headers["Cookie"] = cookie.split(";")[0]
        stranger.base = path.removesuffix("/")
    return stranger
