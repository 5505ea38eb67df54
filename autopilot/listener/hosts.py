"""By which names this machine may be called, and from which pages: others' pages in a browser call nothing here."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from autopilot.api.problem_documents import Handler, problem

HERE = ("localhost", "127.0.0.1", "::1")


def check_hosts(names: Collection[str], listens_on: str, *, may_be_linked: bool = False) -> Middleware:
    """A middleware that refuses calls to this machine by another name, or from another site's page.

    A name that leads here and is somebody else's would let that page read the answers.

    ``may_be_linked``: other sites may lead a browser here, in a window of its own. A user who has signed in with a
    proxy comes from such a site. Such a request changes nothing, and that site does not see the answer.
    """
    known = {name.lower() for name in (*names, *HERE, *_own_address(listens_on))}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host = _name(f"//{request.headers.get('Host', '')}")
        if host not in known:
            return problem(421, "wrong_host", "this machine is not called that", "add the name to http.names")
        origin = request.headers.get("Origin")
        is_elsewhere = origin is not None and (_name(origin) not in known or _is_of_other_port(request, origin))
        is_from_elsewhere = request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
        if is_elsewhere or (is_from_elsewhere and not (may_be_linked and _is_visit(request))):
            return problem(403, "wrong_origin", "pages of other sites may not call the API")
        return await handler(request)

    return check


def _is_of_other_port(request: web.Request, origin: str) -> bool:
    """Whether another program of the machine that the caller calls by this name has made the page.

    A proxy may call by a name without a port, or by another name than its users': then the port says nothing.
    """
    called, calling = urlsplit(f"//{request.headers.get('Host', '')}"), urlsplit(origin)
    return _port(called) is not None and called.hostname == calling.hostname and _port(called) != _port(calling)


def _is_visit(request: web.Request) -> bool:
    """Whether somebody has followed a link, as the browser says."""
    said = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method in ("GET", "HEAD") and said == ("navigate", "document")


def _own_address(listens_on: str) -> list[str]:
    try:
        return [] if ip_address(listens_on).is_unspecified else [listens_on]
    except ValueError:
        return [listens_on]


def _port(address: SplitResult) -> int | None:
    try:
        return address.port
    except ValueError:
        return 0


def _name(address: str) -> str:
    try:
        return (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
