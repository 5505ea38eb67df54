"""The listener as a child of the daemon: started, and restarted whenever it ends. No tick waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

import autopilot
from autopilot.blobs.place import API, MAILBOX, PROXY, STARTED, MailboxPlace
from autopilot.config.settings import Settings
from autopilot.listener.api_port import ApiConfig
from autopilot.listener.process import ListenerConfig
from autopilot.listener.proxy_port import ProxyConfig

log = structlog.get_logger(__name__)

AGAIN_AFTER_S = 0.5
AGAIN_AT_MOST_S = 30.0
STEADY_AFTER_S = 60.0
"""A child that has lived so long ended for a new reason: the next one is started without much delay."""
STOP_WITHIN_S = 3.0
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
"""Variables of the environment; the child gets no keys of the daemon's environment."""


def listener_config(settings: Settings, place: MailboxPlace, token: str | None) -> ListenerConfig:
    host, _, port = settings.blobs.listen.rpartition(":")
    mailbox = None if settings.blobs.url else (host, int(port))
    http, api = settings.http, None
    if http.address is not None:
        api = ApiConfig(*http.address, http.names, http.cert_file, http.key_file)
    proxy, door = None, http.proxy
    if (at := door.socket or door.address) is not None:
        proxy = ProxyConfig(at, door.user_header, http.names, has_secret=door.secret_file is not None)
    return ListenerConfig(place, mailbox, api, proxy, token)


def _of_ports(config: ListenerConfig) -> list[str]:
    arguments = []
    if config.mailbox is not None:
        host, port = config.mailbox
        arguments += ["--mailbox", host, str(port)]
    names = [name for each in (config.api, config.proxy) if each is not None for name in each.names]
    arguments += [word for name in dict.fromkeys(names) for word in ("--name", name)]
    if (proxy := config.proxy) is not None:
        at = [str(proxy.at)] if isinstance(proxy.at, Path) else [proxy.at[0], str(proxy.at[1])]
        arguments += ["--proxy", *at, "--user-header", proxy.user_header]
        arguments += ["--proxy-has-secret"] if proxy.has_secret else []
    if (api := config.api) is not None:
        arguments += ["--api", api.host, str(api.port)]
        for option, path in (("--cert", api.cert_file), ("--key", api.key_file)):
            arguments += [] if path is None else [option, str(path)]
    return arguments


class ListenerChild:
    """``autopilot.listener`` as a process whose standard input is a pipe: it ends when this process does."""

    def __init__(self, settings: Settings, place: MailboxPlace, token: str) -> None:
        config = listener_config(settings, place, token)
        self._arguments = [*("--place", str(place.root), "--token", token), *_of_ports(config)]
        self._arguments += ["--log-format", settings.log.format, "--log-level", settings.log.level]
        self._serves = {name: asyncio.Event() for name in (STARTED, MAILBOX, API, PROXY)}
        self.process: asyncio.subprocess.Process | None = None

    async def serves(self, what: str) -> None:
        """Wait until it has taken that port for the first time; ``STARTED``: until its process is up."""
        await self._serves[what].wait()

    @asynccontextmanager
    async def kept_running(self) -> AsyncIterator[None]:
        keeping = asyncio.create_task(self._keep(), name="listener")
        try:
            yield
        finally:
            keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeping
            await self._end()

    async def _keep(self) -> None:
        loop, delay_s = asyncio.get_running_loop(), AGAIN_AFTER_S
        while True:
            began_at = loop.time()
            try:
                await self._run()
            except OSError as problem:  # no process, no memory: the daemon goes on
                log.warning("listener.cannot_start", reason=str(problem))
            delay_s = AGAIN_AFTER_S if loop.time() - began_at > STEADY_AFTER_S else delay_s
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, AGAIN_AT_MOST_S)

    async def _run(self) -> None:
        """Start it, and wait for its end. Raises ``OSError``."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "autopilot.listener", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            | {"PYTHONPATH": str(Path(autopilot.__file__).parents[1])},
            start_new_session=True,  # Ctrl-C is for the daemon, which then ends it
        )
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if (word := line.decode().split()[-1:]) and word[0] in self._serves:
                self._serves[word[0]].set()
        code = await self.process.wait()
        log.warning("listener.ended", code=code, consequence="ticks continue; it is restarted")

    async def _end(self) -> None:
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_WITHIN_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
