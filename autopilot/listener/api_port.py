"""The API over TCP: one table of addresses. What stands in the API's own table is passed on, with a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from aiohttp import web

from autopilot.api.access import RULES
from autopilot.api.problem_documents import DEFECT, Handler, problem, problem_of_http
from autopilot.api.requests import MAX_BODY_BYTES
from autopilot.blobs.listener import blob_listener
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.listener.hosts import check_hosts
from autopilot.listener.known_tokens import KnownTokens
from autopilot.listener.relay import Relay
from autopilot.listener.token_gate import REFUSED_AFTER_S, TokenGate

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
    config: ApiConfig,
    pages: Sequence[web.RouteDef] = (),
    *,
    store: LocalBlobStore | None = None,
    refused_after_s: float = REFUSED_AFTER_S,
) -> web.Application:
    """An application for a port of its own. ``pages``: further routes, which anybody may ask for without a token.

    ``store``: of the mailbox, to give out what the daemon has signed an address for; None: a bucket does that.
    """
    relay, gate = Relay(place), TokenGate(KnownTokens(place.tokens_path), refused_after_s)
    middlewares = [_answer_errors, check_hosts(config.names, config.host)]
    app = web.Application(middlewares=middlewares, client_max_size=MAX_BODY_BYTES)
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
