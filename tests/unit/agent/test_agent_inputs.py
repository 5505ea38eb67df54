"""Inputs: whole or not at all, wherever the fetch before was cut off."""

from __future__ import annotations

import asyncio
import urllib.error
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.agent.shipped.inputs import fetch_input

DATA = bytes(range(256)) * 100


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """Of a server that knows ranges."""
    (tmp_path / "served").write_bytes(DATA)

    async def serve(request: web.Request) -> web.FileResponse:
        return web.FileResponse(tmp_path / "served")

    app = web.Application()
    app.router.add_get("/data", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/data"
    await runner.cleanup()


async def test_it_goes_on_where_it_was_cut_off(url: str, tmp_path: Path) -> None:
    (tmp_path / "in.fetching").write_bytes(DATA[:1000])
    await asyncio.to_thread(fetch_input, url, str(tmp_path / "in"))
    assert (tmp_path / "in").read_bytes() == DATA
    assert not (tmp_path / "in.fetching").exists()


@pytest.mark.parametrize("kept", [DATA, DATA + b"of a longer one"], ids=["all of it", "more than there is now"])
async def test_a_download_that_cannot_be_resumed_starts_over(url: str, tmp_path: Path, kept: bytes) -> None:
    """As after a kill between the last byte and the rename."""
    (tmp_path / "in.fetching").write_bytes(kept)
    with pytest.raises(urllib.error.HTTPError, match="416"):
        await asyncio.to_thread(fetch_input, url, str(tmp_path / "in"))
    await asyncio.to_thread(fetch_input, url, str(tmp_path / "in"))
    assert (tmp_path / "in").read_bytes() == DATA
