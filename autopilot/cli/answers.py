"""The daemon's answers as values."""

from __future__ import annotations

from typing import Any, TypeVar

from autopilot.answers.codec import Unreadable, from_json
from autopilot.cli.exits import CommandError, Exit

T = TypeVar("T")


def read(kind: type[T], body: Any) -> T:
    """Raises ``CommandError``."""
    try:
        return from_json(kind, body)
    except Unreadable as problem:
        hint = "are the command line and the daemon of one version? see autopilot version"
        raise CommandError(Exit.FAILED, f"the daemon's answer cannot be read: {problem}", hint=hint) from None
