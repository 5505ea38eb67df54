"""How a registry wants to be asked: by a token that a realm gives, or with the login itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

import aiohttp

from autopilot.domain.registry import DOCKER_HUB, RegistryLogin
from autopilot.images.calls import RegistryCalls, RegistryFailed, host_of

LOGIN_REALMS = {DOCKER_HUB: "auth.docker.io", "registry.gitlab.com": "gitlab.com"}
"""Where a registry's own realm is, if not on the host that answers for the registry."""
LONGEST_TOKEN = 16 * 1024

_PART = re.compile(r'(\w+)="([^"]*)"')
_TOKEN = re.compile(r"[\x21-\x7e]+")


async def authorize(
    calls: RegistryCalls, host: str, server: str, repository: str, challenge: str, login: RegistryLogin | None
) -> str | None:
    """What goes into ``Authorization`` for the registry at ``host``; None: there is nothing to offer.

    The login is sent to that host and to the registry's own realm. Of a realm elsewhere a token is asked for without
    it. Raises ``RegistryFailed``.
    """
    scheme, _, rest = challenge.partition(" ")
    own = None if login is None else aiohttp.encode_basic_auth(login.user, login.password)
    if scheme.lower() == "basic":
        return own
    if scheme.lower() != "bearer":
        return None
    parts = dict(_PART.findall(rest))
    realm = parts.get("realm", "")
    is_own = host_of(realm) in (host, LOGIN_REALMS.get(server))
    headers = {"Authorization": own} if own is not None and is_own else {}
    asked = {"service": parts.get("service", ""), "scope": f"repository:{repository}:pull"}
    if not asked["service"]:
        del asked["service"]
    address = realm + ("&" if urlsplit(realm).query else "?") + urlencode(asked)
    reply = await calls.call("GET", address, headers)
    if reply.status in (401, 403):
        return None
    if reply.status != 200:
        raise RegistryFailed(f"{host_of(realm)} answered {reply.status} when it was asked for a token")
    return f"Bearer {_token_in(reply.read_json())}"


def _token_in(answer: Mapping[str, object]) -> str:
    token = answer.get("token") or answer.get("access_token")
    if not isinstance(token, str) or len(token) > LONGEST_TOKEN or _TOKEN.fullmatch(token) is None:
        raise RegistryFailed("its realm answered without a token")
    return token
