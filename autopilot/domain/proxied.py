"""Who comes through a reverse proxy that vouches for them by name, as the settings have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autopilot.domain.token import Bounds

_NAME = re.compile(r"[A-Za-z0-9][!-~]{0,99}", re.ASCII)
_NEVER = frozenset(",;\"'`<>%")
"""Proxies join two headers by a comma; the others begin or end something elsewhere."""


def is_proxied_name(name: str) -> bool:
    """Whether a proxy may call somebody that: 1 to 100 printable letters without spaces, as user names and mail
    addresses are."""
    return _NAME.fullmatch(name) is not None and not _NEVER & set(name)


class ProxiedUser(NamedTuple):
    bounds: Bounds
    uid: int | None = None
    """The user of this machine who owns their jobs; None: they own jobs by themselves."""


@dataclass(frozen=True, slots=True)
class ProxyRules:
    users: Mapping[str, ProxiedUser] = field(default_factory=dict)
    """By the name that the proxy gives them, as it is spelt."""
    others: Bounds | None = None
    """Rights of all other names; None: they are refused."""
    is_open: bool = False
    """Whether there is a listener for the proxy."""
    secret_sha256: str = ""
    """Digest of the secret that the proxy has to send; empty: none, its socket is closed to others."""

    def find(self, name: str) -> ProxiedUser | None:
        """The user whom the settings let in by that name."""
        found = self.users.get(name)
        if found is None and self.others is not None and is_proxied_name(name):
            return ProxiedUser(self.others)
        return found
