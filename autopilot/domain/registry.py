"""Private images: where an image comes from, and who may pull it there."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from autopilot.domain.labels import LABEL_PREFIX, label_for

DOCKER_HUB = "docker.io"
_NAME_LETTERS = 32


@dataclass(frozen=True, slots=True)
class Registry:
    """``[registry]`` of the job file. ``secret`` is the name under which the password is stored, never the password."""

    server: str
    user: str
    secret: str


@dataclass(frozen=True, slots=True)
class RegistryLogin:
    """Held in memory alone, for the moment in which a market is told."""

    server: str
    user: str
    password: str = field(repr=False)

    def name(self, install_id: str, key: bytes) -> str:
        """By which a credential that a market keeps is known to be ours, and to be this one; it tells nothing else."""
        text = "\0".join((self.server, self.user, self.password))
        return label_for(install_id, hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:_NAME_LETTERS])


def read_login_name(name: str) -> str | None:
    """The installation that a kept login's name says; None for a name that none of ours would have."""
    prefix, _, rest = name.partition(".")
    install_id, _, digest = rest.partition(".")
    is_digest = len(digest) == _NAME_LETTERS and set(digest) <= set("0123456789abcdef")
    return install_id if prefix == LABEL_PREFIX and install_id and is_digest else None


def server_of(image: str) -> str:
    """The registry that an image's name means: ``ghcr.io`` for ``ghcr.io/me/train:1``, Docker Hub for ``me/train``."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB
