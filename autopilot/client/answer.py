"""An answer of the daemon as JSON, or as what it refuses. Standard library only."""

from __future__ import annotations

import json
from typing import Any

from autopilot.client.errors import AnswerLost, ApiError, UnreadableAnswer

Json = dict[str, Any]

MOST_BYTES = 256 << 20
"""Of one answer. The spend of half a million machines has as many."""


def check_size(status: int, raw: bytes, most: int) -> bytes:
    """Raises ``UnreadableAnswer`` for more than ``most``, of which one byte more was read at the most."""
    if len(raw) > most:
        what = f"the daemon's answer (HTTP {status}) is larger than {most >> 20} MiB"
        raise UnreadableAnswer(status, "unknown", what, hint="ask for less: one month, one job")
    return raw


def read_answer(status: int, raw: bytes) -> Json:
    """Raises ``ApiError`` for a refusal, ``AnswerLost`` if a proxy got no answer from the daemon."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise UnreadableAnswer(
            status,
            "unknown",
            f"the daemon's answer (HTTP {status}) cannot be read",
            hint="are the command line and the daemon of one version? see autopilot version",
        )
    message, hint = str(body.get("detail") or f"the daemon answered HTTP {status}"), str(body.get("hint") or "")
    if body.get("reason") == "daemon_unavailable":
        raise AnswerLost(message, hint=hint)
    if status >= 400:
        raise ApiError(status, str(body.get("reason") or "unknown"), message, hint=hint, job=body.get("job"))
    return body
