"""A part of the code on its way to the daemon: read in a thread, block by block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from autopilot.agent.pack import Packed

_BLOCK_BYTES = 1 << 20


class SentPart:
    """``size`` bytes. Where the files are not any more what was packed, ``is_changed`` says so once they were read."""

    def __init__(self, packed: Packed, number: int = 0) -> None:
        """``number``: of the part, from 1; 0 is the index."""
        self._packed = packed
        self._number = number
        self.size = packed.contents.parts[number - 1][0] if number else len(packed.data)
        self.is_changed = False

    async def blocks(self) -> AsyncIterator[bytes]:
        """Raises ``OSError`` for files that are shorter than they were, or gone."""
        if not self._number:
            yield self._packed.data
            return
        part, told = self._packed.open_part(self._number - 1), self._packed.contents.parts[self._number - 1]
        self.is_changed = True
        while block := await asyncio.to_thread(part.read, _BLOCK_BYTES):
            yield block
        if part.size != self.size:
            raise OSError("a file became shorter")
        self.is_changed = part.sha256.hexdigest() != told[1]
