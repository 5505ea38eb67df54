"""A job's output: chunks of all its machines, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from autopilot.answers import render
from autopilot.books.finding import find_job, refuse_array
from autopilot.domain.lease import Lease
from autopilot.mailbox.keys import log_key, log_prefix, parse_log_key
from autopilot.mailbox.logs import LOG_CHUNK_BYTES, LogNote, LogPosition, read_log_note
from autopilot.ports.blobs import BlobStore
from autopilot.ports.store import Store

LOG_CHUNKS_PER_ANSWER = 200
LOG_BYTES_PER_ANSWER = 1 << 20
BOOTS_SHOWN = 1000
"""Restarts of one machine whose output is looked for: their number is the machine's own claim."""


class LogReader:
    def __init__(self, store: Store, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs

    async def read(self, reference: str, after: str, *, tail: bool = False) -> render.Json:
        """Log chunks in the order of leases, boots and numbers, after the chunk with the key ``after``.

        At most ``LOG_BYTES_PER_ANSWER`` of output. ``tail``: the newest of it; ``earlier``: there is more before.
        Raises ``JobNotFound``, ``BlobUnavailable``.
        """
        async with self._store.snapshot() as uow:
            job = await find_job(uow, reference)
            refuse_array(job, "output")
            leases = await uow.leases.list_by_job(job.id)
        if tail and not after:
            chunks, earlier = await self._newest_chunks(job.id, leases)
        else:
            chunks, earlier = await self._chunks_after(job.id, leases, after), False
        return {"chunks": chunks, "earlier": earlier, "finished": job.status.is_final}

    async def _chunks_after(self, job_id: str, leases: Sequence[Lease], after: str) -> list[render.Json]:
        chunks: list[render.Json] = []
        room = LOG_BYTES_PER_ANSWER
        read = parse_log_key(job_id, after)
        is_new = not after
        for lease in leases:
            note, at = LogNote(), LogPosition()
            if is_new:
                note = await read_log_note(self._blobs, job_id, lease.id)
                at = note.first
            elif read is None or read[0] != lease.id:
                continue
            else:
                is_new, at = True, LogPosition(read[1], read[2] + 1)
            while at.boot <= min(lease.agent.boot, BOOTS_SHOWN):
                if room <= 0 or len(chunks) == LOG_CHUNKS_PER_ANSWER:
                    return chunks
                data = await self._blobs.get(log_key(job_id, lease.id, *at), LOG_CHUNK_BYTES)
                if data is None and at.boot == lease.agent.boot and at.number < lease.agent.log_count:
                    note = await read_log_note(self._blobs, job_id, lease.id)  # cut since the last answer
                    at = max(note.first, LogPosition(at.boot, at.number + 1))
                elif data is None:
                    at = LogPosition(at.boot + 1, 0)
                else:
                    cut_line = note.cut_line if at == note.first else ""
                    chunks.append(_log_chunk(job_id, lease, at, cut_line, data))
                    room -= len(data)
                    at = LogPosition(at.boot, at.number + 1)
        return chunks

    async def _newest_chunks(self, job_id: str, leases: Sequence[Lease]) -> tuple[list[render.Json], bool]:
        """The newest ``LOG_BYTES_PER_ANSWER`` of output; and whether there is any before."""
        chunks: list[render.Json] = []
        room = LOG_BYTES_PER_ANSWER
        for lease in reversed(leases):
            found = (parse_log_key(job_id, key) for key in await self._blobs.sizes(log_prefix(job_id, lease.id)))
            places = sorted(LogPosition(each[1], each[2]) for each in found if each is not None)
            for at in reversed(places):
                if room <= 0 or len(chunks) == LOG_CHUNKS_PER_ANSWER:
                    return chunks[::-1], True
                data = await self._blobs.get(log_key(job_id, lease.id, *at), LOG_CHUNK_BYTES) or b""
                is_first = at == places[0]
                cut_line = (await read_log_note(self._blobs, job_id, lease.id)).cut_line if is_first else ""
                chunks.append(_log_chunk(job_id, lease, at, cut_line, data))
                room -= len(data)
        return chunks[::-1], False


def _log_chunk(job_id: str, lease: Lease, at: LogPosition, cut_line: str, data: bytes) -> render.Json:
    return {
        "key": log_key(job_id, lease.id, *at),
        "lease_id": lease.id,
        "boot": at.boot,
        "where": f"{lease.provider} machine {lease.machine_id}, {lease.num_gpus} × {lease.gpu}",
        "text": cut_line + data.decode(errors="replace"),
    }
