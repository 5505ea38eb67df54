"""What the daemon says of a listener that does not come: a slow machine is not a wrong address."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from autopilot.blobs.place import MAILBOX, STARTED, MailboxPlace
from autopilot.config.settings import load_settings
from autopilot.domain.errors import UserError
from autopilot.service import meeting_place
from autopilot.service.listener import ListenerChild
from tests.patience import PATIENCE_S


async def test_a_process_that_is_not_up_is_told_from_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = tmp_path / "autopilot.toml"
        config.write_text(f'state_dir = "{tmp_path}"\n[blobs]\nlisten = "127.0.0.1:{port}"\n')
        settings = load_settings(config)
        place = MailboxPlace(tmp_path)
        place.read_or_make_key()
        child = ListenerChild(settings, place, place.announce())
        monkeypatch.setattr(meeting_place, "LISTENER_WITHIN_S", 0.05)
        monkeypatch.setattr(meeting_place, "LISTENER_STARTS_WITHIN_S", 0.05)
        with pytest.raises(UserError, match="has not started"):
            await meeting_place._await_port(child, MAILBOX, "the mailbox cannot listen", "")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(child.kept_running())
            async with asyncio.timeout(PATIENCE_S):
                await child.serves(STARTED)
            with pytest.raises(UserError, match="cannot listen"):
                await meeting_place._await_port(child, MAILBOX, "the mailbox cannot listen", "")
