"""Where a log lies is another place than the market's API: nothing that we know goes there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from autopilot.providers.reading import NoReply
from autopilot.providers.vastai.sdk import Sdk
from tests.patience import PATIENCE_S


async def test_neither_the_key_nor_a_login_of_this_computer_goes_there_and_no_redirect_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    sdk = Sdk("key", "https://elsewhere.example", PATIENCE_S)
    seen: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/log"})
        return web.Response(text="autopilot: no Python 3.8")

    app = web.Application()
    app.router.add_get("/{path}", answer)
    async with TestServer(app) as server:
        log, moved = [
            await asyncio.to_thread(sdk.fetch, str(server.make_url(path))) for path in ("/log?sig=s3cret", "/moved")
        ]
    assert (log.status, log.text, moved.status) == (200, "autopilot: no Python 3.8", 302)
    assert len(seen) == 2
    assert not any("Authorization" in headers for headers in seen)
    with pytest.raises(NoReply) as gone:
        sdk.fetch("http://127.0.0.1:9/log?sig=s3cret")
    assert "s3cret" not in str(gone.value)
