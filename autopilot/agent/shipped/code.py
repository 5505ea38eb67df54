"""A copy of the user's code: packed as a checkpoint is, named by its index, brought into the work directory.

Its index names every part and every file by SHA-256. So the index's own hash is enough to check all the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .chunks import PartWriter, load_index, read_index
from .download import Parts
from .transfer import Transfer
from .tree import ROOT, Corrupt, Entry, check_entries, finish, merge, remove
from .web import Web

MOST_PARTS = 256
MOST_PART_BYTES = 16 << 20
MOST_BYTES = 2 * 10**9
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
SCRATCH = ".autopilot-code"
"""In the work directory itself, which may be a disk of its own."""


class CodeIndex(NamedTuple):
    entries: list[Entry]
    slices: list[list[Any]]
    parts: list[tuple[int, str]]
    """Size and SHA-256 of each."""
    files: list[str]
    """SHA-256 of each entry that is a file; empty for others."""

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.parts)

    @property
    def file_count(self) -> int:
        return sum(entry.kind != "dir" for entry in self.entries)

    def to_json(self) -> bytes:
        body = {"v": 1, "root": ROOT, "entries": self.entries, "slices": self.slices}
        return json.dumps({**body, "parts": self.parts, "files": self.files}, separators=(",", ":")).encode()


def parse_code_index(data: bytes) -> CodeIndex:
    """A stranger's. Raises ``Corrupt``, and nothing else."""
    body = load_index(data)
    try:
        parts = [(size, sha256) for size, sha256 in body["parts"]]
        files = list(body["files"])
        whole = all(
            type(size) is int and 0 < size <= MOST_PART_BYTES and SHA256.fullmatch(sha256) for size, sha256 in parts
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Corrupt("its index cannot be read") from error
    if not whole or len(parts) > MOST_PARTS or sum(size for size, _ in parts) > MOST_BYTES:
        raise Corrupt("its parts are too many, too large, or none")
    entries, slices = read_index(body, [size for size, _ in parts])
    index = CodeIndex(check_entries(entries), slices, parts, files)
    if len(files) != len(entries):
        raise Corrupt("its index does not name its files")
    for entry, sha256 in zip(entries, files):  # noqa: B905 -- lengths are compared above; Python 3.8
        if not isinstance(sha256, str) or bool(SHA256.fullmatch(sha256)) != (entry.kind == "file"):
            raise Corrupt("its index does not name its files")
    return index


def check_files(index: CodeIndex, directory: str) -> None:
    """Read what was laid out in ``directory``, and compare. Raises ``Corrupt``, ``OSError``."""
    for entry, expected in zip(index.entries, index.files):  # noqa: B905
        if entry.kind != "file":
            continue
        sha256 = hashlib.sha256()
        with open(os.path.join(directory, entry.name), "rb", buffering=0) as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                sha256.update(block)
        if sha256.hexdigest() != expected:
            raise Corrupt("a file of it is not what its index says")


class CodeDownload(Parts):
    def __init__(self, web: Web, transfer: Transfer, workdir: str, journal: str) -> None:
        super().__init__(web, transfer, os.path.join(workdir, SCRATCH), journal)
        self.workdir = workdir

    def fetch(self, code: dict[str, Any]) -> None:
        """``code``: as the orders name it. Its files take the place of those of the same name. Raises ``Corrupt``,
        ``OSError``; then the next try goes on with what has arrived, unless that is harmed."""
        index = parse_code_index(self.fetch_index(code))
        done = self.begin(code["sha256"], index.entries)

        def move(i: int, url: Callable[[], str]) -> None:
            size, sha256 = index.parts[i]
            writer = PartWriter(self.scratch, index.entries, index.slices[i])
            self.receive(url, writer, {"size": size, "sha256": sha256})
            self.close_part(i, code["sha256"], done)

        self.transfer.run([(i, i + 1) for i in range(len(index.parts)) if i not in set(done)], move)
        try:
            check_files(index, self.scratch)
        except (Corrupt, FileNotFoundError):
            self.drop()
            raise
        finish(index.entries, self.scratch)
        merge(os.path.join(self.scratch, ROOT), self.workdir)
        self.drop()

    def drop(self) -> None:
        if os.path.exists(self.journal):
            os.remove(self.journal)
        remove(self.scratch)
