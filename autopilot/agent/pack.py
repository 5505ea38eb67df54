"""Files of the user's own disk packed for machines: as a checkpoint, but for what a disk adds to the content."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from autopilot.agent.shipped.chunks import MAX_INDEX_BYTES, PartReader, cut
from autopilot.agent.shipped.code import MOST_PARTS, CodeIndex
from autopilot.agent.shipped.tree import Corrupt, Entry, Scanned, check_entries

_EMPTY = hashlib.sha256().hexdigest()
_BLOCK_BYTES = 1 << 20


class Packed(NamedTuple):
    """Opening a part reads the files again: nothing is copied."""

    contents: CodeIndex
    data: bytes
    """The index as it is sent."""
    sha256: str
    """Its name: equal content, equal name."""
    paths: list[str]

    def open_part(self, i: int) -> PartReader:
        return _SourceReader(self.paths, self.contents.slices[i])


def plain(entry: Entry) -> Entry:
    """Without what differs between disks: owner, time, and all rights but the owner's to run it."""
    may_run = entry.kind == "dir" or (entry.kind == "file" and entry.mode & stat.S_IXUSR)
    return entry._replace(mode=0o755 if may_run else 0o644, mtime_ns=0)


def pack(scanned: Sequence[Scanned]) -> Packed:
    """Reads all of it, once. Raises ``Corrupt`` for what no machine could lay out, ``OSError``."""
    chosen = sorted(scanned, key=lambda each: each.entry.name)
    entries = check_entries([plain(each.entry) for each in chosen])
    paths = [each.path for each in chosen]
    slices = cut(entries, MOST_PARTS)
    hashes = _FileHashes(entries)
    parts = []
    for part in slices:
        reader = _HashingReader(paths, part, hashes)
        while reader.read(_BLOCK_BYTES):
            pass
        parts.append((reader.size, reader.sha256.hexdigest()))
    index = CodeIndex(entries, slices, parts, hashes.close())
    if [size for size, _ in parts] != [sum(length for _, _, length in part) for part in slices]:
        raise OSError("a file became shorter while it was read")
    data = index.to_json()
    if len(data) > MAX_INDEX_BYTES:
        raise Corrupt(f"there are too many files in it ({index.file_count:,})")
    return Packed(index, data, hashlib.sha256(data).hexdigest(), paths)


class _SourceReader(PartReader):
    """A part out of files that lie where the user has them."""

    def __init__(self, paths: list[str], slices: list[Any]) -> None:
        super().__init__("", [], slices)
        self.paths = paths

    def path(self, i: int) -> str:
        return self.paths[i]


class _HashingReader(_SourceReader):
    def __init__(self, paths: list[str], slices: list[Any], hashes: _FileHashes) -> None:
        super().__init__(paths, slices)
        self._hashes = hashes

    def walk(self, slices: list[Any]) -> Iterator[bytes]:
        for piece in slices:
            for block in super().walk([piece]):
                self._hashes.add(piece[0], block)
                yield block


class _FileHashes:
    """Hashes of all files, from their blocks in order. The slices of a file follow each other, so one is open at a
    time.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._files = [_EMPTY if entry.kind == "file" else "" for entry in entries]
        self._at, self._sha256 = -1, hashlib.sha256()

    def add(self, i: int, block: bytes) -> None:
        if i != self._at:
            self.close()
            self._at, self._sha256 = i, hashlib.sha256()
        self._sha256.update(block)

    def close(self) -> list[str]:
        if self._at >= 0:
            self._files[self._at] = self._sha256.hexdigest()
        return self._files
