"""What container runtimes say when a registry does not give out an image. Pure."""

from __future__ import annotations

import re

_REFUSED = re.compile(
    r"(?:^|[:\s])(?:unauthorized|denied)(?::|\s|$)|authentication required|no basic auth credentials"
    r"|incorrect username or password"
    r"|\b40[13] (?:unauthorized|forbidden)\b",
    re.IGNORECASE,
)
"""Docker's and containerd's words for a missing login, a wrong one, and one without the right to this image."""
_NOT_THE_REGISTRY = re.compile(r"permission denied|access denied by|denied by policy", re.IGNORECASE)


def says_pull_refused(text: str) -> bool:
    return _REFUSED.search(text) is not None and _NOT_THE_REGISTRY.search(text) is None
