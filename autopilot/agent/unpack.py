"""A checkpoint's parts made into files again, on the daemon's or the user's own disk; and whether they can be."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO
from unicodedata import bidirectional, category

from autopilot.agent.shipped.chunks import MAX_INDEX_BYTES, PartWriter, parse_index
from autopilot.agent.shipped.code import CodeIndex, check_files, parse_code_index
from autopilot.agent.shipped.compress import MOST_BYTES, copy_decompressed
from autopilot.agent.shipped.download import check_parts, read_manifest
from autopilot.agent.shipped.tree import ROOT, Corrupt, Entry, finish, lay_out, unpacking
from autopilot.mailbox.report_shapes import Part
from autopilot.ports.unpacking import CodeContents, Unrestorable

_BLOCK_BYTES = 1 << 20
_NO_NAME = ("Cc", "Cs", "Zl", "Zp")
"""Control characters, bytes that are no text, ends of lines and paragraphs."""
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Characters that show a name in another order than it has."""


def unpack(parts: Sequence[Part], open_part: Callable[[int], IO[bytes]], directory: Path) -> Path:
    """Put the files beneath ``directory``, which must be empty; answers their root.

    ``open_part(i)`` gives the bytes of ``parts[i]``. The files are readable and writable by their owner; others cannot
    write them.
    Raises ``Corrupt`` when they are not what ``parts`` says, when something in them would lead out of ``directory``, or
    when no disk can hold them; ``OSError`` when this one cannot.
    """
    with open_part(0) as source:
        index = source.read(min(parts[0].size, MAX_INDEX_BYTES) + 1)
    if (len(index), hashlib.sha256(index).hexdigest()) != (parts[0].size, parts[0].sha256):
        raise Corrupt("its index is not what its manifest says, or too large")
    contents = [(part.content_size or part.size, part.content_sha256 or part.sha256) for part in parts[1:]]
    entries, slices, _ = parse_index(index, [size for size, _ in contents])
    check_names(entries)
    lay_out(entries, str(directory))
    for i, part in enumerate(parts[1:]):
        writer = PartWriter(str(directory), entries, slices[i])
        with open_part(i + 1) as source, unpacking():
            if part.content_sha256 is not None:
                copy_decompressed(source.read(MOST_BYTES), writer)
            _copy(source, writer, contents[i])
    finish(entries, str(directory), tame_mode)
    return directory / ROOT


def unpack_code(sha256: str, open_part: Callable[[int], IO[bytes]], directory: Path) -> Path:
    """The same for a copy of the user's code, by its name alone. Names in it are the user's own."""
    with open_part(0) as source:
        data = source.read(MAX_INDEX_BYTES + 1)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Corrupt("its index does not match its SHA-256")
    index = parse_code_index(data)
    lay_out(index.entries, str(directory))
    for i, content in enumerate(index.parts):
        with open_part(i + 1) as source, unpacking():
            _copy(source, PartWriter(str(directory), index.entries, index.slices[i]), content)
    check_files(index, str(directory))
    finish(index.entries, str(directory), tame_mode)
    return directory / ROOT


def _copy(source: IO[bytes], writer: PartWriter, content: tuple[int, str]) -> None:
    while block := source.read(_BLOCK_BYTES):
        writer.write(block)
    if (writer.size, writer.sha256.hexdigest()) != content:
        raise Corrupt("a part of it is not what its manifest says")


def tame_mode(entry: Entry) -> int:
    """Its owner may always read, write and enter it; others never write."""
    return entry.mode & 0o755 | (0o700 if entry.kind == "dir" else 0o600)


def check_names(entries: Sequence[Entry]) -> None:
    """Raises ``Corrupt`` for a name that would be more than a name on a terminal."""
    for entry in entries:
        if any(category(char) in _NO_NAME or bidirectional(char) in _TURNS for char in entry.name):
            raise Corrupt(f"a name in it holds control characters: {ascii(entry.name)[:100]}")


class AgentUnpacker:
    """Reads what is stored with the very code that restores it on a machine (``Unpacker``).

    One at a time and beside the loop: a hostile index takes a second to read, and ten times its size in memory.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def check_checkpoint(self, manifest: bytes, lease_id: str, index: bytes) -> None:
        def check() -> None:
            _, parts = read_manifest(manifest, lease_id)
            check_parts(parts)
            parse_index(index, [part["size"] for part in parts[1:]])

        await self._take_turn(check)

    async def check_index(self, index: bytes, sizes: Sequence[int]) -> None:
        await self._take_turn(lambda: parse_index(index, list(sizes)))

    async def read_code(self, index: bytes) -> CodeContents:
        found: list[CodeIndex] = []
        await self._take_turn(lambda: found.append(parse_code_index(index)))
        return CodeContents(tuple(found[0].parts), found[0].file_count)

    async def content_of(self, data: bytes, most_bytes: int) -> tuple[int, str]:
        content = _Content(most_bytes)
        await self._take_turn(lambda: copy_decompressed(data, content))
        return content.size, content.sha256.hexdigest()

    async def _take_turn(self, work: Callable[[], object]) -> None:
        async with self._turn:
            try:
                await asyncio.to_thread(work)
            except (Corrupt, OSError) as error:
                raise Unrestorable(str(error)) from error


class _Content:
    """Takes what comes out of a compressed part, and keeps nothing of it but size and hash."""

    def __init__(self, most_bytes: int) -> None:
        self.sha256, self.size, self._most_bytes = hashlib.sha256(), 0, most_bytes

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._most_bytes:
            raise Corrupt("more comes out of a part than its manifest says")
        self.sha256.update(data)
