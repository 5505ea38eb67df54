"""What the contract of a store does not see: how many questions it puts to the database, and what a failure leaves."""

from __future__ import annotations

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from autopilot.store.database import SqlStore
from tests.store_records import a_job, a_lease


async def test_open_jobs_take_the_same_few_queries_however_many_jobs(store: SqlStore) -> None:
    queries: list[str] = []

    def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT"):
            queries.append(statement)

    async with store.transaction() as work:
        for number in range(20):
            job_id = f"job-{number:06}"
            await work.jobs.save(a_job(job_id, leases=(a_lease(f"lease-{number}", job_id),)))
    event.listen(Engine, "before_cursor_execute", count)
    try:
        async with store.snapshot() as work:
            assert len(await work.jobs.list_open()) == 20
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert len(queries) == 7


async def test_after_a_failure_the_next_transaction_begins_with_a_new_revision(store: SqlStore) -> None:
    """A server may commit after the connection broke: what a snapshot has shown in between need not hold."""
    with pytest.raises(RuntimeError):
        async with store.transaction():
            raise RuntimeError
    before = store.revision
    async with store.transaction():
        assert store.revision != before
    before = store.revision
    async with store.transaction():
        assert store.revision == before
