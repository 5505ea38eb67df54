"""Server-sent events: how one is written, and how long a stream may go on."""

from __future__ import annotations

import json

from aiohttp import web

from autopilot import render

STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0
"""A quiet stream sends a comment this often, which detects clients that have gone."""
KEEP_ALIVE = b":\n\n"


def wants_stream(request: web.Request) -> bool:
    return STREAM in request.headers.get("Accept", "")


async def begin_stream(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": STREAM, "Cache-Control": "no-store"})
    await answer.prepare(request)
    await answer.write(b": follow with Last-Event-ID\n\n")
    return answer


def frame(name: str, body: render.Json, id: str | int = "") -> bytes:
    """One event. Without ``id`` the reader's last one stays."""
    numbered = f"id: {id}\n" if id != "" else ""
    return f"{numbered}event: {name}\ndata: {json.dumps(body)}\n\n".encode()
