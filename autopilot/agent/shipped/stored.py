"""Which parts lie in the store already, by content: what may be named in a manifest without being sent again.

Only two kinds may. Parts of the checkpoint that the daemon has verified: it keeps them. And parts sent since the last
manifest, by an upload that was cut off or overtaken. A part of a checkpoint that is not verified is not named again:
if that is why the daemon refuses it, the next one would be refused as well.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, Tuple  # noqa: UP035 -- Python 3.8 cannot subscript tuple

from .disk import read_json, write_json

MANIFESTS_KNOWN = 4

Content = Tuple[str, int]  # noqa: UP006
"""SHA-256 and size."""


class Object(NamedTuple):
    """What holds a part in the store: the part itself, or zstd of it."""

    key: str
    size: int
    sha256: str


class Stored:
    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        kept: dict[str, Any] = read_json(path) or {}
        self.sent: list[list[Any]] = kept.get("sent", [])
        self.manifests: list[list[Any]] = kept.get("manifests", [])  # [lease, n, rows of (*Content, *Object)]

    def add(self, content: Content, stored: Object) -> None:
        with self.lock:
            self.sent.append([*content, *stored])

    def close(self, lease: str, number: int, rows: list[list[Any]]) -> None:
        """A manifest with these parts has been written, or read."""
        with self.lock:
            self.sent = []
            others = [known for known in self.manifests if known[:2] != [lease, number]]
            self.manifests = [*others, [lease, number, rows]][-MANIFESTS_KNOWN:]
        self.save()

    def list_objects(self, lease: str, number: int) -> dict[Content, Object]:
        """When the newest verified checkpoint is ``number`` of ``lease``."""
        with self.lock:
            rows = [row for known in self.manifests if known[:2] == [lease, number] for row in known[2]]
            return {(row[0], row[1]): Object(*row[2:]) for row in [*rows, *self.sent]}

    def forget(self) -> None:
        """They lie beneath another task's."""
        with self.lock:
            self.sent, self.manifests = [], []
        self.save()

    def save(self) -> None:
        with self.lock:
            write_json(self.path, {"sent": self.sent, "manifests": self.manifests})
