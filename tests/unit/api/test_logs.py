"""What a job printed, chunk by chunk: each request reads what is new and nothing before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.api.logs import LOG_BYTES_PER_ANSWER, LOG_CHUNKS_PER_ANSWER, LogReader
from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.lease import LeaseState
from autopilot.mailbox.keys import log_key, parse_log_key
from autopilot.mailbox.logs import LOG_CHUNK_BYTES, LogNote, LogPosition, write_log_note
from autopilot.ports.blobs import MAX_READ_BYTES
from autopilot_lab.memory_store.store import MemoryStore
from tests.store_records import a_job, a_lease


class Counting(LocalBlobStore):
    asked = 0

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        self.asked += 1
        return await super().get(key, most_bytes)

    async def size(self, key: str) -> int | None:
        self.asked += 1
        return await super().size(key)


@pytest.fixture
def blobs(tmp_path: Path) -> Counting:
    return Counting(tmp_path, b"key", "http://localhost")


@pytest.fixture
async def logs(blobs: Counting) -> LogReader:
    """Two machines: two boots of one, with 260 chunks and one, and 5 of another."""
    store = MemoryStore()
    first, second = (
        a_lease("lease-1", agent_boot=2, state=LeaseState.GONE),
        a_lease("lease-2", label="y", instance_id="2", agent_boot=1),
    )
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(first, second)))
    for lease, boot, count in (("lease-1", 1, 260), ("lease-1", 2, 1), ("lease-2", 1, 5)):
        for n in range(count):
            await blobs.put(log_key(a_job().id, lease, boot, n), f"{lease}/{boot}/{n}\n".encode())
    return LogReader(store, blobs)


async def test_all_of_it_comes_once_in_order(logs: LogReader) -> None:
    shown, after = list[str](), ""
    while chunks := (await logs.read(a_job().id, after))["chunks"]:
        assert len(chunks) <= LOG_CHUNKS_PER_ANSWER
        shown += [chunk["text"].strip() for chunk in chunks]
        after = chunks[-1]["key"]
    expected = [f"lease-1/1/{n}" for n in range(260)] + ["lease-1/2/0"] + [f"lease-2/1/{n}" for n in range(5)]
    assert shown == expected


@pytest.mark.slow
async def test_an_answer_is_bounded_in_bytes(logs: LogReader, blobs: Counting) -> None:
    """All chunks of one machine together filled gigabytes of memory."""
    for n in range(260):
        await blobs.put(log_key(a_job().id, "lease-1", 1, n), b"\xff" * LOG_CHUNK_BYTES * (5 if n == 7 else 1))
    sizes, after = [], ""
    while chunks := (await logs.read(a_job().id, after))["chunks"]:
        sizes.append(sum(len(chunk["text"]) for chunk in chunks))
        after = chunks[-1]["key"]
    assert max(sizes) <= LOG_BYTES_PER_ANSWER + LOG_CHUNK_BYTES
    assert sum(sizes) >= 260 * LOG_CHUNK_BYTES


async def test_the_tail_is_the_newest_output(logs: LogReader, blobs: Counting) -> None:
    for n in range(5):
        await blobs.put(log_key(a_job().id, "lease-2", 1, n), bytes([65 + n]) * LOG_CHUNK_BYTES)
    answer = await logs.read(a_job().id, "", tail=True)
    assert ["".join(sorted(set(chunk["text"]))) for chunk in answer["chunks"]] == ["B", "C", "D", "E"]
    assert answer["earlier"]
    rest = await logs.read(a_job().id, answer["chunks"][-1]["key"], tail=True)
    assert (rest["chunks"], rest["earlier"]) == ([], False)


async def test_a_short_output_is_its_own_tail(logs: LogReader) -> None:
    answer = await logs.read(a_job().id, "", tail=True)
    assert [chunk["text"] for chunk in answer["chunks"][-2:]] == ["lease-2/1/3\n", "lease-2/1/4\n"]
    assert len(answer["chunks"]) == LOG_CHUNKS_PER_ANSWER


async def test_what_was_cut_is_said_where_it_was(logs: LogReader, blobs: Counting) -> None:
    job = a_job().id
    note = LogNote(LogPosition(1, 2), LogPosition(1, 5), 3, 36, cut_bytes=12_000_000)
    await write_log_note(blobs, job, "lease-2", note)
    await blobs.delete([log_key(job, "lease-2", 1, 0), log_key(job, "lease-2", 1, 1)])
    line = "autopilot: 12 MB of output before this line were cut; of each machine the newest 32 MB are kept\n"
    whole = await logs.read(job, log_key(job, "lease-1", 2, 0))
    assert whole["chunks"][0]["text"] == line + "lease-2/1/2\n"
    tail = await logs.read(job, "", tail=True)
    assert [chunk["text"] for chunk in tail["chunks"] if "cut" in chunk["text"]] == [line + "lease-2/1/2\n"]


async def test_what_was_read_is_not_asked_for_again(logs: LogReader, blobs: Counting) -> None:
    """A bucket takes money and time for each question, and a long job has thousands of chunks."""
    blobs.asked = 0
    answer = await logs.read(a_job().id, log_key(a_job().id, "lease-2", 1, 4))
    assert (answer["chunks"], blobs.asked) == ([], 1)


@pytest.mark.parametrize("key", ["", "jobs/other/lease-1/log/1-0", "jobs/x/a/b/log/1-0", "jobs/x/l/log/1-9999999999"])
def test_only_a_key_of_the_job_s_own_log_is_a_position(key: str) -> None:
    assert parse_log_key("x", key) is None
    assert parse_log_key("x", "jobs/x/lease-1/log/2-17") == ("lease-1", 2, 17)


SECRET = "hf_AbCdEfGhIjKlMnOp"


async def printing(blobs: Counting, *chunks: bytes) -> LogReader:
    """One machine that has printed that, of a job with one secret."""
    store = MemoryStore()
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(a_lease("lease-1", agent_boot=1),)))
    for n, data in enumerate(chunks):
        await blobs.put(log_key(a_job().id, "lease-1", 1, n), data)
    return LogReader(store, blobs, lambda spec: ([SECRET], []))


@pytest.mark.parametrize("tail", [False, True])
async def test_a_secret_that_is_printed_is_masked_however_it_is_read(blobs: Counting, tail: bool) -> None:
    half = SECRET[:9].encode()
    logs = await printing(blobs, b"token " + half, SECRET[9:].encode() + b"\n", b"again " + SECRET.encode())
    chunks = (await logs.read(a_job().id, "", tail=tail))["chunks"]
    assert [chunk["text"] for chunk in chunks] == ["token [secret]", "[secret]\n", "again [secret]"]
    for number, expected in ((0, "[secret]\n"), (1, "again [secret]")):
        known = log_key(a_job().id, "lease-1", 1, number)
        assert (await logs.read(a_job().id, known))["chunks"][0]["text"] == expected, "followers ask like this"


async def test_a_secret_whose_beginning_was_deleted_is_masked(blobs: Counting) -> None:
    logs = await printing(blobs, SECRET[:9].encode(), SECRET[9:].encode() + b" rest")
    await blobs.delete([log_key(a_job().id, "lease-1", 1, 0)])
    (chunk,) = (await logs.read(a_job().id, "", tail=True))["chunks"]
    assert chunk["text"] == "[secret] rest"
