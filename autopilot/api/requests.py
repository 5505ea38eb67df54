"""Reading a request: who is at the other end, and what its body holds."""

from __future__ import annotations

import difflib
import socket
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from autopilot.answers.models.base import Asked, Query
from autopilot.domain.errors import UserError
from autopilot.system import read_peer_uid

MAX_BODY_BYTES = 1_500_000
"""Limit for every body that is read whole: the largest is a job file with the table of an array."""
LARGE_BYTES = 256_000
"""A longer body is large."""
BODY_WITHIN_S = 60.0
"""For a whole body that goes to no disk."""

_WORDS = {
    "missing": "is missing",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number that is not so large",
    "float_type": "must be a number",
    "list_type": "must be a list",
}
"""By the kind of error; for all others pydantic's own."""

Body = TypeVar("Body", bound=Asked)
Parameters = TypeVar("Parameters", bound=Query)


def peer_uid(request: web.Request) -> int | None:
    """The uid at the other end of the unix socket, as the kernel states it."""
    peer = request.transport.get_extra_info("socket") if request.transport else None
    if peer is None or peer.family != socket.AF_UNIX:
        return None
    return read_peer_uid(peer)


def is_large(request: web.Request) -> bool:
    """It may turn out to be, where it does not say how long it is."""
    return request.can_read_body and (request.content_length is None or request.content_length > LARGE_BYTES)


def has_hung_up(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def read_body(request: web.Request, model: type[Body]) -> Body:
    """Raises ``UserError``."""
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise _refusal(error, model) from None


async def read_body_if_any(request: web.Request, model: type[Body]) -> Body:
    """What may be left out altogether. Raises ``UserError``."""
    # Not ``can_read_body``: that is false once somebody has read the body, who may come before.
    return await read_body(request, model) if await request.read() else model()


def read_query(request: web.Request, model: type[Parameters]) -> Parameters:
    """Raises ``UserError``."""
    try:
        return model.model_validate(dict(request.query))
    except ValidationError as error:
        raise _refusal(error, model) from None


def _refusal(error: ValidationError, model: type[BaseModel]) -> UserError:
    """The first thing that is wrong, in one line that does not repeat what was sent."""
    first = error.errors(include_url=False, include_input=False)[0]
    # Where a value may be of several kinds, the place ends with the name of one of them: literal['month', 'day'].
    place = [part for number, part in enumerate(first["loc"]) if number == 0 or "[" not in str(part)]
    kind, where = first["type"], ".".join(map(str, place))
    if kind == "json_invalid":
        return UserError("the request's body is not JSON")
    if not where:
        return UserError("the request's body is not a JSON object")
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(first["loc"][-1]), model.model_fields, n=1)
        hint = f"do you mean {near[0]}?" if near else f"known are: {', '.join(model.model_fields)}"
        return UserError(f"{where[:60]!r} is unknown", hint=hint)
    words = _WORDS.get(kind) or first["msg"][:1].lower() + first["msg"][1:]
    return UserError(f"{where} {words}" if kind in _WORDS else f"{where}: {words}")


def whole(text: str, key: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"{key} must be a whole number")
    return int(text)
