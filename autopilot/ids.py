"""Ids are ULIDs: sortable by the time of their making, 26 characters of Crockford's base 32."""

from __future__ import annotations

import secrets

from autopilot.domain.labels import ULID_ALPHABET
from autopilot.ports.clock import Clock

SECRET_BYTES = 32


def new_secret() -> str:
    """256 random bits as 43 characters that an address or a header may hold."""
    return secrets.token_urlsafe(SECRET_BYTES)


def new_name() -> str:
    """A name for a scratch file: 32 hexadecimal digits."""
    return secrets.token_hex(16)


class UlidIds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new(self) -> str:
        number = int(self._clock.now().timestamp() * 1000) << 80 | secrets.randbits(80)
        return "".join(ULID_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
