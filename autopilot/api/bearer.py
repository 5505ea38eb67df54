"""A token as a request carries it: ``Authorization: Bearer TOKEN``. It is known by its SHA-256 alone."""

from __future__ import annotations

import hashlib

from multidict import CIMultiDictProxy

from autopilot.api.access import Unauthorised

LONGEST_TOKEN = 128
_BEARER = "bearer "


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def hash_of_bearer(headers: CIMultiDictProxy[str]) -> str | None:
    """The hash of the request's token; None if it carries none. Raises ``Unauthorised``."""
    given = headers.getall("Authorization", [])
    if not given:
        return None
    if len(given) > 1 or not given[0].lower().startswith(_BEARER) or len(given[0]) > LONGEST_TOKEN:
        raise Unauthorised("the header Authorization does not contain a token", hint="Authorization: Bearer TOKEN")
    return hash_token(given[0][len(_BEARER) :].strip())
