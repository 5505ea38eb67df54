"""Answers that go wrong on purpose.

*Lost*: the call has no effect. *Unheard*: it takes effect, its answer is lost or unreadable. *Twisted*: it takes
effect, and the answer (or the effect) is not what it should be.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from autopilot_lab.sandbox.faults import InjectedFault
from autopilot_lab.sandbox.wire import hang, reset

FAMILIES = frozenset(
    {
        "create",
        "list",
        "show",
        "change",
        "end",
        "instances",
        "bill",
        "types",
        "availability",
        "price",
        "history",
        "account",
    }
)
LOST = frozenset(
    {
        "http_401", "http_402", "http_403", "http_404_html", "http_409", "http_429", "http_500", "http_502", "http_503",
        "http_504", "over_quota", "no_billing", "name_conflict", "reset", "hang",
    }
)  # fmt: skip
UNHEARD = frozenset({"effect_then_500", "effect_then_reset", "effect_then_timeout", "html", "empty", "bad_json"})
TWISTED = frozenset(
    {"repeated_cursor", "stale_list", "null_region", "stale_price", "null_prices", "no_price", "old_history",
     "error_machine", "made_twice"}
)  # fmt: skip
"""A list whose cursor comes again; lists and prices of before; bids that do not state their region; prices that are
null, or none at all, or told as they were before; a machine that does not come up; a create that makes two bids."""
KINDS = LOST | UNHEARD | TWISTED

_DETAILS = {
    "http_401": (401, "Invalid or expired API key"),
    "http_402": (402, "payment method required"),
    "http_403": (403, "the organization's limit is reached"),
    "http_409": (409, "another change of this bid is under way"),
    "http_500": (500, "Internal Server Error"),
    "http_503": (503, "try again later"),
    "over_quota": (400, "quota exceeded for this instance type"),
    "no_billing": (400, "billing is not set up"),
    "name_conflict": (400, "name already used by another bid"),
}


def refusal(status: int, detail: str, field: str = "") -> web.Response:
    """As FastAPI answers: a 422 is a list of errors."""
    if status == 422:
        error = {"loc": ["body", *field.split(".")], "msg": detail, "type": "value_error"}
        return web.json_response({"detail": [error]}, status=422)
    return web.json_response({"detail": detail}, status=status)


def page(status: int) -> web.Response:
    return web.Response(text=f"<html><body>{status}</body></html>", status=status, content_type="text/html")


async def lose(request: web.Request, fault: InjectedFault, stopping: asyncio.Event) -> web.StreamResponse:
    """The answer to a call that has no effect."""
    if fault.kind == "reset":
        return await reset(request)
    if fault.kind == "hang":
        await hang(request, fault.hang_s, stopping)
        return await reset(request)
    if fault.kind == "http_429":
        response = refusal(429, "rate limit exceeded")
        if fault.retry_after is not None:
            response.headers["Retry-After"] = str(int(fault.retry_after))
        return response
    if fault.kind in _DETAILS:
        return refusal(*_DETAILS[fault.kind])
    return page(int(fault.kind.removeprefix("http_").removesuffix("_html")))


async def leave_unheard(request: web.Request, fault: InjectedFault, stopping: asyncio.Event) -> web.StreamResponse:
    """The answer to a call that has taken effect."""
    if fault.kind == "effect_then_timeout":
        await hang(request, fault.hang_s, stopping)
        return await reset(request)
    if fault.kind == "effect_then_reset":
        return await reset(request)
    if fault.kind in ("effect_then_500", "html"):
        return page(500 if fault.kind == "effect_then_500" else 200)
    text = "" if fault.kind == "empty" else '{"data": [{"fid'
    return web.Response(text=text, content_type="application/json")
