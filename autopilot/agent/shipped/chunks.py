"""How a checkpoint's files become parts of a bounded size, and parts become files again.

A part is a row of slices ``(entry, offset, length)``. Large files begin a part of their own and are cut at fixed
offsets; small files that follow one another share a part. So what did not change makes the same part again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from .room import run_id
from .tree import ROOT, Corrupt, Entry, check_entries

SMALLEST_PART_BYTES = 8 << 20
MOST_DATA_PARTS = 255
"""With the index as many as orders can hold addresses for at once, so that a save needs no daemon between its parts."""
BLOCK_BYTES = 256 << 10
ZEROS = bytes(BLOCK_BYTES)
MAX_INDEX_BYTES = 16 << 20
"""Some 150,000 files. Read, an index takes more than ten times its size in memory."""
LEAST_BYTES_PER_LIST = 6
LISTS_FREE = 100


def cut(entries: list[Entry], most_parts: int = MOST_DATA_PARTS) -> list[list[Any]]:
    """The parts of these files, each a list of slices. Larger parts only where there would be too many."""
    size = SMALLEST_PART_BYTES
    parts = cut_at(entries, size)
    while len(parts) > most_parts:
        size *= 2
        parts = cut_at(entries, size)
    return parts


def cut_at(entries: list[Entry], size: int) -> list[list[Any]]:
    parts: list[list[Any]] = []
    shared: list[Any] = []
    room = size
    for i, entry in enumerate(entries):
        if entry.kind != "file" or not entry.size:
            continue
        if entry.size >= size // 2:
            parts += [[[i, at, min(size, entry.size - at)]] for at in range(0, entry.size, size)]
            continue
        if entry.size > room and shared:
            parts.append(shared)
            shared, room = [], size
        shared.append([i, 0, entry.size])
        room -= entry.size
    return [*parts, shared] if shared else parts


def length_of(slices: Iterable[Any]) -> int:
    return sum(length for _, _, length in slices)


class PartReader:
    """One part as a file to read, out of the directory that holds the entries; knows the SHA-256 of what was read."""

    def __init__(self, directory: str, entries: list[Entry], slices: list[Any]) -> None:
        self.directory, self.entries = directory, entries
        self.pieces = self.walk(slices)
        self.sha256, self.size = hashlib.sha256(), 0

    def path(self, i: int) -> str:
        return os.path.join(self.directory, self.entries[i].name)

    def read(self, size: int = -1) -> bytes:
        """Blocks of any length; ``b""`` at the end. ``size`` bounds a block."""
        if size < 0:
            return b"".join(iter(lambda: self.read(BLOCK_BYTES), b""))
        data = self.left[:size] if self.left else self.more()[:size]
        self.left = self.left[len(data) :]
        self.sha256.update(data)
        self.size += len(data)
        return data

    left = b""

    def more(self) -> bytes:
        self.left = next(self.pieces, b"")
        return self.left

    def walk(self, slices: list[Any]) -> Iterator[bytes]:
        for i, offset, length in slices:
            with open(self.path(i), "rb", buffering=0) as file:
                file.seek(offset)
                while length:
                    block = file.read(min(length, BLOCK_BYTES))
                    if not block:
                        return  # shorter than it was: the hash tells
                    length -= len(block)
                    yield block


class PartWriter:
    """Takes a part's bytes in order and puts each slice where it belongs in ``directory``."""

    def __init__(self, directory: str, entries: list[Entry], slices: list[Any]) -> None:
        self.directory, self.entries, self.slices = directory, entries, slices
        self.restart()

    def restart(self) -> None:
        self.sha256, self.size = hashlib.sha256(), 0
        self.at, self.done = 0, 0  # which slice, and how much of it is there

    def write(self, data: bytes) -> None:
        self.sha256.update(data)
        self.size += len(data)
        view = memoryview(data)
        while len(view):
            if self.at == len(self.slices):
                raise Corrupt("a part is longer than its files")
            i, offset, length = self.slices[self.at]
            block = view[: length - self.done]
            with open(os.path.join(self.directory, self.entries[i].name), "r+b", buffering=0) as file:
                file.seek(offset + self.done)
                if is_there_already(file, block):
                    view, block, self.done = view[len(block) :], block[:0], self.done + len(block)
                while len(block):
                    written = file.write(block)
                    view, block, self.done = view[written:], block[written:], self.done + written
            if self.done == length:
                self.at, self.done = self.at + 1, 0


def is_there_already(file: Any, block: memoryview) -> bool:
    """Whether it is a hole where a hole is: the files of a checkpoint take no more room than where they were saved."""
    if len(block) > len(ZEROS) or block != ZEROS[: len(block)]:
        return False
    return bool(os.pread(file.fileno(), len(block), file.tell()) == block)


def index_of(entries: list[Entry], slices: list[list[Any]], mlflow_run: str = "") -> dict[str, Any]:
    """The table of contents: the first part of every checkpoint, with the MLflow run that the job goes on with."""
    index = {"v": 1, "root": ROOT, "entries": [list(entry) for entry in entries], "slices": slices}
    return {**index, "mlflow_run": mlflow_run} if mlflow_run else index


def parse_index(data: bytes, sizes: list[int]) -> tuple[list[Entry], list[list[Any]], str]:
    """Entries, slices and MLflow run of a stranger's index whose data parts have these sizes.

    Raises ``Corrupt``, and nothing else.
    """
    body = load_index(data)
    entries, slices = read_index(body, sizes)
    return check_entries(entries), slices, run_id(body.get("mlflow_run"))


def load_index(data: bytes) -> Any:
    """An untrusted index as JSON of any shape. Raises ``Corrupt``."""
    if len(data) > MAX_INDEX_BYTES:
        raise Corrupt("its index is too large")
    if data.count(b"[") + data.count(b"{") > LISTS_FREE + len(data) // LEAST_BYTES_PER_LIST:
        raise Corrupt("its index is made of brackets")
    try:
        return json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise Corrupt("its index cannot be read") from error


def read_index(body: Any, sizes: list[int]) -> tuple[list[Entry], list[list[Any]]]:
    """Entries and slices of a stranger's index whose data parts have these sizes. Raises ``Corrupt``.

    The slices must cover each file, once: nothing of a restored file may be left as it was.
    """
    try:
        entries = [Entry(*row) for row in body["entries"]]
        slices = [[tuple(row) for row in part] for part in body["slices"]]
        covered = [0] * len(entries)
        for part, size in zip(slices, sizes):  # noqa: B905 -- lengths are compared below; Python 3.8
            for i, offset, length in part:
                if type(i) is not int or not 0 <= i < len(entries) or entries[i].kind != "file":
                    raise Corrupt("its index names no file")
                if type(length) is not int or length < 1 or offset != covered[i]:
                    raise Corrupt("its index leaves a gap")
                covered[i] += length
            if length_of(part) != size:
                raise Corrupt("its index does not fit its parts")
        whole = all(type(entry.size) is int and type(entry.mode) is int for entry in entries)
        whole = whole and all(type(entry.mtime_ns) is int for entry in entries)
        whole = whole and all(isinstance(entry.name, str) and isinstance(entry.link, str) for entry in entries)
        whole = whole and body["v"] == 1 and len(slices) == len(sizes)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Corrupt("its index cannot be read") from error
    if not whole:
        raise Corrupt("its index cannot be read")
    if any(entry.size != size for entry, size in zip(entries, covered)):  # noqa: B905
        raise Corrupt("its index does not fit its files")
    return entries, [[list(row) for row in part] for part in slices]
