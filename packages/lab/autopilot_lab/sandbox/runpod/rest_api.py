"""REST v2 (on demand only), the retired v1, and log snapshots.

Errors are problem+json; every answer to a known key carries the rate limits and a request id.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from autopilot_lab.sandbox.faults import Faults
from autopilot_lab.sandbox.runpod import billing, bodies, gpu_types, logs, rest_rows
from autopilot_lab.sandbox.runpod.catalogue import DATA_CENTERS
from autopilot_lab.sandbox.runpod.injected_faults import (
    LOST,
    UNHEARD,
    banned_by_cloudflare,
    disliked_by_cloudflare,
    leave_unheard,
    lose,
    problem,
)
from autopilot_lab.sandbox.runpod.machines import Cloud
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Pod
from autopilot_lab.sandbox.runpod.quota import Quota
from autopilot_lab.sandbox.runpod.refusals import PodRefused, RefusalReason, invalid
from autopilot_lab.sandbox.runpod.resolvers import Authorise, Call, Customer, Unauthorized
from autopilot_lab.sandbox.runpod.rows import Json
from autopilot_lab.sandbox.wire import Host, bearer_key

_STATUSES = {RefusalReason.BALANCE: 402, RefusalReason.NOT_FOUND: 404}
_UNAVAILABLE_ACTION = 409


class Failure(Exception):
    """Ends a call with a problem."""

    def __init__(self, status: int, detail: str, **more: object) -> None:
        super().__init__(detail)
        self.status, self.detail, self.more = status, detail, more


@dataclass(frozen=True)
class RestCall:
    call: Call
    request: web.Request
    body: Json

    @property
    def market(self) -> PodMarket:
        return self.call.market

    def pod(self) -> Pod:
        """The pod that the path names. Raises ``PodRefused`` and ``Unauthorized``."""
        return self.call.own_pod(self.request.match_info["id"], "show")

    def row(self, pod: Pod) -> Json:
        return rest_rows.pod_row(self.market, pod, runtime_known=not self.call.has_fault("null_runtime"))


Endpoint = Callable[[RestCall], web.Response]


class RestApi:
    def __init__(
        self,
        market: PodMarket,
        account: Customer,
        host: Host,
        faults: Faults,
        authorise: Authorise,
        requests: Counter[str],
        stopping: asyncio.Event,
        *,
        enforce_rate_limits: bool,
        billing_lag_s: float,
    ) -> None:
        self._market = market
        self._account = account
        self._host = host
        self._faults = faults
        self._authorise = authorise
        self._requests = requests
        self._stopping = stopping
        self._quota = Quota(enforced=enforce_rate_limits)
        self._billing_lag_s = billing_lag_s
        self._request_ids = itertools.count(1)

    def add_routes(self, app: web.Application) -> None:
        endpoints: tuple[tuple[str, str, str, Endpoint], ...] = (
            ("POST", "/v2/pods", "v2.create", _create),
            ("GET", "/v2/pods", "v2.list", _list),
            ("GET", "/v2/pods/{id}", "v2.show", lambda call: web.json_response(call.row(call.pod()))),
            ("PATCH", "/v2/pods/{id}", "v2.patch", _patch),
            ("DELETE", "/v2/pods/{id}", "v2.delete", _delete),
            ("POST", "/v2/pods/{id}/action", "v2.action", _act),
            ("POST", "/v2/registries", "v2.registries", _save_registry),
            ("GET", "/v2/registries", "v2.registries", _list_registries),
            ("DELETE", "/v2/registries/{id}", "v2.registries", _delete_registry),
            ("GET", "/v2/catalog/gpus", "v2.catalog", _gpus),
            ("GET", "/v2/catalog/datacenters", "v2.catalog", _data_centers),
            ("GET", "/v2/billing/pods", "v2.billing", self._pod_billing),
            ("GET", "/v2/billing/network-volumes", "v2.billing", self._volume_billing),
            ("GET", "/hapi/v1/pod/{id}/logs", "hapi.logs", _log_snapshot),
        )
        for method, path, family, endpoint in endpoints:
            app.router.add_route(method, path, self._handler(family, _plain(endpoint)))
        app.router.add_get("/v2/pods/{id}/logs", self._handler("v2.logs", self._stream_logs))
        app.router.add_route("*", "/v1/{rest:.*}", self._answer_retired)

    def _handler(
        self, family: str, endpoint: Callable[[RestCall], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._requests[family] += 1
            now = self._host.synchronise()
            if disliked_by_cloudflare(request):
                return banned_by_cloudflare()
            fault = self._faults.draw(family)
            if fault is not None and fault.kind in LOST:
                return await lose(request, fault, self._stopping)
            key = bearer_key(request)
            if key is None:
                return problem(401, "missing bearer token")
            caller = self._authorise(key, request.headers.get("X-Team-Id"))
            if caller is None:
                return problem(401, "invalid bearer token")
            if family == "v2.registries" and "restricted-key-suffices" in self._market.broken:
                return problem(403, "this key may not do that")
            full = self._quota.take(key, now)
            if full is not None:
                response: web.StreamResponse = self._quota.refusal(full, now)
            else:
                call = Call(self._market, self._account, caller, fault)
                response = await _answer(endpoint, call, request)
            if not response.prepared:
                response.headers.update(self._headers(key))
            await self._host.settle()
            if fault is not None and fault.kind in UNHEARD and response.status < 400:
                return await leave_unheard(request, fault, self._stopping)
            return response

        return handle

    def _headers(self, key: str) -> dict[str, str]:
        return {**self._quota.headers(key, self._market.now), "x-request-id": f"req-{next(self._request_ids):08d}"}

    async def _stream_logs(self, call: RestCall) -> web.StreamResponse:
        pod = call.pod()
        wish = logs.LogQuery.parse(call.request.query, call.request.headers.get("Last-Event-ID"))
        headers = self._headers(bearer_key(call.request) or "")
        return await logs.stream(call.request, pod, wish, self._host, self._stopping, headers)

    async def _answer_retired(self, request: web.Request) -> web.Response:
        self._requests["v1"] += 1
        return problem(410, "REST API v1 has been retired. Use v2.")

    def _pod_billing(self, call: RestCall) -> web.Response:
        call.call.whole_account()
        caller, query = call.call.caller, call.request.query
        return web.json_response(billing.pod_billing(self._market, query, caller.team, self._billing_lag_s))

    def _volume_billing(self, call: RestCall) -> web.Response:
        call.call.whole_account()
        return web.json_response(billing.network_volume_billing(self._market, call.request.query, self._billing_lag_s))


def _create(call: RestCall) -> web.Response:
    call.call.whole_account()
    _fits(call.body, bodies.CREATE)
    order = bodies.parse_create(call.body, call.call.caller.team, call.call.account.pub_key)
    return web.json_response(call.row(call.call.rent(order)), status=201)


def _list(call: RestCall) -> web.Response:
    call.call.whole_account()
    return web.json_response({"pods": [call.row(pod) for pod in call.call.listed_pods()]})


def _patch(call: RestCall) -> web.Response:
    call.call.whole_account()
    pod = call.pod()
    _fits(call.body, bodies.PATCH)
    changes = bodies.parse_edit(call.body)
    if "locked" in call.body:
        pod.locked = bool(call.body["locked"])
    if changes:
        call.market.edit(pod, **changes)
    return web.json_response(call.row(pod))


def _delete(call: RestCall) -> web.Response:
    call.market.terminate(call.pod())
    return web.Response(status=204)


def _act(call: RestCall) -> web.Response:
    pod = call.pod()
    _fits(call.body, bodies.ACTION)
    action, status = call.body["action"], rest_rows.status_of(pod)
    if action not in rest_rows.ACTIONS[status]:
        raise Failure(_UNAVAILABLE_ACTION, f"action '{action}' is not valid for a pod in status {status}")
    if action == "terminate":
        return _delete(call)
    if action == "start":
        call.market.resume(pod, None)
    elif action == "stop":
        call.market.stop(pod)
    else:
        call.market.restart(pod)
    return web.json_response(call.row(pod))


def _save_registry(call: RestCall) -> web.Response:
    call.call.whole_account()
    _fits(call.body, bodies.REGISTRY)
    body = call.body
    name, user, password = (str(body[key]) for key in ("name", "username", "password"))
    made = call.market.registries.save(name, user, password, call.call.caller.team)
    return web.json_response(made.row(), status=201)


def _list_registries(call: RestCall) -> web.Response:
    call.call.whole_account()
    return web.json_response({"registries": [each.row() for each in call.market.registries.of(call.call.caller.team)]})


def _delete_registry(call: RestCall) -> web.Response:
    call.call.whole_account()
    call.market.registries.delete(call.request.match_info["id"], call.call.caller.team)
    return web.Response(status=204)


def _gpus(call: RestCall) -> web.Response:
    query = call.request.query
    with_availability = "AVAILABILITY" in query.get("include", "").split(",")
    if with_availability and query.get("product") != "POD":
        raise invalid("product is required with include=AVAILABILITY")
    count, cloud = query.get("count", "1"), query.get("cloud")
    if not (count.isascii() and count.isdigit() and int(count) > 0):
        raise invalid("count must be a positive whole number")
    if cloud is not None and cloud not in set(Cloud):
        raise invalid("cloud must be SECURE or COMMUNITY")
    rows = [
        rest_rows.gpu_row(
            call.market, each, int(count), None if cloud is None else Cloud(cloud), with_availability=with_availability
        )
        for each in gpu_types.gpu_types(call.market)
    ]
    return web.json_response({"gpus": rows})


def _data_centers(call: RestCall) -> web.Response:
    wanted = "GPU_AVAILABILITY" in call.request.query.get("include", "").split(",")
    rows = [rest_rows.data_center_row(call.market, place, with_availability=wanted) for place in DATA_CENTERS]
    return web.json_response({"dataCenters": rows})


def _log_snapshot(call: RestCall) -> web.Response:
    wanted = call.request.query.get("type", "all")
    lines = logs.snapshot(call.pod())
    return web.json_response({source: lines[source] for source in lines if wanted in ("all", source)})


def _plain(endpoint: Endpoint) -> Callable[[RestCall], Awaitable[web.StreamResponse]]:
    async def answer(call: RestCall) -> web.StreamResponse:
        return endpoint(call)

    return answer


async def _answer(
    endpoint: Callable[[RestCall], Awaitable[web.StreamResponse]], call: Call, request: web.Request
) -> web.StreamResponse:
    try:
        return await endpoint(RestCall(call, request, await _body(request)))
    except Failure as failed:
        return problem(failed.status, failed.detail, **failed.more)
    except Unauthorized:
        return problem(403, "this key may not do that")
    except PodRefused as refused:
        detail = {RefusalReason.BALANCE: "insufficient balance", RefusalReason.NOT_FOUND: "pod not found"}
        return problem(_STATUSES.get(refused.reason, 400), detail.get(refused.reason, str(refused)))


async def _body(request: web.Request) -> Json:
    """The JSON object that was sent, ``{}`` for none. Raises ``Failure``."""
    raw = await request.read()
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise Failure(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise Failure(422, "Request validation failed.", errors=["$: got another type, want object"])
    return body


def _fits(body: Json, shape: bodies.BodyShape) -> None:
    if errors := bodies.mistakes(body, shape):
        raise Failure(422, "Request validation failed.", errors=errors)
