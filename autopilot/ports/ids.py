"""Where ids come from: ULIDs, sortable by the time of their making, 26 characters of Crockford's base 32."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from autopilot.ports.clock import Clock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LABEL_PREFIX = "ap1"


class Ids(Protocol):
    def new(self) -> str: ...


class UlidIds:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new(self) -> str:
        number = int(self._clock.now().timestamp() * 1000) << 80 | secrets.randbits(80)
        return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def label_for(install_id: str, lease_id: str) -> str:
    """The name by which an instance is known at its market: ours, and unique to one create."""
    return f"{LABEL_PREFIX}.{install_id}.{lease_id}"


def is_ours(label: str, install_id: str) -> bool:
    return label.startswith(f"{LABEL_PREFIX}.{install_id}.")


class LabelParts(NamedTuple):
    install_id: str
    made_at: datetime
    """When the lease's id was made: the moment of its intent, or at most a tick later."""


def read_label(label: str) -> LabelParts | None:
    """What a label of any installation says by itself; None for a label that none of ours would be."""
    prefix, _, rest = label.partition(".")
    install_id, _, lease_id = rest.partition(".")
    if prefix != LABEL_PREFIX or not install_id or len(lease_id) != 26 or not set(lease_id) <= set(_ALPHABET):
        return None
    milliseconds = 0
    for character in lease_id[:10]:
        milliseconds = milliseconds << 5 | _ALPHABET.index(character)
    if milliseconds >> 48:
        return None
    try:
        return LabelParts(install_id, datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError):
        return None
