"""One HTTP call to an address of the settings: bounded, followed nowhere, checked as it connects."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp

from autopilot.addresses import socket_factory
from autopilot.notices.message import SinkFailed

WAIT_REAL_S = 15.0
LARGEST_HEADER_BYTES = 8 * 1024


async def call(url: str, body: bytes, headers: Mapping[str, str], *, local: bool) -> None:
    """POST it. Raises ``SinkFailed`` unless the answer is a success; what the answer's body says is not read."""
    if not local and urlsplit(url).scheme != "https":
        raise SinkFailed("only https leaves this machine: set local = true if the sink is in its network")
    connector = aiohttp.TCPConnector(socket_factory=socket_factory(local=local), limit=1, force_close=True)
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=WAIT_REAL_S),
                max_line_size=LARGEST_HEADER_BYTES,
                max_field_size=LARGEST_HEADER_BYTES,
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            status = answer.status
    except TimeoutError:
        raise SinkFailed(f"no answer within {WAIT_REAL_S:g} s") from None
    except aiohttp.ServerDisconnectedError:
        raise SinkFailed("it closed the connection without an answer") from None
    except aiohttp.ClientConnectorError as problem:
        raise SinkFailed(str(problem.os_error)) from None
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise SinkFailed(type(problem).__name__) from None
    if 300 <= status < 400:
        raise SinkFailed(f"it answered {status}, a redirect, which is not followed: write the address that it leads to")
    if not 200 <= status < 300:
        raise SinkFailed(f"it answered {status}")
