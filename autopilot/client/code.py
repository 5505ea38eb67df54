"""How a copy of code is sent: the steps of it, for both transports. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from autopilot.agent.pack import Packed
from autopilot.answers.files import CodeBegun, CodeThere, Nothing
from autopilot.client.errors import DaemonError
from autopilot.client.sent_part import SentPart

T = TypeVar("T")


class AskDaemon(Protocol):
    """Sends one request. ``call``: ``PUT /v1/code/{sha256}``; ``names`` fill it; ``upload`` is its body."""

    async def __call__(self, call: str, answer: type[T], *names: str, upload: bytes | SentPart | None = None) -> T: ...


async def send_code(packed: Packed, ask: AskDaemon, on_begin: Callable[[], Any] = lambda: None) -> None:
    """Unless the daemon has it. ``on_begin`` is called before its first byte is sent.

    Raises ``DaemonError``; ``CodeChanged`` if the files are no longer those that were packed.
    """
    if (await ask("GET /v1/code/{sha256}", CodeThere, packed.sha256)).there:
        return
    on_begin()
    begun = await ask("PUT /v1/code/{sha256}", CodeBegun, packed.sha256, upload=packed.data)
    for number in begun.missing:
        part, names = SentPart(packed, number), (packed.sha256, str(number))
        try:
            await ask("PUT /v1/code/{sha256}/parts/{number}", Nothing, *names, upload=part)
        except DaemonError:
            part.refuse_change()
            raise
