"""Where a browser on this machine finds the page: the API's port, or one that the listener opens for it."""

from __future__ import annotations

import asyncio
import hmac
from ipaddress import ip_address

import aiohttp

from autopilot.blobs.place import API, IDENTITY, PAGE, MailboxPlace
from autopilot.config.settings import Settings
from autopilot.domain.errors import UserError
from autopilot.ids import new_secret
from autopilot.service.meeting_place import has_listener

OPEN_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.1
_ASKED_FOR = aiohttp.ClientTimeout(total=2)


class PageAddress:
    def __init__(self, settings: Settings, place: MailboxPlace) -> None:
        self._settings = settings
        self._place = place

    async def find(self) -> str:
        """``http://127.0.0.1:40123``. Raises ``UserError`` if no port is open for it."""
        http = self._settings.http
        if http.address is not None:
            host, port = http.address
            scheme = "http" if http.cert_file is None else "https"
            shown = http.names[0] if http.names else _reachable(host)
            return f"{scheme}://{shown}:{port or self._place.port(API)}"
        if not has_listener(self._settings):
            hint = 'set http.listen = "127.0.0.1:8482", and restart the daemon'
            raise UserError("no listener is running to serve the page", hint=hint)
        try:
            async with asyncio.timeout(OPEN_WITHIN_S), aiohttp.ClientSession(timeout=_ASKED_FOR) as client:
                while not await self._is_open(client):  # noqa: ASYNC110 - another process opens it
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            hint = "the listener's log has the cause; without own_listener, autopilot listen has to run"
            raise UserError("the listener has opened no port for the page", hint=hint) from None
        return f"http://127.0.0.1:{self._place.port(PAGE)}"

    async def _is_open(self, client: aiohttp.ClientSession) -> bool:
        """Whether the port is our listener's. One that it had before may be another program's by now."""
        port = self._place.port(PAGE)
        if port is None:
            return False
        question = new_secret()
        try:
            async with client.get(f"http://127.0.0.1:{port}{IDENTITY.format(question=question)}") as answer:
                said = await answer.content.read(100)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
        return answer.status == 200 and hmac.compare_digest(said, self._place.name_page(question, port).encode())


def _reachable(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1"
    return f"[{host}]" if address.version == 6 else host
