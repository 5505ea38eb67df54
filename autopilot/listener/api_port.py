"""The API for a port: one table of addresses. Calls in the API's own table are passed on, from known logins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from autopilot.api.access import RULES
from autopilot.api.problem_documents import DEFECT, Handler, problem, problem_of_http
from autopilot.api.requests import MAX_BODY_BYTES
from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.listener.gate import Gate
from autopilot.listener.receiving import Receiving
from autopilot.listener.relay import Relay

log = structlog.get_logger(__name__)

UPLOADS = ("PUT /v1/code/{sha256}", "PUT /v1/code/{sha256}/parts/{number}")
"""Calls whose body goes to a disk."""

OF_LISTENER = {
    403: "wrong_origin",
    408: "too_slow",
    421: "wrong_host",
    429: "too_many_requests",
    503: "daemon_unavailable",
    507: "disk_full",
}
"""Reasons of errors that the listener answers by itself, beside those of the daemon."""


@dataclass(frozen=True, slots=True)
class ApiConfig:
    host: str
    port: int
    names: tuple[str, ...] = ()
    """By which clients may call this machine, beside ``localhost`` and ``host``."""
    cert_file: Path | None = None
    key_file: Path | None = None


def api_listener(
    place: MailboxPlace,
    gate: Gate,
    check: Middleware,
    receiving: Receiving,
    pages: Sequence[web.RouteDef] = (),
    *,
    store: LocalBlobStore | None = None,
) -> web.Application:
    """An application for a port of its own. ``gate``: who may call. ``check``: by which names, from which pages.

    ``pages``: further routes, which pass no gate but their own.

    ``store``: of the mailbox, to give out what the daemon has signed an address for; None: a bucket does that.
    """
    relay = Relay(place, receiving)
    app = web.Application(middlewares=[_answer_errors, check], client_max_size=MAX_BODY_BYTES)
    app.cleanup_ctx.append(relay.open)
    app.add_routes(pages)
    for call in RULES:
        method, _, path = call.partition(" ")
        app.router.add_route(method, path, gate.guard(relay.upload if call in UPLOADS else relay.call))
    if store is not None:
        app.add_subapp("/v1/blobs", blob_listener(store, prefix="/", is_for_reading=True))
    return app


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return problem_of_http(error)
    except Exception:
        log.exception("listener.failed", method=request.method)
        return problem(500, DEFECT, "the listener failed at this", "its log has the cause")
