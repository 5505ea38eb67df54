"""Labels: the name by which a machine is known to be ours, and what a label says by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

ULID_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: ids sort by the time of their making."""
LABEL_PREFIX = "ap1"


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
    if prefix != LABEL_PREFIX or not install_id or len(lease_id) != 26 or not set(lease_id) <= set(ULID_ALPHABET):
        return None
    milliseconds = 0
    for character in lease_id[:10]:
        milliseconds = milliseconds << 5 | ULID_ALPHABET.index(character)
    if milliseconds >> 48:
        return None
    try:
        return LabelParts(install_id, datetime.fromtimestamp(milliseconds / 1000, UTC))
    except (ValueError, OverflowError):
        return None
