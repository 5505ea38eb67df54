"""Images that only a login may pull, and what a host's container runtime says when a registry turns it away."""

from __future__ import annotations

from dataclasses import dataclass

from autopilot.domain.registry import server_of
from autopilot_lab.sandbox.image_traits import traits_of


@dataclass(frozen=True)
class PrivateImage:
    image: str
    """With its registry, without a tag: ``ghcr.io/me/train``."""
    user: str
    password: str

    @classmethod
    def parse(cls, text: str) -> PrivateImage:
        """``IMAGE=USER:PASSWORD``. Raises ``ValueError``."""
        image, equals, login = text.partition("=")
        user, colon, password = login.partition(":")
        if not (image and equals and user and colon and password):
            raise ValueError(f"write it as IMAGE=USER:PASSWORD, not {text!r}")
        return cls(image, user, password)

    def is_of(self, image: str) -> bool:
        return image == self.image or image.startswith((f"{self.image}:", f"{self.image}@"))


@dataclass(frozen=True)
class Login:
    user: str
    password: str
    server: str | None = None
    """None: the market keeps no server with a login, and offers it to whichever registry the image names."""


def refusal(private: tuple[PrivateImage, ...], image: str, login: Login | None) -> str | None:
    """Why the image cannot be pulled so; None when it can. An unknown login is refused for any image."""
    if (words := traits_of(image).pull_words) is not None:
        return f"Error response from daemon: {words}\n"
    held = next((each for each in private if each.is_of(image)), None)
    if held is None:
        return None if login is None else _deny(login.server or server_of(image))
    server, _, path = held.image.partition("/")
    if login is None or login.server not in (None, server):
        where = f"https://{server}/v2/{path}/manifests/{image.rpartition(':')[2]}"
        return f'Error response from daemon: Head "{where}": unauthorized\n'
    if (login.user, login.password) != (held.user, held.password):
        return _deny(server)
    return None


def _deny(server: str) -> str:
    return f'Error response from daemon: Get "https://{server}/v2/": denied: denied\n'
