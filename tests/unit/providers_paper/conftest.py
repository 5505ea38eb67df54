from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from tests.unit.providers_paper.paper_mailbox import PaperMailbox


@pytest.fixture
async def mailbox(tmp_path: Path) -> AsyncIterator[PaperMailbox]:
    """A real mailbox on loopback, with a daemon's side that writes orders."""
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "")
    runner = web.AppRunner(blob_listener(store), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    store.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    made = PaperMailbox(store)
    yield made
    await made.agents.close()
    await runner.cleanup()
