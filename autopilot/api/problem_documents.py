"""Problem documents (RFC 9457): title, status, detail, hint, and a reason code that programs can go by."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

PROBLEM = "application/problem+json"
CALLER_GONE = 499
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OF_HTTP = {404: "no_such_address", 405: "method_not_allowed", 413: "too_large"}
"""Reasons of errors that come before any of ours."""
BAD_REQUEST, DEFECT = "bad_request", "defect"


def problem(status: int, reason: str, detail: str, hint: str = "", **more: str) -> web.Response:
    """``reason``: one code of ours; ``more``: further members of the document."""
    title = HTTPStatus(status).phrase if status != CALLER_GONE else "Client Closed Request"
    body = {"title": title, "status": status, "reason": reason, "detail": detail, "hint": hint, **more}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return web.Response(text=json.dumps(body), status=status, content_type=PROBLEM, headers=headers)


def problem_of_http(error: web.HTTPException) -> web.Response:
    """For what the server itself has refused: an address, a method, a size."""
    answer = problem(error.status, OF_HTTP.get(error.status, BAD_REQUEST), error.reason)
    answer.headers.update({name: error.headers[name] for name in ("Allow",) if name in error.headers})
    return answer


def problem_of_payload() -> web.Response:
    return problem(400, BAD_REQUEST, "the request's body is not what its headers say")
