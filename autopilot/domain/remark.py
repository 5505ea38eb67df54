"""Remarks: answers of a market that a certification weighs, to any call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

LONGEST = 160
_IDS = re.compile(r"\b(?=[\w.-]*\d)[\w.-]{9,}\b|\b\d{4,}\b", re.ASCII)
"""What may be an id or a secret: long words with digits in them, and long numbers."""


class RemarkKind(StrEnum):
    RATE_LIMITED = "rate_limited"
    NO_RIGHTS = "no_rights"
    """The key may not do what was asked."""
    UNKNOWN_WORDS = "unknown_words"
    """A refusal in words that the adapter does not know."""
    PROBE_DIFFERS = "probe_differs"
    """What a probe found there was not there for a request."""


@dataclass(frozen=True, slots=True)
class Remark:
    kind: RemarkKind
    at: datetime
    words: str
    """The market's own, without ids."""


def scrub(words: str) -> str:
    """The words without what may be an id or a secret, on one line of at most ``LONGEST`` characters."""
    return _IDS.sub("…", " ".join(words.split()))[:LONGEST]
