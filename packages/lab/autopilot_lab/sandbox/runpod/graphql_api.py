"""``POST /graphql``: documents executed against the market.

A document that does not parse or fit the schema is answered with 400, a business error with 200.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter

from aiohttp import web
from graphql import ExecutionResult, GraphQLError, execute

from autopilot_lab.sandbox.faults import Faults, InjectedFault
from autopilot_lab.sandbox.runpod.exchange import Mode
from autopilot_lab.sandbox.runpod.injected_faults import (
    LOST,
    LOST_GRAPHQL,
    UNHEARD,
    UNHEARD_GRAPHQL,
    banned_by_cloudflare,
    disliked_by_cloudflare,
    leave_unheard,
    lose,
    problem,
    too_many_requests,
)
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.refusals import PodRefused, RefusalReason
from autopilot_lab.sandbox.runpod.resolvers import PUBLIC_FIELDS, Authorise, Call, Caller, Customer, Unauthorized, root
from autopilot_lab.sandbox.runpod.rows import Json
from autopilot_lab.sandbox.runpod.schema import Document, Malformed, read, schema
from autopilot_lab.sandbox.wire import Host, bearer_key

_log = logging.getLogger(__name__)
_CODES = {RefusalReason.NO_CAPACITY: "SUPPLY_CONSTRAINT", RefusalReason.BALANCE: "INSUFFICIENT_BALANCE"}
_INTERNAL_ERROR = "Something went wrong. Please try again later or contact support."
_NO_RESOURCES = "This machine does not have the resources to deploy your pod. Please try a different machine"


class GraphqlApi:
    def __init__(
        self,
        market: PodMarket,
        account: Customer,
        host: Host,
        faults: Faults,
        authorise: Authorise,
        requests: Counter[str],
        stopping: asyncio.Event,
    ) -> None:
        self._market = market
        self._account = account
        self._host = host
        self._faults = faults
        self._authorise = authorise
        self._requests = requests
        self._stopping = stopping
        self._reads = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self._host.synchronise()
        if disliked_by_cloudflare(request):
            return banned_by_cloudflare()
        if self._market.mode is Mode.GRAPHQL_GONE:
            return problem(410, "The GraphQL API has been retired. Use the REST API v2.")
        key = bearer_key(request)
        caller = None if key is None else self._authorise(key, request.headers.get("X-Team-Id"))
        if key is not None and caller is None:
            return _refuse_unauthenticated()
        try:
            query, variables, operation_name = await _body(request)
            document = read(query, schema(with_spot=self._has_spot(query)), operation_name)
        except Malformed as malformed:
            return web.json_response(malformed.body, status=400)
        self._requests.update(document.fields)
        if caller is None and not PUBLIC_FIELDS.issuperset(document.fields):
            return _refuse_unauthenticated()
        if self._is_over_limit(query):
            return too_many_requests("minute", None)
        fault = next(filter(None, map(self._faults.draw, document.fields)), None)
        if fault is not None and fault.kind in LOST:
            return await lose(request, fault, self._stopping)
        if fault is not None and fault.kind in LOST_GRAPHQL:
            return web.json_response(_spoilt(fault))
        status, reply = self._execute(document, variables, operation_name, caller or Caller(), fault)
        await self._host.settle()
        if fault is not None and fault.kind in UNHEARD | UNHEARD_GRAPHQL and "errors" not in reply:
            return await leave_unheard(request, fault, self._stopping)
        return web.json_response(reply, status=status)

    def _has_spot(self, query: str) -> bool:
        """Where the claim of the probe is broken, what is skipped fits a schema that the rest does not fit."""
        told_otherwise = "probe-is-a-request" in self._market.broken and "@skip" not in query
        return self._market.mode is not Mode.MUTATION_REMOVED and not told_otherwise

    def _is_over_limit(self, query: str) -> bool:
        """Where the claim of its limits is broken, every fifth read is one too many."""
        self._reads += not query.startswith("mutation")
        return "graphql-limits" in self._market.broken and not query.startswith("mutation") and self._reads % 5 == 0

    def _execute(
        self,
        document: Document,
        variables: Json,
        operation_name: str | None,
        caller: Caller,
        fault: InjectedFault | None,
    ) -> tuple[int, Json]:
        """Status and body. Variables that do not fit are 400 and come without ``data``."""
        call = Call(self._market, self._account, caller, fault)
        with_spot = self._market.mode is not Mode.MUTATION_REMOVED
        result = execute(
            schema(with_spot=with_spot),
            document.node,
            root_value=root(call),
            variable_values=variables,
            operation_name=operation_name,
        )
        assert isinstance(result, ExecutionResult)
        errors = result.errors or []
        if errors and result.data is None and all(error.path is None for error in errors):
            return 400, {"errors": [{"message": e.message, "extensions": {"code": "BAD_USER_INPUT"}} for e in errors]}
        return 200, {**({"errors": [_error(error) for error in errors]} if errors else {}), "data": result.data}


def _error(error: GraphQLError) -> Json:
    message, code = _INTERNAL_ERROR, "INTERNAL_SERVER_ERROR"
    cause = error.original_error
    if isinstance(cause, PodRefused):
        message, code = str(cause), _CODES.get(cause.reason, "RUNPOD")
    elif isinstance(cause, Unauthorized):
        message, code = "Unauthorized", "RUNPOD"
    else:
        _log.error("a GraphQL field could not be resolved", exc_info=cause or error)
    return _envelope(message, code, error.path or [])


def _envelope(message: str, code: str, path: list[str | int]) -> Json:
    return {"message": message, "path": path, "extensions": {"code": code}}


def _spoilt(fault: InjectedFault) -> Json:
    """An answer of 200 to a call that had no effect."""
    if fault.kind == "data_null":
        return {"data": None}
    nothing: Json = {"data": {fault.on: None}}
    if fault.kind == "null_result":
        return nothing
    message, code = {
        "internal_error": (_INTERNAL_ERROR, "INTERNAL_SERVER_ERROR"),
        "unauthorized_200": ("Unauthorized", "RUNPOD"),
        "no_resources": (_NO_RESOURCES, "RUNPOD"),
    }[fault.kind]
    return {"errors": [_envelope(message, code, [fault.on])], **nothing}


def _refuse_unauthenticated() -> web.Response:
    body = {"errors": [{"message": "Unauthorized", "extensions": {"code": "UNAUTHENTICATED"}}]}
    return web.json_response(body, status=401)


async def _body(request: web.Request) -> tuple[str, Json, str | None]:
    """Query, variables and operation name. Raises ``Malformed``."""
    try:
        body = json.loads(await request.read())
        query, variables, name = body["query"], body.get("variables") or {}, body.get("operationName")
    except (ValueError, KeyError, TypeError, AttributeError):
        query = variables = name = None
    if not isinstance(query, str) or not isinstance(variables, dict) or not isinstance(name, str | None):
        raise Malformed([GraphQLError("POST body must be a JSON object with a query.")], "BAD_REQUEST")
    return query, variables, name
