"""Which leases may write into a local store: a file that the daemon replaces and the listener reads at each PUT.

Byte quotas of a lease belong beside its prefix here; ``blobs.listener`` enforces what stands here, before a PUT is
received and again before it is kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from autopilot.blobs.place import read_json, replace_file

_LEASES = "jobs"


class Admission:
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, prefixes: Collection[str]) -> None:
        """These leases may write from now on, and no other. Raises ``OSError``."""
        replace_file(self._path, json.dumps({"leases": sorted(prefixes)}), self._path.parent)

    def allows(self, key: str) -> bool:
        """Whether its lease may write; all may until a daemon has said which."""
        prefix = lease_of(key)
        if prefix is None or not self._path.exists():
            return True
        match read_json(self._path):
            case {"leases": [*prefixes]}:
                return prefix in prefixes
        return False


def lease_of(key: str) -> str | None:
    """``jobs/<job>/<lease>``, the beginning of ``key``; None for one that belongs to no lease."""
    segments = key.split("/")
    return "/".join(segments[:3]) if segments[0] == _LEASES else None
