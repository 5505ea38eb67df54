"""Answers that go wrong on purpose, and what Cloudflare in front of RunPod does to callers it dislikes.

*Lost*: the call has no effect. *Unheard*: it takes effect, its answer is lost or unreadable. *Twisted*: it takes
effect, and the answer (or the effect) is not what it should be.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from autopilot_lab.sandbox.faults import InjectedFault
from autopilot_lab.sandbox.wire import hang, reset

LOST = frozenset(
    {
        "http_401", "http_403", "http_410", "http_429", "http_429_html", "http_500", "http_500_html", "http_502",
        "http_503", "http_504", "cloudflare_1010", "cloudflare_1010_with_200", "hang", "reset",
    }
)  # fmt: skip
LOST_GRAPHQL = frozenset({"internal_error", "unauthorized_200", "null_result", "data_null", "no_resources"})
"""Wrong in ways that only a GraphQL answer can be."""
UNHEARD = frozenset({"effect_then_500", "effect_then_timeout", "effect_then_reset", "html", "empty", "bad_json"})
UNHEARD_GRAPHQL = frozenset({"effect_then_null"})
TWISTED = frozenset({"null_runtime", "stale_list", "truncated_list", "no_runtime", "boot_failed", "rented_twice"})
KINDS = LOST | LOST_GRAPHQL | UNHEARD | UNHEARD_GRAPHQL | TWISTED

GRAPHQL_FAMILIES = frozenset(
    {
        "myself", "pod", "gpuTypes", "dataCenters", "countryCodes", "podFindAndDeployOnDemand", "podRentInterruptable",
        "podBidResume", "podResume", "podStop", "podTerminate", "podEditJob", "deployCpuPod", "updateUserSettings",
        "saveRegistryAuth", "deleteRegistryAuth",
    }
)  # fmt: skip
"""Root fields."""
REST_FAMILIES = frozenset(
    {"v2.create", "v2.list", "v2.show", "v2.action", "v2.delete", "v2.patch", "v2.logs", "v2.catalog", "v2.billing",
     "v2.registries", "hapi.logs"}
)  # fmt: skip
FAMILIES = GRAPHQL_FAMILIES | REST_FAMILIES

_TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    410: "Gone",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


def problem(status: int, detail: str, **more: object) -> web.Response:
    """RFC 9457."""
    body = {"title": _TITLES.get(status, "Error"), "status": status, "detail": detail, **more}
    return web.json_response(body, status=status, content_type="application/problem+json")


def too_many_requests(window: str, retry_after_s: int | None) -> web.Response:
    response = problem(429, f"rate limit exceeded for the {window} window")
    if retry_after_s is not None:
        response.headers["Retry-After"] = str(retry_after_s)
    return response


def banned_by_cloudflare(status: int = 403) -> web.Response:
    return web.Response(text="error code: 1010", status=status, content_type="text/html")


def disliked_by_cloudflare(request: web.Request) -> bool:
    return request.headers.get("User-Agent", "").startswith("Python-urllib")


async def lose(request: web.Request, fault: InjectedFault, stopping: asyncio.Event) -> web.StreamResponse:
    """The answer to a call that has no effect."""
    if fault.kind == "reset":
        return await reset(request)
    if fault.kind == "hang":
        await hang(request, fault.hang_s, stopping)
        return await reset(request)
    if fault.kind == "cloudflare_1010":
        return banned_by_cloudflare()
    if fault.kind == "cloudflare_1010_with_200":
        return banned_by_cloudflare(200)
    if fault.kind == "http_429":
        return too_many_requests("minute", None if fault.retry_after is None else int(fault.retry_after))
    status = int(fault.kind.removeprefix("http_").removesuffix("_html"))
    if fault.kind.endswith("_html") or status == 502:
        return _page(status)
    return problem(status, "the request was not carried out")


async def leave_unheard(request: web.Request, fault: InjectedFault, stopping: asyncio.Event) -> web.StreamResponse:
    """The answer to a call that has taken effect."""
    if fault.kind == "effect_then_timeout":
        await hang(request, fault.hang_s, stopping)
        return await reset(request)
    if fault.kind == "effect_then_reset":
        return await reset(request)
    if fault.kind == "effect_then_500":
        return _page(500)
    if fault.kind == "effect_then_null":
        return web.json_response({"data": {fault.on: None}})
    if fault.kind == "html":
        return _page(200)
    text = "" if fault.kind == "empty" else '{"data": {"pod'
    return web.Response(text=text, content_type="application/json")


def _page(status: int) -> web.Response:
    return web.Response(text=f"<html><body>{status}</body></html>", status=status, content_type="text/html")
