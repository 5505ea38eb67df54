"""Webhooks after Standard Webhooks 1.0: the receiver checks a signature over id, time and body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from autopilot.domain.errors import UserError
from autopilot.notices.message import Message
from autopilot.notices.web import call

PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)


def read_keys(text: str) -> tuple[bytes, ...]:
    """The keys of a secret's file: one, or an old and a new one while they change. Raises ``UserError``."""
    keys = []
    for word in text.split():
        try:
            keys.append(base64.b64decode(word.removeprefix(PREFIX), validate=True))
        except binascii.Error:
            keys.append(b"")
    if not keys or any(len(key) not in _KEY_BYTES for key in keys):
        raise UserError(
            f'not a webhook key: it must start with "{PREFIX}", followed by base64 of 24 to 64 bytes',
            hint=f'make one: echo "{PREFIX}$(openssl rand -base64 32)"',
        )
    return tuple(keys)


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """``timestamp``: Unix seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class WebhookSink:
    def __init__(
        self, url: str, keys: tuple[bytes, ...], wall_now: Callable[[], datetime], *, local: bool = False
    ) -> None:
        """``wall_now``: the time as the receiver has it."""
        self._url = url
        self._keys = keys
        self._wall_now = wall_now
        self._local = local

    @property
    def place(self) -> str:
        return f"webhook at {urlsplit(self._url).hostname}"

    async def send(self, message: Message) -> None:
        body = json.dumps(message.as_json()).encode()
        timestamp = int(self._wall_now().timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": "autopilot",
            "webhook-id": message.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": " ".join(sign(key, message.id, timestamp, body) for key in self._keys),
        }
        await call(self._url, body, headers, local=self._local)
