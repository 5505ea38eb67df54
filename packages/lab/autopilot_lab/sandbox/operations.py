"""Operations of a control API: JSON in, JSON out, with the market brought up to date before and after."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal, InvalidOperation

from aiohttp import web

from autopilot_lab.sandbox.market.exchange import NoSuchInstance
from autopilot_lab.sandbox.market.market import OrderRefused
from autopilot_lab.sandbox.wire import Host

Json = dict[str, object]
Operation = Callable[[Json], Json]


class BadRequest(Exception):
    """What the caller asked for makes no sense; the text says why."""


def add_operations(
    app: web.Application, prefix: str, operations: Mapping[tuple[str, str], Operation], host: Host
) -> None:
    """``operations`` by method and name. A mistake is answered with 400 and ``error``."""
    for (method, name), operation in operations.items():
        app.router.add_route(method, prefix + name, _handler(operation, host))


def _handler(operation: Operation, host: Host) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        host.synchronise()
        try:
            answer = operation({**request.query, **await _body(request)})
        except (BadRequest, OrderRefused, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        except NoSuchInstance as error:
            return web.json_response({"error": f"no such instance: {error}"}, status=400)
        host.synchronise()
        await host.settle()
        return web.json_response(answer)

    return handle


def amount(wish: Json, name: str) -> Decimal:
    value = wish.get(name)
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise BadRequest(f"{name} must be a number, not {value!r}") from None
    if not number.is_finite() or number < 0:
        raise BadRequest(f"{name} must not be negative")
    return number


def duration(wish: Json) -> float | None:
    return None if wish.get("duration_s") is None else float(amount(wish, "duration_s"))


async def _body(request: web.Request) -> Json:
    raw = await request.read()
    if not raw:
        return {}
    try:
        body = json.loads(raw)
    except ValueError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body
