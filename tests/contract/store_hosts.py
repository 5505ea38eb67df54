"""What a store keeps of machines, over all jobs: part of the store contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings

from autopilot.domain.hosts import HostRecord
from autopilot.domain.reasons import Reason
from autopilot.ports.store import Store
from tests.store_records import START, forgotten, records

HOUR = timedelta(hours=1)


def a_host(machine_id: str = "m", after: int = 0, provider: str = "vastai", **changes: Any) -> HostRecord:
    return replace(HostRecord(provider, machine_id, "h", "RTX 4090", START + after * HOUR), **changes)


class WhatAStoreKeepsOfHosts:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(record=records(HostRecord))
    async def test_a_host_comes_back_equal(self, store: Store, record: HostRecord) -> None:
        async with forgotten(store) as work:
            await work.hosts.save([record])
            assert await work.hosts.list() == (record,)
            assert await work.hosts.find(record.provider, record.machine_id) == record

    async def test_a_host_saved_again_is_the_same_row(self, store: Store) -> None:
        newer = a_host(after=2, failed=1.5, launches=2.0, last_fault=Reason.STUCK_LOADING, loads=(("image", 90),))
        other = a_host("n", after=1, provider="runpod")
        async with store.transaction() as work:
            await work.hosts.save([])
            await work.hosts.save([a_host(), other])
            await work.hosts.save([newer])
        async with store.snapshot() as work:
            assert await work.hosts.list() == (newer, other)
            assert await work.hosts.list(provider="runpod") == (other,)
            assert await work.hosts.find("runpod", "m") is None

    async def test_a_host_that_is_blocked_is_not_forgotten(self, store: Store) -> None:
        blocked = a_host("blocked", blocked_at=START)
        async with store.transaction() as work:
            await work.hosts.save([a_host(), a_host("new", after=2), blocked])
            assert await work.hosts.forget(START) == 0
            assert await work.hosts.forget(START + HOUR) == 1
            assert await work.hosts.list() == (a_host("new", after=2), blocked)
