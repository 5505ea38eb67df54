"""The port for a reverse proxy that has signed its users in: it says who they are, by a header that counts here alone.

Here it is no matter which token a request carries: what a proxy asks its users for is passed on in the same header.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from autopilot.api.bearer import hash_token
from autopilot.api.of_listener import PROXY_SECRET, PROXY_USER
from autopilot.api.proxied_users import proxy_unknown
from autopilot.domain.proxied import is_proxied_name
from autopilot.listener.gate import Gate, Identify, KnownLogin
from autopilot.listener.known_tokens import KnownTokens
from autopilot.listener.pages import OF_SESSION

HEADER_BYTES = 32 << 10
"""Limit for one header: proxies keep whole logins in cookies, and forward them."""
_OF_LINKS = ("/enter/{key}", "/leave", OF_SESSION)
"""How addresses of the page begin that mean nothing where each request says who asks."""


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    at: tuple[str, int] | Path
    """Host and port, or a unix socket."""
    user_header: str
    names: tuple[str, ...] = ()
    """By which clients may call this machine, beside ``localhost``."""
    has_secret: bool = False
    """Whether the proxy has to send one along."""

    @property
    def host(self) -> str:
        return "localhost" if isinstance(self.at, Path) else self.at[0]


def by_proxy(config: ProxyConfig, secret: KnownTokens) -> Identify:
    """The user whom the proxy names. ``secret``: of the proxy, by its hash.

    A header that comes twice, or in another spelling, could be the user's own beside the proxy's: such a request is
    refused.
    """
    spelt = config.user_header.lower()

    def identify(request: web.Request) -> KnownLogin:
        names = [value for name, value in request.headers.items() if name.lower().replace("_", "-") == spelt]
        is_exact = len(request.headers.getall(spelt, [])) == 1
        if len(names) != 1 or not is_exact or not is_proxied_name(names[0]):
            raise proxy_unknown()
        headers = {PROXY_USER: names[0]}
        if config.has_secret:
            given = request.headers.getall(PROXY_SECRET, [])
            sha256 = hash_token(given[0]) if len(given) == 1 else ""
            if not any(hmac.compare_digest(sha256, each) for each in secret.list_all()):
                raise proxy_unknown()
            headers[PROXY_SECRET] = given[0]
        return KnownLogin(f"proxy:{names[0]}", "user", headers)

    return identify


def guard_pages(pages: Sequence[web.RouteDef], gate: Gate) -> list[web.RouteDef]:
    """The page's addresses for users that the proxy names, without those of links."""
    return [
        web.route(each.method, each.path, gate.guard(each.handler))
        for each in pages
        if not each.path.startswith(_OF_LINKS)
    ]
