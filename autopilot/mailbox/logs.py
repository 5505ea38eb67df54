"""How much of a machine's output is kept, and the daemon's own note of what is there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple

from autopilot.mailbox.keys import log_note_key
from autopilot.ports.blobs import BlobStore

LOG_CHUNK_BYTES = 256 << 10
"""The most that a machine may send at once."""
LOG_BYTES_PER_LEASE = 32 << 20
LOG_CHUNKS_PER_LEASE = 20_000
"""Beyond either the oldest output of a machine goes."""


class LogPosition(NamedTuple):
    boot: int = 1
    number: int = 0


START = LogPosition()


@dataclass(frozen=True, slots=True)
class LogNote:
    """Which chunks of one lease are there: from ``first`` up to but without ``next``."""

    first: LogPosition = START
    next: LogPosition = START
    chunks: int = 0
    size_bytes: int = 0
    cut_bytes: int = 0
    """Bytes of output before ``first`` that were deleted."""

    @property
    def is_too_much(self) -> bool:
        return self.size_bytes > LOG_BYTES_PER_LEASE or self.chunks > LOG_CHUNKS_PER_LEASE

    @property
    def cut_line(self) -> str:
        """For who reads the output; empty when it is all there."""
        if not self.cut_bytes:
            return ""
        kept = f"of each machine the newest {LOG_BYTES_PER_LEASE >> 20} MB are kept"
        return f"autopilot: {size_text(self.cut_bytes)} of output before this line were cut; {kept}\n"


def size_text(size_bytes: int) -> str:
    if size_bytes < 1_000_000:
        return f"{max(size_bytes // 1000, 1)} kB"
    return f"{size_bytes / 1_000_000:.0f} MB"


async def read_log_note(store: BlobStore, job_id: str, lease_id: str) -> LogNote:
    """An empty one where there is none. Raises ``BlobUnavailable``."""
    data = await store.get(log_note_key(job_id, lease_id))
    if data is None:
        return LogNote()
    try:
        body = json.loads(data)
        first, following = LogPosition(*body.pop("first")), LogPosition(*body.pop("next"))
        return LogNote(first, following, **body)
    except (ValueError, TypeError, KeyError, AttributeError):
        return LogNote()  # of another version of this program: the count restarts


async def write_log_note(store: BlobStore, job_id: str, lease_id: str, note: LogNote) -> None:
    """Raises ``BlobUnavailable``."""
    await store.put(log_note_key(job_id, lease_id), json.dumps(asdict(note)).encode())
