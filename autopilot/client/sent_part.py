"""A part of the code on its way to the daemon, read block by block. Standard library only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from autopilot.agent.pack import Packed
from autopilot.client.errors import CodeChanged

_BLOCK_BYTES = 1 << 20


class SentPart:
    """``size`` bytes. The sender calls ``refuse_change`` if that fails."""

    def __init__(self, packed: Packed, number: int) -> None:
        """``number``: of the part, from 1."""
        self.size, self._sha256 = packed.contents.parts[number - 1]
        self._part = packed.open_part(number - 1)
        self._is_short = False

    def read(self, size: int = _BLOCK_BYTES) -> bytes:
        """Raises ``OSError`` for files that are shorter than they were, or gone."""
        try:
            block = self._part.read(size)
        except OSError:
            self._is_short = True
            raise
        if not block and self._part.size != self.size:
            self._is_short = True
            raise OSError("a file became shorter")
        return block

    async def blocks(self) -> AsyncIterator[bytes]:
        while block := await asyncio.to_thread(self.read):
            yield block

    def refuse_change(self) -> None:
        """Raises ``CodeChanged`` where the files are not any more what was packed."""
        is_other = self._part.size == self.size and self._part.sha256.hexdigest() != self._sha256
        if self._is_short or is_other:
            raise CodeChanged("a file of the code changed while it was sent", hint="submit again")
