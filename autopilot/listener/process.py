"""The listener's process: its ports, their shares of the file descriptors, and what it says in the log."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import API, MAILBOX, PAGE, PROXY, MailboxPlace
from autopilot.domain.errors import UserError
from autopilot.listener.api_port import ApiConfig, api_listener
from autopilot.listener.door import ConnectionLimits
from autopilot.listener.gate import Gate, by_token
from autopilot.listener.hosts import check_hosts
from autopilot.listener.known_tokens import KnownTokens
from autopilot.listener.pages import HOST, LazyPages, page_is_wanted, page_listener
from autopilot.listener.ports import Port, PortKeeper
from autopilot.listener.proxy_port import HEADER_BYTES, ProxyConfig, by_proxy, guard_pages
from autopilot.listener.receiving import Receiving
from autopilot.listener.tls import ServerCertificate
from autopilot.system import offer_to_end_first

DESCRIPTORS = 2048
SPARE_DESCRIPTORS = 150
"""For a burst of connections that are turned away, and for what the program itself has open."""
API_CONNECTIONS = 200
"""Each with TLS takes a quarter of a megabyte."""
LINES_A_MINUTE = 10
PAGE_CONNECTIONS = 100


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    place: MailboxPlace
    mailbox: tuple[str, int] | None
    """Host and port. None: a bucket is the mailbox. Port 0: the one that it had before, or any that is free."""
    api: ApiConfig | None = None
    """None: the API is not served over TCP."""
    proxy: ProxyConfig | None = None
    """None: no proxy signs anybody in."""
    token: str | None = None
    """Token of the parent daemon; None: it serves any daemon of this host that leads."""


def run_listener(config: ListenerConfig) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises ``UserError`` for a signing key that is none."""
    os.umask(0o077)
    offer_to_end_first()
    for name in ("aiohttp.server", "asyncio"):
        logging.getLogger(name).addFilter(_FewLines())
    try:
        asyncio.run(_run(config))
    except ExceptionGroup as group:
        for problem in group.exceptions:
            if isinstance(problem, UserError):
                raise problem from None
        raise


def fit_descriptors(*limits: ConnectionLimits) -> list[ConnectionLimits]:
    """As many connections, in all ports, as there are file descriptors for, each with a file of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    room = max(soft, wanted) - SPARE_DESCRIPTORS
    share = min(1.0, room / 2 / sum(each.connections for each in limits))
    return [replace(each, connections=max(8, int(share * each.connections))) for each in limits]


def end_with(pipe: int) -> None:
    """End this process as soon as the other end of ``pipe`` is closed, even while it is busy."""

    def wait() -> None:
        while os.read(pipe, 1024):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="parent", daemon=True).start()


async def _run(config: ListenerConfig) -> None:
    stopping = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    wanted = _ports(config)
    limits = fit_descriptors(*(limit for _, limit in wanted))
    async with asyncio.TaskGroup() as keeping:
        for (port, _), limit in zip(wanted, limits, strict=True):
            keeping.create_task(PortKeeper(port, limit, config.place, config.token, stopping).keep(), name=port.name)


def _ports(config: ListenerConfig) -> list[tuple[Port, ConnectionLimits]]:
    ports, receiving = [], Receiving(config.place)
    if config.mailbox is not None:
        consequence = "machines are not heard"
        mailbox = Port(MAILBOX, *config.mailbox, lambda: _mailbox_app(config.place), consequence)
        ports.append((mailbox, ConnectionLimits()))
    if (api := config.api) is not None:
        consequence = "the API answers on the unix socket alone"
        certificate = None
        if api.cert_file is not None and api.key_file is not None:
            certificate = partial(ServerCertificate, api.cert_file, api.key_file)
        app = partial(_api_app, config, api, receiving)
        port = Port(API, api.host, api.port, app, consequence, certificate, ends_with_caller=True)
        ports.append((port, ConnectionLimits(connections=API_CONNECTIONS)))
    else:
        place, consequence = config.place, "the page is not to be seen"
        wanted: dict[str, Any] = {"is_wanted": page_is_wanted(place), "may_move": True, "ends_with_caller": True}
        page = Port(PAGE, HOST, 0, lambda: page_listener(place), consequence, **wanted)
        ports.append((page, ConnectionLimits(connections=PAGE_CONNECTIONS)))
    if (proxy := config.proxy) is not None:
        host, number = (proxy.host, 0) if isinstance(proxy.at, Path) else proxy.at
        consequence = "users of the proxy have no access"
        more: dict[str, Any] = {"socket": proxy.at} if isinstance(proxy.at, Path) else {}
        more |= {"ends_with_caller": True, "header_bytes": HEADER_BYTES}
        port = Port(PROXY, host, number, partial(_proxy_app, config, proxy, receiving), consequence, **more)
        ports.append((port, ConnectionLimits(connections=API_CONNECTIONS)))
    return ports


def _mailbox_app(place: MailboxPlace) -> web.Application:
    return blob_listener(_store(place))


def _api_app(config: ListenerConfig, api: ApiConfig, receiving: Receiving) -> web.Application:
    place, pages = config.place, LazyPages(config.place)
    gate, check = Gate(by_token(KnownTokens(place.tokens_path))), check_hosts(api.names, api.host)
    app = api_listener(place, gate, check, receiving, pages.routes(), store=_store_if_any(config))
    app.on_shutdown.append(pages.close)
    return app


def _proxy_app(config: ListenerConfig, proxy: ProxyConfig, receiving: Receiving) -> web.Application:
    place, pages = config.place, LazyPages(config.place)
    gate = Gate(by_proxy(proxy, KnownTokens(place.proxy_secret_path)))
    check = check_hosts(proxy.names, proxy.host, may_be_linked=True)
    guarded = guard_pages(pages.routes(), gate)
    app = api_listener(place, gate, check, receiving, guarded, store=_store_if_any(config))
    app.on_shutdown.append(pages.close)
    return app


def _store_if_any(config: ListenerConfig) -> LocalBlobStore | None:
    return None if config.mailbox is None else _store(config.place)


def _store(place: MailboxPlace) -> LocalBlobStore:
    return LocalBlobStore(place.objects, place.read_key(), "")


class _FewLines(logging.Filter):
    """Lets a few lines a minute through: clients can cause any number of them."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created // 60)
        if minute != self._minute:
            self._minute, self._lines = minute, 0
        self._lines += 1
        return self._lines <= LINES_A_MINUTE
