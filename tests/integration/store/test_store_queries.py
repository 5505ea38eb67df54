"""What the contract of a store does not see: how many questions it puts to the database."""

from __future__ import annotations

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
