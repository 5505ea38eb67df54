"""Which tokens there are, passed by the daemon to the listener in a file of hashes.

So the listener refuses callers without one by itself. The daemon checks expiry and scope with each call, by its
ledger.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from autopilot.blobs.place import read_json, replace_file


def write_known_tokens(path: Path, sha256s: Collection[str], root: Path) -> None:
    """Raises ``OSError``."""
    replace_file(path, json.dumps(sorted(sha256s)), root)


class KnownTokens:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None
        self._sha256s: frozenset[str] = frozenset()

    def has(self, sha256: str) -> bool:
        return sha256 in self._read()

    def list_all(self) -> frozenset[str]:
        return self._read()

    def has_any(self) -> bool:
        return bool(self._read())

    def _read(self) -> frozenset[str]:
        """By the file as it is now; it is read again only when it was replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return frozenset()
        if (version := (found.st_ino, found.st_mtime_ns)) != self._version:
            read = read_json(self._path)
            known = read if isinstance(read, list) else ()
            self._version, self._sha256s = version, frozenset(each for each in known if isinstance(each, str))
        return self._sha256s
