"""A job's output: chunks of all its machines, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autopilot import render
from autopilot.api.masking import MOST_CHUNKS_BACK, ReadSecrets, mask_for
from autopilot.books.finding import find_job, refuse_array
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.mailbox.keys import log_key, log_prefix, parse_log_key
from autopilot.mailbox.logs import LOG_CHUNK_BYTES, LogNote, LogPosition, read_log_note
from autopilot.ports.blobs import BlobStore
from autopilot.ports.store import Store

LOG_CHUNKS_PER_ANSWER = 200
LOG_BYTES_PER_ANSWER = 1 << 20
BOOTS_SHOWN = 1000
"""Restarts of one machine whose output is looked for: their number is the machine's own claim."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    lease: Lease
    at: LogPosition
    cut_line: str
    data: bytes
    """As the machine sent it."""

    def follows(self, other: _Chunk) -> bool:
        return self.lease.id == other.lease.id and self.at == LogPosition(other.at.boot, other.at.number + 1)

    def render(self, job_id: str, text: str) -> render.Json:
        lease = self.lease
        return {
            "key": log_key(job_id, lease.id, *self.at),
            "lease_id": lease.id,
            "boot": self.at.boot,
            "where": f"{lease.provider} machine {lease.machine_id}, {lease.num_gpus} × {lease.gpu}",
            "text": text,
        }


class LogReader:
    def __init__(self, store: Store, blobs: BlobStore, read_secrets: ReadSecrets = lambda _: ([], [])) -> None:
        """``read_secrets``: what is masked in the output of a job."""
        self._store = store
        self._blobs = blobs
        self._read_secrets = read_secrets

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
            found, earlier = await self._newest_chunks(job.id, leases)
        else:
            found, earlier = await self._chunks_after(job.id, leases, after), False
        chunks = await self._show(job, found) if found else []
        return {"chunks": chunks, "earlier": earlier, "finished": job.status.is_final}

    async def _show(self, job: Job, chunks: Sequence[_Chunk]) -> list[render.Json]:
        """As anybody may see it. A secret may have begun in a chunk before the first of these."""
        mask, shown, before = await mask_for(job.spec, self._read_secrets), [], None
        last: _Chunk | None = None
        for chunk in chunks:
            if last is None or not chunk.follows(last):
                before = await self._read_before(job.id, chunk, mask.reach)
            text = chunk.cut_line + mask.hide(before, chunk.data).decode(errors="replace")
            shown.append(chunk.render(job.id, text))
            before, last = mask.keep_end((before or b"") + chunk.data), chunk
        return shown

    async def _read_before(self, job_id: str, chunk: _Chunk, reach: int) -> bytes | None:
        """The end of what the same boot has sent before it; None if that was deleted."""
        before, number = b"", chunk.at.number
        for _ in range(MOST_CHUNKS_BACK if reach > 0 else 0):
            if not number or len(before) >= reach:
                break
            number -= 1
            data = await self._blobs.get(log_key(job_id, chunk.lease.id, chunk.at.boot, number), LOG_CHUNK_BYTES)
            if data is None:
                return before or None
            before = data + before
        return before

    async def _chunks_after(self, job_id: str, leases: Sequence[Lease], after: str) -> list[_Chunk]:
        chunks: list[_Chunk] = []
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
                    chunks.append(_Chunk(lease, at, cut_line, data))
                    room -= len(data)
                    at = LogPosition(at.boot, at.number + 1)
        return chunks

    async def _newest_chunks(self, job_id: str, leases: Sequence[Lease]) -> tuple[list[_Chunk], bool]:
        """The newest ``LOG_BYTES_PER_ANSWER`` of output; and whether there is any before."""
        chunks: list[_Chunk] = []
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
                chunks.append(_Chunk(lease, at, cut_line, data))
                room -= len(data)
        return chunks[::-1], False
