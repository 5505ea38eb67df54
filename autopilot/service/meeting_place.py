"""The directory that daemon and listener share, and the listener itself where it is ours to start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import structlog

from autopilot.api.bearer import hash_token
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import API, BULK_PORT, CONTROL_PORT, MAILBOX, PROXY, STARTED, MailboxPlace
from autopilot.config.settings import Settings
from autopilot.domain.errors import UserError
from autopilot.listener.known_tokens import write_known_tokens
from autopilot.service.listener import ListenerChild

log = structlog.get_logger(__name__)

LISTENER_WITHIN_S = 15.0
"""For a port, once the process that opens it is up."""
LISTENER_STARTS_WITHIN_S = 75.0
"""A busy machine takes long to start a process, and that is no fault of the address."""


async def prepare_place(
    settings: Settings, *, is_shared: bool, stack: AsyncExitStack
) -> tuple[MailboxPlace, Callable[[], bool]]:
    """The place, and how to see whether it still names this daemon as the one that leads.

    A listener serves it, a process of its own, under the ports that it had before.

    A ledger of our own waits until the listener has its ports, so that a wrong address is an error at once. On a shared
    one the daemon that led before may still hold them: ticks do not wait for that.
    """
    place = MailboxPlace(settings.mailbox_dir)
    has_mailbox, has_api = settings.blobs.url is None, settings.http.listen is not None
    if has_mailbox:
        _check_moved(MailboxPlace(settings.state_dir), place)
        place.read_or_make_key()
    if not has_listener(settings):
        return place, lambda: True
    token = place.announce()
    child = ListenerChild(settings, place, token) if settings.blobs.own_listener else None
    if child is not None:
        await stack.enter_async_context(child.kept_running())
    waits_for = None if is_shared else child
    if has_mailbox:
        hint = "set blobs.listen to a free address"
        await _await_port(waits_for, MAILBOX, f"the mailbox cannot listen on {settings.blobs.listen}", hint)
    if has_api:
        hint = "set http.listen to a free address, and http.cert_file to a valid certificate; the log has the cause"
        await _await_port(waits_for, API, f"the API cannot listen on {settings.http.listen}", hint)
    proxy = settings.http.proxy
    if proxy.listen is not None:
        await _tell(place.proxy_secret_path, [hash_token(secret)] if (secret := proxy.read_secret()) else [], place)
        hint = "set http.proxy.listen to a free address, or to a socket in a directory that the listener may write"
        await _await_port(waits_for, PROXY, f"the proxy's listener cannot listen on {proxy.listen}", hint)
    if has_mailbox:
        await _await_number(settings, place)
    return place, partial(place.is_served_for, token)


def has_listener(settings: Settings) -> bool:
    """Whether anything is served to the network: a bucket needs no listener, and the API may stay on its socket."""
    return settings.blobs.url is None or settings.http.is_served


def local_mailbox(settings: Settings, place: MailboxPlace) -> LocalBlobStore:
    """With addresses for rented machines."""
    if settings.is_over_ssh:
        control, bulk = (f"http://127.0.0.1:{port}" for port in (CONTROL_PORT, BULK_PORT))
        return LocalBlobStore(place.objects, place.read_key(), control, bulk_url=bulk)
    return mailbox_here(settings, place)


def mailbox_here(settings: Settings, place: MailboxPlace) -> LocalBlobStore:
    """With addresses for clients: those of the listener itself, or of what leads to it."""
    host, _, port_text = settings.blobs.listen.rpartition(":")
    port = int(port_text) or place.port()
    return LocalBlobStore(place.objects, place.read_key(), settings.blobs.public_url or f"http://{host}:{port}")


async def tell_tokens(place: MailboxPlace, sha256s: Collection[str]) -> None:
    """To the listener. Where it cannot be told, it turns a new token away, and the daemon one that has ended."""
    try:
        await _tell(place.tokens_path, sha256s, place)
    except OSError as problem:
        log.warning("tokens.not_told", reason=str(problem), consequence="new tokens do not work over TCP yet")


async def tell_page_sessions(place: MailboxPlace, sha256s: Collection[str]) -> None:
    """To the listener, which opens the page's port for as long as there are any."""
    try:
        await _tell(place.page_sessions_path, sha256s, place)
    except OSError as problem:
        log.warning("page.sessions_not_told", reason=str(problem), consequence="new links do not open the page yet")


async def _tell(path: Path, sha256s: Collection[str], place: MailboxPlace) -> None:
    """Raises ``OSError``."""
    await asyncio.to_thread(write_known_tokens, path, sha256s, place.root)


async def _await_port(child: ListenerChild | None, what: str, trouble: str, hint: str) -> None:
    if child is None:
        return
    try:
        async with asyncio.timeout(LISTENER_STARTS_WITHIN_S):
            await child.serves(STARTED)
    except TimeoutError:
        hint = "the log has its output; on a busy machine, start the daemon again"
        raise UserError(f"the listener has not started within {LISTENER_STARTS_WITHIN_S:.0f} s", hint=hint) from None
    try:
        async with asyncio.timeout(LISTENER_WITHIN_S):
            await child.serves(what)
    except TimeoutError:
        raise UserError(trouble, hint=hint) from None


async def _await_number(settings: Settings, place: MailboxPlace) -> None:
    """Where the port may be any, until another process has said which."""
    if not settings.blobs.listen.endswith(":0"):
        return
    try:
        async with asyncio.timeout(LISTENER_WITHIN_S):
            while place.port() is None:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise UserError(
            f"the mailbox cannot listen on {settings.blobs.listen}", hint="set blobs.listen to a free address"
        ) from None


def _check_moved(old: MailboxPlace, place: MailboxPlace) -> None:
    """Raises ``UserError`` for a mailbox that was left in the state directory: its checkpoints would be forgotten."""
    if old.key_path.exists() and not place.key_path.exists():
        raise UserError(
            f"the mailbox is in {old.root}, and blobs.dir says {place.root}",
            hint="move blobs, mailbox.key and mailbox-port there, for the group of daemon and listener",
        )
