"""Errors as problem documents (RFC 9457): title, status, detail, hint, and a reason code that programs can go by."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

import structlog
from aiohttp import web

from autopilot.api.access import NotAllowed, Unauthorised
from autopilot.api.code import SendAgain
from autopilot.api.jobs import JobNotFound
from autopilot.api.once import CallerGone, KeyReused
from autopilot.api.plan import OverBudget
from autopilot.api.prospects import Unlikely
from autopilot.api.same_job import SameJobOpen
from autopilot.domain.errors import UserError
from autopilot.engine.execs import ExecBusy, NoAnswer
from autopilot.ports.blobs import BlobUnavailable
from autopilot.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)

PROBLEM = "application/problem+json"
CALLER_GONE = 499
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ProblemKind(NamedTuple):
    raised: type[Exception]
    status: int
    reason: str
    hint: str = ""
    """For errors that bring none."""


KINDS = (
    ProblemKind(Unauthorised, 401, "unauthorised"),
    ProblemKind(NotAllowed, 403, "not_allowed"),
    ProblemKind(JobNotFound, 404, "not_found"),
    ProblemKind(OverBudget, 402, "over_budget"),
    ProblemKind(Unlikely, 402, "unlikely"),
    ProblemKind(SameJobOpen, 409, "same_job_open"),
    ProblemKind(SendAgain, 409, "code_gone"),
    ProblemKind(ExecBusy, 409, "exec_busy"),
    ProblemKind(KeyReused, 409, "key_reused"),
    ProblemKind(NoAnswer, 504, "no_answer"),
    ProblemKind(UserError, 422, "bad_input"),
    ProblemKind(BlobUnavailable, 503, "mailbox_unavailable", "autopilot doctor tries the store out"),
    ProblemKind(StoreUnavailable, 503, "ledger_unavailable", "nothing was changed; mend it and try again"),
)
"""The first that fits says how an error is answered."""

OF_HTTP = {404: "no_such_address", 405: "method_not_allowed", 413: "too_large"}
"""Reasons of errors that come before any of ours."""
BAD_REQUEST, DEFECT = "bad_request", "defect"


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except CallerGone:
        log.info("api.caller_gone", method=request.method, path=request.path)
        return problem(CALLER_GONE, "caller_gone", "the caller has hung up; nothing was changed")
    except web.RequestPayloadError:
        return problem(400, BAD_REQUEST, "the request's body is not what its headers say")
    except web.HTTPException as error:
        allowed = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
        answer = problem(error.status, OF_HTTP.get(error.status, BAD_REQUEST), error.reason)
        answer.headers.update(allowed)
        return answer
    except Exception as error:
        kind = next((each for each in KINDS if isinstance(error, each.raised)), None)
        if kind is not None:
            return _of_kind(kind, error)
        log.exception("api.failed", method=request.method, path=request.path)
        return problem(500, DEFECT, "the daemon failed at this", "its log has the cause: journalctl -u autopilot")


def problem(status: int, reason: str, detail: str, hint: str = "", **more: str) -> web.Response:
    """``reason``: one code of ours; ``more``: further members of the document."""
    title = HTTPStatus(status).phrase if status != CALLER_GONE else "Client Closed Request"
    body = {"title": title, "status": status, "reason": reason, "detail": detail, "hint": hint, **more}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return web.Response(text=json.dumps(body), status=status, content_type=PROBLEM, headers=headers)


def _of_kind(kind: ProblemKind, error: Exception) -> web.Response:
    more = {"job": error.job_id} if isinstance(error, SameJobOpen) else {}
    if isinstance(error, UserError):
        return problem(kind.status, kind.reason, error.message, error.hint, **more)
    return problem(kind.status, kind.reason, str(error), kind.hint)
