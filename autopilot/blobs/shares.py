"""How much of a local store's disk one lease and one job may take, so that one host cannot fill it for all."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SMALL_ROOM_BYTES = 256 << 20
"""Room on the disk that parts of checkpoints and output never take: it is for heartbeats, exits and manifests."""
SHARE_OF_LEASE = 0.5
SHARE_OF_JOB = 0.75
"""Share of the space that would be free without the job."""
MEASURE_EVERY_S = 10.0

_LARGE = re.compile(r"jobs/(?P<job>[^/]+)/(?P<lease>[^/]+)/(?:(?:ckpt|out)/\d+/part-\d+|log/[^/]+)")


class ShareIsUsedUp(Exception):
    """The lease, or its job, has its share of the store."""


class Upload:
    """What one upload has brought so far, counted together with all others of its lease and of its job."""

    def __init__(self, on_their_way: Counter[str], limits: Mapping[str, float]) -> None:
        self._on_their_way = on_their_way
        self._limits = limits
        self.size = 0

    def take(self, size: int) -> None:
        """Raises ``ShareIsUsedUp``."""
        self.size += size
        self._on_their_way.update(dict.fromkeys(self._limits, size))
        if any(most <= 0 or self._on_their_way[name] > most for name, most in self._limits.items()):
            raise ShareIsUsedUp

    def forget(self) -> None:
        for name in self._limits:
            self._on_their_way[name] -= self.size
            if not self._on_their_way[name]:
                del self._on_their_way[name]


class Shares:
    def __init__(self, objects: Path) -> None:
        self._objects = objects
        self._on_their_way: Counter[str] = Counter()
        self._measured: dict[str, tuple[float, Counter[str]]] = {}

    @contextmanager
    def upload(self, key: str, most: float, free: int) -> Iterator[Upload]:
        """An object on its way, within a running loop. ``most`` bytes may lie beneath its lease; ``free`` are free.

        Raises ``ShareIsUsedUp``.
        """
        large = _LARGE.fullmatch(key)
        if large is None:
            yield Upload(self._on_their_way, {})
            return
        job, lease = large["job"], f"{large['job']}/{large['lease']}"
        stored = self._measure(job)
        of_lease, of_job = stored[large["lease"]], stored.total()
        # What is on its way lies on the disk already.
        free = max(free - SMALL_ROOM_BYTES, 0) + self._on_their_way[job]
        coming = Upload(
            self._on_their_way,
            {
                lease: min(most, (free + of_lease) * SHARE_OF_LEASE) - of_lease,
                job: (free + of_job) * SHARE_OF_JOB - of_job,
            },
        )
        try:
            coming.take(0)
            yield coming
            stored[large["lease"]] += coming.size
        finally:
            coming.forget()

    def _measure(self, job: str) -> Counter[str]:
        """Bytes by lease, as they lay there not long ago, with what has come since."""
        now = asyncio.get_running_loop().time()
        at, stored = self._measured.get(job, (now, None))
        if stored is None or now - at > MEASURE_EVERY_S:
            leases = _directories(self._objects / "jobs" / job)
            stored = Counter({each.name: _size_of(each) for each in leases})
            self._measured = {job: known for job, known in self._measured.items() if now - known[0] <= MEASURE_EVERY_S}
            self._measured[job] = now, stored
        return stored


def free_bytes(root: Path) -> int:
    return shutil.disk_usage(root.parent).free


def _directories(path: Path) -> list[Path]:
    try:
        return [each for each in path.iterdir() if each.is_dir()]
    except OSError:
        return []


def _size_of(directory: Path) -> int:
    size = 0
    for each in directory.rglob("*"):
        try:
            size += each.stat().st_size if each.is_file() else 0
        except OSError:
            continue
    return size
