"""How long tests wait for what will come: for the event itself, with one limit that only a hang meets.

No test says how fast a machine has to be. Where the product promises a time, the test names it, with room for ten.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300.0
"""The longest that anything which will come is waited for. Half of what pytest gives a test, so that a wait that is in
vain says what it waited for."""


def until(look: Callable[[], Any], what: str = "what was waited for", every_s: float = 0.01) -> Any:
    """The first true answer of ``look``, for tests without a loop."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come: {what}")
        time.sleep(every_s)
    return answer


async def eventually(look: Callable[[], Any], what: str = "what was waited for", every_s: float = 0.01) -> Any:
    """The first true answer of ``look``, which may be a coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while True:
        answer = look()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        if loop.time() > deadline:
            raise AssertionError(f"it did not come: {what}")
        await asyncio.sleep(every_s)
