"""Who asks, by token or by the socket, and whether they may: before any route is entered."""

from __future__ import annotations

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from autopilot.api import requests
from autopilot.api.access import RULES, ApiCaller, Unauthorised, check_scope, find_own, recognise
from autopilot.api.jobs import no_such_job
from autopilot.api.tokens import LONGEST_TOKEN, hash_token
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

log = structlog.get_logger(__name__)

_CALLER = web.RequestKey("caller", ApiCaller)
_JOB = web.RequestKey("job", str)
_JOB_ROUTES = "/v1/jobs/{ref}"
_BEARER = "bearer "


def caller_of(request: web.Request) -> ApiCaller:
    return request[_CALLER]


def job_ref(request: web.Request) -> str:
    """What the address names, by anything that a user may type; or the id alone of a job that a token may reach."""
    return request[_JOB]


def check_access(store: Store, clock: Clock) -> Middleware:
    """A middleware that lets nobody past who may not do what they ask for."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            caller = request[_CALLER] = await _recognise(request, store, clock)
        except Unauthorised:
            log.warning("api.login_failed", method=request.method, uid=requests.peer_uid(request))
            raise
        resource = request.match_info.route.resource
        if resource is None:
            return await handler(request)  # no such address, or no such method there
        method = "GET" if request.method == "HEAD" else request.method
        rule = RULES[f"{method} {resource.canonical}"]
        check_scope(caller, rule)
        if resource.canonical.startswith(_JOB_ROUTES):
            reference = request.match_info["ref"]
            if caller.token is not None:
                async with store.snapshot() as uow:
                    found = await find_own(uow, reference, caller, rule)
                if found is None:
                    raise no_such_job(reference)
                reference = found
            request[_JOB] = reference
        return await handler(request)

    return check


async def _recognise(request: web.Request, store: Store, clock: Clock) -> ApiCaller:
    """A token stands for itself alone, whoever sends it. Raises ``Unauthorised``."""
    given = request.headers.getall("Authorization", [])
    if not given:
        uid = requests.peer_uid(request)
        if uid is None:
            raise Unauthorised("this takes a token", hint="an admin makes one with autopilot token create")
        return ApiCaller(uid)
    if len(given) > 1 or not given[0].lower().startswith(_BEARER) or len(given[0]) > LONGEST_TOKEN:
        raise Unauthorised("the header Authorization holds no token", hint="Authorization: Bearer TOKEN")
    token = await recognise(store, hash_token(given[0][len(_BEARER) :].strip()), clock.now())
    return ApiCaller(token.owner, token)
