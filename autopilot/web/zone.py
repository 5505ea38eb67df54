"""The time zone in which pages write times: chosen once, kept by the browser. Sums by the day stay those of UTC, as the
limits are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from aiohttp import web

from autopilot.web.session_path import read_base

COOKIE = "autopilot-zone"
KEPT_S = 365 * 24 * 3600
UTC_NAME = "UTC"
_OFFERED = (
    *("Pacific/Honolulu", "America/Anchorage", "America/Los_Angeles", "America/Denver", "America/Chicago"),
    *("America/New_York", "America/Halifax", "America/Sao_Paulo", "Atlantic/Azores", "Europe/London", "Europe/Lisbon"),
    *("Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Rome", "Europe/Zurich", "Europe/Warsaw"),
    *("Africa/Lagos", "Africa/Johannesburg", "Europe/Athens", "Europe/Helsinki", "Europe/Kyiv", "Africa/Cairo"),
    *("Africa/Nairobi", "Europe/Istanbul", "Europe/Moscow", "Asia/Jerusalem", "Asia/Dubai", "Asia/Karachi"),
    *("Asia/Kolkata", "Asia/Dhaka", "Asia/Jakarta", "Asia/Bangkok", "Asia/Shanghai", "Asia/Singapore"),
    *("Asia/Taipei", "Australia/Perth", "Asia/Seoul", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland"),
)


@cache
def _find(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_UTC = ZoneInfo(UTC_NAME)
_chosen: ContextVar[ZoneInfo] = ContextVar("zone of a page", default=_UTC)


def list_names() -> list[str]:
    """Those that can be chosen, from west to east; UTC first."""
    return [UTC_NAME, *(name for name in _OFFERED if _find(name) is not None)]


def choose(name: str) -> None:
    """For what is made for this request. A name that is not offered means UTC."""
    found = _find(name) if name in _OFFERED else None
    _chosen.set(found or _UTC)


def choose_of(request: web.Request) -> None:
    choose(request.cookies.get(COOKIE, ""))


@contextmanager
def chosen(name: str) -> Iterator[None]:
    before = _chosen.set(_find(name) or _UTC)
    try:
        yield
    finally:
        _chosen.reset(before)


def here() -> ZoneInfo:
    return _chosen.get()


def name() -> str:
    return here().key


def local(instant: datetime) -> datetime:
    return instant.astimezone(here())


def keep(request: web.Request, form: dict[str, str]) -> web.Response:
    """The page from which it was chosen, with the choice kept."""
    back = form.get("back", "")
    is_of_ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    answer = web.Response(status=303, headers={"Location": read_base(request) + (back if is_of_ours else "/")})
    name = form.get("zone", "")
    kept = name if name in list_names() else UTC_NAME
    answer.set_cookie(COOKIE, kept, httponly=True, samesite="Strict", secure=request.secure, path="/", max_age=KEPT_S)
    return answer
