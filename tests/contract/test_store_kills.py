"""What a kill leaves: a SQLite file whose process got SIGKILL in mid-transaction, and the duplicate, show the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL

import pytest

from autopilot.domain.lease import LeaseState
from autopilot.ports.store import CommitUnknown, Store, StoreUnavailable, UnitOfWork
from autopilot.store.database import open_store
from autopilot_lab.memory_store.store import MemoryStore
from tests.store_records import DAY, a_checkpoint, a_job, a_lease, an_entry

PROGRAM = """
import asyncio, os, signal, sys
from autopilot.store.database import open_store
from tests.contract.test_store_kills import begin, commit_first

async def main():
    store = await open_store(sys.argv[1])
    await commit_first(store)
    async with store.transaction() as work:
        await begin(work)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def commit_first(store: Store) -> None:
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(a_lease(),)))
        await work.ledger.post([an_entry("e1", "1.5")])
        await work.notes.set("state", "committed")


async def begin(work: UnitOfWork) -> None:
    """Something of everything: changed, added and removed."""
    await work.jobs.save(a_job(leases=(a_lease(state=LeaseState.GONE), a_lease("lease-2"))))
    await work.jobs.save(a_job("job-000002"))
    await work.ledger.post([an_entry("e2", "7")])
    await work.checkpoints.add(a_checkpoint(3))
    await work.notes.set("state", "never committed")
    await work.notes.set("other", "never committed")


async def everything(store: Store) -> object:
    async with store.snapshot() as work:
        return (
            await work.jobs.list_newest(limit=10),
            await work.leases.list_by_job("job-000001"),
            await work.ledger.list_entries("lease-1"),
            await work.ledger.sum_totals(DAY),
            await work.checkpoints.list_by_job("job-000001"),
            [await work.notes.get(key) for key in ("state", "other")],
        )


@asynccontextmanager
async def killed_sqlite(path: Path) -> AsyncIterator[Store]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, str(path))
    assert await process.wait() == -SIGKILL
    store = await open_store(str(path))
    yield store
    await store.close()


async def killed_twin() -> MemoryStore:
    store = MemoryStore()
    await commit_first(store)
    survivors: list[MemoryStore] = []

    async def die_in_the_middle() -> None:
        async with store.transaction() as work:
            await begin(work)
            survivors.append(store.kill())

    with pytest.raises(StoreUnavailable):
        await die_in_the_middle()
    return survivors[0]


@pytest.mark.slow
async def test_both_show_the_same_after_a_kill(tmp_path: Path) -> None:
    duplicate = await killed_twin()
    async with killed_sqlite(tmp_path / "ledger.db") as file:
        left = await everything(file)
        assert left == await everything(duplicate)
        for store in (file, duplicate):  # and both go on from there alike
            async with store.transaction() as work:
                await begin(work)
        assert await everything(file) == await everything(duplicate) != left


async def test_a_killed_duplicate_answers_no_more() -> None:
    store = MemoryStore()
    survivor = store.kill()
    for use in (store.transaction, store.snapshot):
        with pytest.raises(StoreUnavailable, match="closed"):
            async with use():
                pytest.fail("a dead store answered")
    async with survivor.transaction() as work:
        await work.notes.set("after", "the kill")


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_commit_of_unknown_outcome_is_kept_or_not(is_kept: bool) -> None:
    store = MemoryStore()
    await commit_first(store)
    before = await everything(store)
    store.break_next_commit(is_kept=is_kept)
    with pytest.raises(CommitUnknown):
        async with store.transaction() as work:
            await begin(work)
    assert (await everything(store) == before) is not is_kept
    async with store.transaction() as work:  # only the one
        await begin(work)
    async with store.snapshot() as work:
        assert await work.notes.get("state") == "never committed"
