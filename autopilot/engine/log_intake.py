"""Counting the output that machines send, and deleting the oldest where it is too much."""

from __future__ import annotations

from dataclasses import replace

import structlog

from autopilot.mailbox.keys import log_key
from autopilot.mailbox.logs import LOG_CHUNK_BYTES, LogNote, LogPosition, read_log_note, write_log_note
from autopilot.ports.blobs import BlobStore

log = structlog.get_logger(__name__)

LOOKS_AT_ONCE = 32
"""Chunks that one tick counts; a later one continues."""
NOTE_EVERY = 64
"""Chunks between two writings of the note: a restarted daemon counts these again."""


class LogIntake:
    """A machine may claim any number of chunks. Only what lies in the store counts, and only so much may lie there."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._notes: dict[str, LogNote] = {}
        self._written: dict[str, LogNote] = {}

    async def take_in(self, job_id: str, lease_id: str, boot: int, claimed: int) -> int:
        """Count what is new; answers the number of the first chunk of ``boot`` that is not there, at most ``claimed``.

        Raises ``BlobUnavailable``.
        """
        if lease_id not in self._notes:
            self._notes[lease_id] = self._written[lease_id] = await read_log_note(self._blobs, job_id, lease_id)
        note = self._notes[lease_id] = await self._count(job_id, lease_id, self._notes[lease_id], boot, claimed)
        if note.is_too_much:
            note = self._notes[lease_id] = await self._without_oldest(job_id, lease_id, note)
        written = self._written[lease_id]
        if note.cut_bytes != written.cut_bytes or note.chunks >= written.chunks + NOTE_EVERY:
            await write_log_note(self._blobs, job_id, lease_id, note)
            self._written[lease_id] = note
        return min(claimed, note.next.number) if note.next.boot == boot else 0

    def forget_lease(self, lease_id: str) -> None:
        """It is another task's: the count of what it sends restarts."""
        self._notes.pop(lease_id, None)
        self._written.pop(lease_id, None)

    def forget(self, lease_ids: frozenset[str]) -> None:
        """Drop what is kept for leases other than these."""
        for kept in (self._notes, self._written):
            for lease_id in kept.keys() - lease_ids:
                del kept[lease_id]

    async def _count(self, job_id: str, lease_id: str, note: LogNote, boot: int, claimed: int) -> LogNote:
        for _ in range(LOOKS_AT_ONCE):
            at = note.next
            if at >= LogPosition(boot, claimed):
                return note
            key = log_key(job_id, lease_id, *at)
            size = await self._blobs.size(key)
            if size is None:
                if at.boot < boot:
                    note = replace(note, next=LogPosition(at.boot + 1, 0))
                else:  # it is gone: the next may be there
                    note = replace(note, next=LogPosition(at.boot, at.number + 1))
                continue
            if size > LOG_CHUNK_BYTES:  # a bucket does not bound what is put
                log.warning("log.too_large", lease=lease_id, size_bytes=size)
                await self._blobs.delete([key])
                note = replace(note, cut_bytes=note.cut_bytes + size)
                size = 0
            following = LogPosition(at.boot, at.number + 1)
            note = replace(note, next=following, chunks=note.chunks + 1, size_bytes=note.size_bytes + size)
        return note

    async def _without_oldest(self, job_id: str, lease_id: str, note: LogNote) -> LogNote:
        keys: list[str] = []
        while note.is_too_much and note.first != note.next and len(keys) < LOOKS_AT_ONCE:
            key = log_key(job_id, lease_id, *note.first)
            size = await self._blobs.size(key)
            if size is None and note.first.boot < note.next.boot:
                note = replace(note, first=LogPosition(note.first.boot + 1, 0))
                continue
            keys.append(key)
            note = replace(
                note,
                first=LogPosition(note.first.boot, note.first.number + 1),
                chunks=note.chunks - 1,
                size_bytes=note.size_bytes - (size or 0),
                cut_bytes=note.cut_bytes + (size or 0),
            )
        await self._blobs.delete(keys)
        return note
