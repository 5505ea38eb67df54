"""Whether what a machine has stored can be restored: read as another machine would read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Unrestorable(Exception):
    """Agents cannot unpack it."""


@dataclass(frozen=True, slots=True)
class CodeContents:
    """What the index of a copy of code says."""

    parts: tuple[tuple[int, str], ...]
    """Size in bytes and SHA-256 of each part after the index."""
    files: int

    @property
    def size_bytes(self) -> int:
        return sum(size for size, _ in self.parts)


class Unpacker(Protocol):
    """Every method raises ``Unrestorable``, and nothing else, on any content that a machine has written."""

    async def check_checkpoint(self, manifest: bytes, lease_id: str, index: bytes) -> None:
        """``manifest`` as the orders of other machines will name it; ``index``: the content of its first part."""
        ...

    async def check_index(self, index: bytes, sizes: Sequence[int]) -> None:
        """The index of files whose other parts have these sizes, in bytes."""
        ...

    async def read_code(self, index: bytes) -> CodeContents:
        """The index of a copy of code."""
        ...

    async def content_of(self, data: bytes, most_bytes: int) -> tuple[int, str]:
        """(size in bytes, SHA-256) of what comes out of a compressed part; no more than ``most_bytes`` may."""
        ...
