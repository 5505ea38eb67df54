"""Chat and push services through Apprise, in a process of its own for each message.

Apprise opens its connections itself. The process refuses those to other addresses and follows no redirect, and it is
killed when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys

from autopilot.domain.errors import UserError, install_hint
from autopilot.notices.message import Message, SinkFailed

WAIT_REAL_S = 30.0

SERVICES = {
    "discord": "Discord",
    "gchat": "Google Chat",
    "gotifys": "Gotify",
    "matrixs": "Matrix",
    "mmosts": "Mattermost",
    "ntfys": "ntfy",
    "opsgenie": "Opsgenie",
    "pagerduty": "PagerDuty",
    "pover": "Pushover",
    "rockets": "Rocket.Chat",
    "slack": "Slack",
    "tgram": "Telegram",
    "workflows": "Microsoft Teams",
    "zulip": "Zulip",
}
"""By the scheme of Apprise's addresses: network services, over TLS. Others of it run programs or speak to this host."""
NEAR_SERVICES = {"gotify": "Gotify", "matrix": "Matrix", "mmost": "Mattermost", "ntfy": "ntfy", "rocket": "Rocket.Chat"}
"""The same without TLS, for a server in one's own network."""


def check_service(url: str, *, local: bool) -> str:
    """The service's name. Raises ``UserError`` for an address of Apprise's that is not on the list."""
    scheme = url.partition("://")[0].lower()
    allowed = SERVICES | (NEAR_SERVICES if local else {})
    if scheme not in allowed:
        near = f", or set local = true for a {NEAR_SERVICES[scheme]} of your own" if scheme in NEAR_SERVICES else ""
        raise UserError(f"not a supported notice service: {scheme}://", hint=f"one of {', '.join(allowed)}{near}")
    if importlib.util.find_spec("apprise") is None:
        raise UserError("Apprise is not installed", hint=install_hint("notices"))
    return allowed[scheme]


class ServiceSink:
    def __init__(self, url: str, *, local: bool = False) -> None:
        """Raises ``UserError``."""
        self._name = check_service(url, local=local)
        self._url = url
        self._local = local

    @property
    def place(self) -> str:
        return self._name

    async def send(self, message: Message) -> None:
        order = {"url": self._url, "title": message.title, "body": message.text, "local": self._local}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "autopilot.notices.service_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(WAIT_REAL_S):
                answer, _ = await process.communicate(json.dumps(order).encode())
        except TimeoutError:
            raise SinkFailed(f"no answer within {WAIT_REAL_S:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode:
            raise SinkFailed(answer.decode(errors="replace").strip()[:200] or f"{self._name} did not take it")
