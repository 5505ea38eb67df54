"""Which problem document answers which error."""

from __future__ import annotations

from typing import NamedTuple

import structlog
from aiohttp import web

from autopilot.api.access import NotAllowed, Unauthorised
from autopilot.api.code import SendAgain
from autopilot.api.confirmations import ConfirmFirst
from autopilot.api.event_feed import TooManyFollow
from autopilot.api.once import CallerGone, KeyReused
from autopilot.api.problem_documents import (
    CALLER_GONE,
    DEFECT,
    Handler,
    problem,
    problem_of_http,
    problem_of_payload,
)
from autopilot.api.same_job import SameJobOpen
from autopilot.api.schedules import ScheduleNotFound
from autopilot.books.finding import JobNotFound
from autopilot.domain.errors import UserError
from autopilot.engine.execs import ExecBusy, NoAnswer
from autopilot.planning.plan import OverBudget
from autopilot.planning.prospects import Unlikely
from autopilot.ports.blobs import BlobUnavailable
from autopilot.ports.store import StoreUnavailable

log = structlog.get_logger(__name__)


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
    ProblemKind(ScheduleNotFound, 404, "not_found"),
    ProblemKind(OverBudget, 402, "over_budget"),
    ProblemKind(Unlikely, 402, "unlikely"),
    ProblemKind(SameJobOpen, 409, "same_job_open"),
    ProblemKind(ConfirmFirst, 409, "confirm_first"),
    ProblemKind(SendAgain, 409, "code_gone"),
    ProblemKind(ExecBusy, 409, "exec_busy"),
    ProblemKind(KeyReused, 409, "key_reused"),
    ProblemKind(NoAnswer, 504, "no_answer"),
    ProblemKind(TooManyFollow, 429, "too_many_follow"),
    ProblemKind(UserError, 422, "bad_input"),
    ProblemKind(BlobUnavailable, 503, "mailbox_unavailable", "autopilot doctor tries the store out"),
    ProblemKind(StoreUnavailable, 503, "ledger_unavailable", "nothing was changed; mend it and try again"),
)
"""The first that fits says how an error is answered."""


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except CallerGone:
        log.info("api.caller_gone", method=request.method, path=request.path)
        return problem(CALLER_GONE, "caller_gone", "the caller has hung up; nothing was changed")
    except web.RequestPayloadError:
        return problem_of_payload()
    except web.HTTPException as error:
        return problem_of_http(error)
    except Exception as error:
        kind = next((each for each in KINDS if isinstance(error, each.raised)), None)
        if kind is not None:
            return _of_kind(kind, error)
        log.exception("api.failed", method=request.method, path=request.path)
        return problem(500, DEFECT, "the daemon failed at this", "its log has the cause: journalctl -u autopilot")


def _of_kind(kind: ProblemKind, error: Exception) -> web.Response:
    more = {}
    if isinstance(error, SameJobOpen):
        more = {"job": error.job_id}
    elif isinstance(error, ConfirmFirst):
        more = {"plan": error.plan_id}
    if isinstance(error, UserError):
        return problem(kind.status, kind.reason, error.message, error.hint, **more)
    return problem(kind.status, kind.reason, str(error), kind.hint)
