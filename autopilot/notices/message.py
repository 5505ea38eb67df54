"""What a sink is sent: one notice, or several that came at once as a digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from autopilot.ports.store import PendingNotice

DIGEST = "digest"


class SinkFailed(Exception):
    """The sink did not take the message; the text says why. It may have taken it all the same."""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    """The same at every attempt."""
    kind: str
    at: datetime
    title: str
    text: str
    notices: tuple[PendingNotice, ...]

    def as_json(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks has it."""
        first = self.notices[0]
        data = {"notices": [_as_json(each) for each in self.notices]} if self.kind == DIGEST else _as_json(first)
        return {"type": self.kind, "timestamp": self.at.isoformat(), "data": data}


class Sink(Protocol):
    """One way to people."""

    @property
    def place(self) -> str:
        """Where it leads, without anything secret."""
        ...

    async def send(self, message: Message) -> None:
        """Within a bounded time. Raises ``SinkFailed``."""
        ...


def message_of(notices: Sequence[PendingNotice]) -> Message:
    """One message of notices for one sink; several are one digest."""
    first = notices[0]
    if not first.digest_id:
        return Message(first.id, first.kind, first.at, first.title, first.text, (first,))
    title = f"{len(notices)} notices, the first: {first.title}"
    parts = (f"{each.at:%Y-%m-%d %H:%M} UTC  {each.title}\n{each.text}" for each in notices)
    return Message(first.digest_id, DIGEST, first.at, title, "\n\n".join(parts), tuple(notices))


def _as_json(notice: PendingNotice) -> dict[str, Any]:
    return {
        "id": notice.id,
        "kind": notice.kind,
        "at": notice.at.isoformat(),
        "job_id": notice.job_id,
        "lease_id": notice.lease_id,
        "title": notice.title,
        "text": notice.text,
    }
