"""The daemon's two sockets: one for the users of this machine, and one for its listener alone."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import structlog
from aiohttp import web

from autopilot.blobs.place import MailboxPlace, share
from autopilot.domain.errors import OtherDaemonError, UserError

log = structlog.get_logger(__name__)

SOCKET_GROUP = "autopilot"
SOCKET_BACKLOG = 1024
"""Callers that may wait for the control socket at once; one more would be refused."""
_ANSWER_TIMEOUT = aiohttp.ClientTimeout(total=5)


async def serve_users(path: Path, app: web.Application, *, is_shared: bool, stack: AsyncExitStack) -> None:
    """The control socket: 0660, of group ``autopilot`` where we are a member of it, in a directory of 0750.

    On a shared ledger the daemon that led before may still answer there, for as long as it takes to notice. Ticks do
    not wait for that.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if not is_shared:
        _check_silent(path)
        await _open_socket(path, runner)
    elif await _answers(path):
        log.info("socket.awaited", path=str(path), reason="another daemon answers there")
        opening = asyncio.create_task(_open_in_turn(path, runner), name="control socket")
        stack.callback(opening.cancel)
    else:
        await _open_socket(path, runner)


async def serve_listener(place: MailboxPlace, app: web.Application, stack: AsyncExitStack) -> None:
    """The socket on which the listener passes on what comes over TCP; its group is that of the two, or it is ours.

    It takes the place of one that a daemon before this has left, or still has. Raises ``UserError``.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    path, scratch = place.daemon_socket, place.daemon_socket.with_suffix(".new")
    try:
        scratch.unlink(missing_ok=True)
        await _bind(scratch, runner, 0o177)
        share(scratch, place.root, 0o660)
        scratch.replace(path)
    except OSError as problem:
        reason = f"the socket for the listener, {path}, cannot be opened: {problem.strerror}"
        raise UserError(reason, hint="correct the directory's owner or mode") from None


def _check_silent(path: Path) -> None:
    """Raises ``OtherDaemonError`` when another daemon has the socket: it may have work."""
    with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(OSError):
        other.settimeout(1)
        other.connect(str(path))
        raise OtherDaemonError(
            f"another daemon answers at {path}", hint="stop it first, or set api.socket to a separate path"
        )


def _make_room(path: Path) -> None:
    """Remove the socket of a daemon that is gone."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o750)
    path.unlink(missing_ok=True)


async def _answers(path: Path) -> bool:
    """Whether a daemon works at the other end: one that was stopped accepts calls and answers none."""
    connector = aiohttp.UnixConnector(str(path))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_ANSWER_TIMEOUT) as http,
            http.get("http://localhost/v1/status"),
        ):
            return True
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _open_in_turn(path: Path, runner: web.AppRunner) -> None:
    while await _answers(path):  # noqa: ASYNC110 - another process ends
        await asyncio.sleep(1)
    await _open_socket(path, runner)
    log.info("socket.opened", path=str(path))


async def _open_socket(path: Path, runner: web.AppRunner) -> None:
    """In the place of one where no daemon works any more. Raises ``UserError``."""
    _make_room(path)
    try:
        await _bind(path, runner, 0o117)
    except OSError as problem:
        raise UserError(
            f"the control socket {path} cannot be opened: {problem.strerror}", hint="set api.socket"
        ) from None
    with contextlib.suppress(KeyError, PermissionError):
        os.chown(path, -1, grp.getgrnam(SOCKET_GROUP).gr_gid)


async def _bind(path: Path, runner: web.AppRunner, mask: int) -> None:
    old_mask = os.umask(mask)
    try:
        await web.UnixSite(runner, str(path), backlog=SOCKET_BACKLOG).start()
    finally:
        os.umask(old_mask)
