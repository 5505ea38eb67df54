"""A machine's output is kept up to a bound, regardless of its claims, and its readers see what was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.engine import log_intake
from autopilot.engine.log_intake import LogIntake
from autopilot.mailbox import logs
from autopilot.mailbox.keys import log_key, log_prefix
from autopilot.mailbox.logs import LOG_CHUNK_BYTES, LogPosition, read_log_note
from autopilot.mailbox.orders import LOG_CHUNKS_AHEAD


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobStore:
    return LocalBlobStore(tmp_path, b"k" * 32, "http://store")


async def print_chunks(blobs: LocalBlobStore, boot: int, numbers: range, size: int = 1000) -> None:
    for number in numbers:
        await blobs.put(log_key("j", "a", boot, number), b"x" * size)


async def kept_bytes(blobs: LocalBlobStore) -> int:
    return sum([await blobs.size(key) or 0 for key in await blobs.sizes(log_prefix("j", "a"))])


async def take_in(intake: LogIntake, boot: int, claimed: int) -> int:
    """As many ticks as it takes."""
    number = -1
    for _ in range(20):
        number = await intake.take_in("j", "a", boot, claimed)
    return number


async def test_the_oldest_output_goes_once_there_is_too_much(
    blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES_PER_LEASE", 50_000)
    intake = LogIntake(blobs)
    for start in range(0, 160, LOG_CHUNKS_AHEAD):
        await print_chunks(blobs, 1, range(start, start + LOG_CHUNKS_AHEAD))
        assert await take_in(intake, 1, start + LOG_CHUNKS_AHEAD) == start + LOG_CHUNKS_AHEAD
        assert await kept_bytes(blobs) <= 50_000
    note = await read_log_note(blobs, "j", "a")
    assert (note.first, note.cut_bytes) == (LogPosition(1, 110), 110_000)
    assert "110 kB of output before this line were cut" in note.cut_line


async def test_so_does_it_when_each_chunk_is_tiny(blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_CHUNKS_PER_LEASE", 20)
    await print_chunks(blobs, 1, range(50), size=1)
    await take_in(LogIntake(blobs), 1, 50)
    assert len(await blobs.sizes(log_prefix("j", "a"))) == 20


async def test_what_an_earlier_boot_left_goes_first(blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES_PER_LEASE", 5_000)
    intake = LogIntake(blobs)
    await print_chunks(blobs, 1, range(4))
    assert await take_in(intake, 1, 4) == 4
    await print_chunks(blobs, 2, range(3))
    assert await take_in(intake, 2, 3) == 3
    assert sorted(await blobs.sizes(log_prefix("j", "a")))[0] == log_key("j", "a", 1, 2)


async def test_a_claim_leads_no_further_than_what_is_there(blobs: LocalBlobStore) -> None:
    """Otherwise a host could fill the store with chunks that no deletion would find."""
    intake = LogIntake(blobs)
    await print_chunks(blobs, 1, range(3))
    assert await intake.take_in("j", "a", 1, 10**9) <= log_intake.LOOKS_AT_ONCE


async def test_a_chunk_that_was_lost_does_not_stop_the_output(blobs: LocalBlobStore) -> None:
    await print_chunks(blobs, 1, range(5, 8))
    assert await take_in(LogIntake(blobs), 1, 8) == 8


async def test_a_chunk_larger_than_was_signed_for_is_deleted(blobs: LocalBlobStore) -> None:
    """A bucket does not bound what is put."""
    await print_chunks(blobs, 1, range(1), size=LOG_CHUNK_BYTES + 1)
    assert await LogIntake(blobs).take_in("j", "a", 1, 1) == 1
    assert await blobs.sizes(log_prefix("j", "a")) == {}
    assert (await read_log_note(blobs, "j", "a")).cut_bytes == LOG_CHUNK_BYTES + 1


async def test_a_restarted_daemon_continues_the_count(blobs: LocalBlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES_PER_LEASE", 100_000)
    await print_chunks(blobs, 1, range(90))
    await take_in(LogIntake(blobs), 1, 90)
    await print_chunks(blobs, 1, range(90, 130))
    await take_in(LogIntake(blobs), 1, 130)
    assert await kept_bytes(blobs) <= 100_000


async def test_an_unreadable_note_is_written_again(blobs: LocalBlobStore) -> None:
    for data in (b"{", b"[]", b'{"first": 5, "next": [1, 2]}', b'{"first": [1, 0], "next": [1, 0], "more": 1}'):
        await blobs.put("jobs/j/verified/a.log.json", data)
        assert (await read_log_note(blobs, "j", "a")).chunks == 0
