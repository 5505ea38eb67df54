"""Which tokens there are, told by the daemon to the listener in a file of hashes.

So the listener turns away whoever has none without a word to the daemon. Expiry and scope are the daemon's to judge,
by its ledger, with each call.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from autopilot.blobs.place import MailboxPlace, read_json, replace_file


def write_known_tokens(place: MailboxPlace, sha256s: Collection[str]) -> None:
    """Raises ``OSError``."""
    replace_file(place.tokens_path, json.dumps(sorted(sha256s)), place.root)


class KnownTokens:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int] | None = None
        self._sha256s: frozenset[str] = frozenset()

    def has(self, sha256: str) -> bool:
        """By the file as it is now; it is read again only when it was replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return False
        if (version := (found.st_ino, found.st_mtime_ns)) != self._version:
            read = read_json(self._path)
            known = read if isinstance(read, list) else ()
            self._version, self._sha256s = version, frozenset(each for each in known if isinstance(each, str))
        return sha256 in self._sha256s
