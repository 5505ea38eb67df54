"""Tokens of the API: what a program may do that is not a user of the socket, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Scope(StrEnum):
    """Each holds those before it."""

    READ = "read"
    OPERATE = "operate"
    """Cancel, stop, resume, release."""
    SUBMIT = "submit"
    """Also submit and change jobs, send code, enter their machines."""
    ADMIN = "admin"
    """Also other owners' jobs, tokens and certifications."""

    def covers(self, other: Scope) -> bool:
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Token:
    number: int
    """From 1; never used again. ``-number`` is the owner of its jobs."""
    name: str
    sha256: str
    """Of the secret itself, which is kept nowhere."""
    scope: Scope
    sees_all: bool
    """It may read what concerns other owners and the whole account."""
    secrets: tuple[str, ...]
    """Names of those that its job files may name, in ``[secrets]`` and ``[registry]`` alike."""
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None

    @property
    def owner(self) -> int:
        """Of its jobs, its code and its keys of requests. Users have numbers from 0 on."""
        return -self.number

    def is_in_force(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def is_of_token(owner: int) -> bool:
    return owner < 0
