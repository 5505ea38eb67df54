"""What came back from the market, read as far as it can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autopilot.providers import values
from autopilot.providers.reading import MESSAGE_LENGTH, Reply

_THRESHOLD = re.compile(r"threshold\s*=\s*(\d+(?:\.\d+)?)")
_NEW_CONTRACT = re.compile(r'"new_contract"\s*:\s*"?(\d{1,18})')


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply in the terms of the market's error shapes.

    ``body``: the JSON object, or None when the text is none; ``error``: the market's code, ``message``: its words,
    which may stand under several names; ``new_contract``: found even in a body that is no JSON.
    """

    status: int
    body: Mapping[str, Any] | None
    error: str
    message: str
    new_contract: str | None
    retry_after_s: float | None

    @property
    def said_no(self) -> bool:
        return self.body is not None and values.boolean(self.body.get("success")) is False

    @property
    def said_yes(self) -> bool:
        return self.body is not None and values.boolean(self.body.get("success")) is True

    def mentions(self, code: str) -> bool:
        """The market puts its codes into ``error`` or into the middle of the message."""
        return code in self.error or code in self.message

    @property
    def summary(self) -> str:
        """For messages: never the raw body, which may hold an instance's key."""
        words = ": ".join(part for part in (self.error, self.message) if part)
        if words:
            return f"HTTP {self.status} {words}"
        return f"HTTP {self.status} without " + ("a readable body" if self.body is None else "a reason")


def understand(reply: Reply) -> Answer:
    try:
        decoded = values.decode(reply.text)
    except values.Unreadable:
        decoded = None
    body = decoded if isinstance(decoded, dict) else None
    fields = body or {}
    words = next((said for name in ("msg", "message", "detail") if (said := values.text(fields.get(name)))), "")
    if body is None and reply.status == 429:
        words = values.text(reply.text)
    found = _NEW_CONTRACT.search(reply.text) if body is None else None
    return Answer(
        status=reply.status,
        body=body,
        error=values.text(fields.get("error"))[:MESSAGE_LENGTH],
        message=words[:MESSAGE_LENGTH],
        new_contract=found[1] if found else values.identifier(fields.get("new_contract")),
        retry_after_s=_retry_after_s(reply, fields, words),
    )


def _retry_after_s(reply: Reply, fields: Mapping[str, Any], words: str) -> float | None:
    """From the header, the body, or the threshold that the message names."""
    threshold = _THRESHOLD.search(words)
    stated = (reply.retry_after, fields.get("retry_after"), threshold[1] if threshold else None)
    wait_s = next((read for value in stated if (read := values.number(value)) is not None and read >= 0), None)
    return None if wait_s is None else float(wait_s)
