"""Which leases may write into a local store, and how much: a file that the daemon replaces, read at each PUT.

``blobs.listener`` enforces it, before a PUT is received and again before it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import inf
from pathlib import Path

from autopilot.blobs.place import read_json, replace_file

_LEASES = "jobs"


class Admission:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, prefixes: Mapping[str, int]) -> None:
        """These leases may write from now on, each so many bytes, and no other. Raises ``OSError``."""
        replace_file(self._path, json.dumps({"leases": dict(prefixes)}), self._path.parent)

    def most_bytes(self, key: str) -> float:
        """How much may lie beneath the lease of ``key``: 0 once it is over, no bound until a daemon has said any."""
        prefix = lease_of(key)
        if prefix is None:
            return inf
        try:
            self._path.stat()  # ``exists`` says no, from Python 3.14 on, where it could not look
        except FileNotFoundError:
            return inf
        match read_json(self._path):
            case {"leases": dict(prefixes)}:
                return float(prefixes.get(prefix, 0))
        return 0


def lease_of(key: str) -> str | None:
    """``jobs/<job>/<lease>``, the beginning of ``key``; None for one that belongs to no lease."""
    segments = key.split("/")
    return "/".join(segments[:3]) if segments[0] == _LEASES else None
