"""Reading a request: who is at the other end, and what its body holds."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from aiohttp import web

from autopilot.domain.errors import UserError

MAX_BODY_BYTES = 256 * 1024
"""Of every body that is read whole."""


def peer_uid(request: web.Request) -> int | None:
    """The uid at the other end of the unix socket, as the kernel states it."""
    peer = request.transport.get_extra_info("socket") if request.transport else None
    if peer is None or peer.family != socket.AF_UNIX:
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


async def read_body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        raise UserError("the request's body is not JSON") from None
    if not isinstance(body, dict):
        raise UserError("the request's body is not a JSON object")
    return body


def text(body: dict[str, Any], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise UserError(f"{key} must be a string")
    return value


def flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise UserError(f"{key} must be true or false")
    return value


def share(body: dict[str, Any], key: str, default: float) -> float:
    value = body.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserError(f"{key} must be a number from 0 to 1")
    return float(value)


def whole(text: str, key: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"{key} must be a whole number")
    return int(text)
