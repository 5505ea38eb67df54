"""Where the pages of one session lie: beneath a path of their own, to which alone its cookie is sent.

Browsers send the cookies of one port of a machine to all its ports, but none beyond its path. Another program on this
machine cannot name the path, so it is sent no cookie. The path follows from the secret in the cookie, and tells
nothing of it. Pages link to each other relatively: none holds the path.
"""

from __future__ import annotations

import hashlib
import hmac

from aiohttp import web

from autopilot.listener.pages import OF_SESSION

_PREFIX = OF_SESSION.partition("{")[0]
_COOKIE = "autopilot-page"


def make_path(secret: str) -> str:
    """``/s/…/``, of the session with that secret."""
    return f"{_PREFIX}{_derive(secret)}/"


def name_cookie(key: str) -> str:
    """With what only this session's pages have in their path: no other program can set one of that name."""
    return f"{_COOKIE}-{key}"


def read_secret(request: web.Request) -> str:
    """The secret of the session beneath whose path it asks; empty if it has none, or that of another."""
    key = _read_key(request)
    secret = request.cookies.get(name_cookie(key), "") if key else ""
    return secret if hmac.compare_digest(_derive(secret), key) else ""


def keep_secret(answer: web.Response, request: web.Request, secret: str, max_age: int | None = None) -> None:
    """In a cookie, for as long as the browser runs or for so many seconds."""
    answer.set_cookie(
        name_cookie(_derive(secret)),
        secret,
        httponly=True,
        samesite="Strict",
        secure=request.secure,
        path=make_path(secret),
        max_age=max_age,
    )


def forget_secret(answer: web.Response, request: web.Request) -> None:
    if key := _read_key(request):
        answer.del_cookie(name_cookie(key), path=f"{_PREFIX}{key}/")


def read_base(request: web.Request) -> str:
    """The prefix of every address of these pages; empty for users who need no session."""
    key = _read_key(request)
    return f"{_PREFIX}{key}" if key else ""


def read_page_path(request: web.Request) -> str:
    """Path of the page: ``/jobs/research``, the same in every session."""
    return request.rel_url.raw_path.removeprefix(read_base(request))


def lead_back(path: str) -> str:
    """From the page at ``path`` to the first one, relatively: ``../`` as often as there are directories."""
    return "../" * (path.count("/") - 1) or "./"


def _derive(secret: str) -> str:
    return hashlib.sha256(f"path of {secret}".encode()).hexdigest()[:32]


def _read_key(request: web.Request) -> str:
    path = request.rel_url.raw_path
    key, slash, _ = path.removeprefix(_PREFIX).partition("/")
    return key if path.startswith(_PREFIX) and slash else ""
