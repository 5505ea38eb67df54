"""What every store keeps of the users' code."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings

from autopilot.domain.code import CodeCopy, JobCode
from autopilot.ports.store import Store
from tests.store_records import START, a_job, forgotten, records

MINUTE = timedelta(minutes=1)


def a_copy(id: str, owner: int = 1000, sha256: str = "a" * 64, after: int = 0) -> CodeCopy:
    return CodeCopy(id, owner, sha256, 3, 2700, 1, 400, START + after * MINUTE)


class WhatAStoreKeepsOfCode:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(copy=records(CodeCopy, withdrawn_at=None))
    async def test_a_copy_comes_back_equal(self, store: Store, copy: CodeCopy) -> None:
        async with forgotten(store) as work:
            await work.code_copies.save(copy)
            assert await work.code_copies.find(copy.owner, copy.sha256) == copy

    async def test_a_copy_is_found_by_its_owner_alone_and_until_it_is_withdrawn(self, store: Store) -> None:
        async with store.transaction() as work:
            for copy in (a_copy("old"), a_copy("new", after=2), a_copy("other", owner=1001, after=3)):
                await work.code_copies.save(copy)
            assert await work.code_copies.find(1000, "a" * 64) == a_copy("new", after=2)
            assert await work.code_copies.find(1000, "b" * 64) is None
            assert await work.code_copies.find(1002, "a" * 64) is None
            await work.code_copies.save(replace(a_copy("new", after=2), withdrawn_at=START))
            assert await work.code_copies.find(1000, "a" * 64) == a_copy("old")
            await work.code_copies.remove(a_copy("old"))
            assert await work.code_copies.find(1000, "a" * 64) is None

    async def test_a_copy_is_unused_until_a_job_has_it(self, store: Store) -> None:
        taken, unused = a_copy("taken"), replace(a_copy("unused", after=1), withdrawn_at=START)
        code = JobCode("taken", "a" * 64, 3, 2700, 1, 400, "c" * 40, True)
        async with store.transaction() as work:
            await work.code_copies.save(unused)
            await work.code_copies.save(taken)
            assert await work.code_copies.list_unused() == (taken, unused)
            await work.jobs.save(a_job(code=code, owner=1000))
            await work.jobs.save(a_job("job-000002"))
        async with store.snapshot() as work:
            assert await work.code_copies.list_unused() == (unused,)
            found = await work.jobs.find("job-000001")
            assert found is not None
            assert (found.code, found.owner) == (code, 1000)
