"""What every store keeps of notices that wait for a sink."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings

from autopilot.ports.store import PendingNotice, Store
from autopilot.ports.store.notices import MOST_WAITING
from tests.store_records import START, forgotten, records

HOUR = timedelta(hours=1)


def a_notice(id: str, sink: str = "team", after: timedelta = timedelta(0), **changes: Any) -> PendingNotice:
    at = START + after
    return replace(PendingNotice(id, sink, "job_failed", at, "job-000001", None, "title", "text", at), **changes)


async def ids_due(store: Store, sink: str = "team", after: timedelta = HOUR) -> list[str]:
    async with store.snapshot() as work:
        return [notice.id for notice in await work.notices.list_due(sink, START + after, limit=MOST_WAITING * 2)]


class WhatAStoreKeepsOfNotices:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(notice=records(PendingNotice))
    async def test_a_notice_comes_back_equal(self, store: Store, notice: PendingNotice) -> None:
        async with forgotten(store) as work:
            await work.notices.save([notice])
            assert await work.notices.list_due(notice.sink, notice.due_at, limit=1) == (notice,)
            assert await work.notices.next_due(notice.sink) == notice.due_at

    async def test_a_sink_gets_its_own_in_the_order_in_which_they_are_due(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.notices.save([a_notice("c", after=HOUR), a_notice("b"), a_notice("a"), a_notice("a", "ops")])
            await work.notices.save([replace(a_notice("a"), due_at=START + 2 * HOUR, attempts=3)])
            assert await work.notices.next_due("unknown") is None
        assert await ids_due(store) == ["b", "c"]
        assert await ids_due(store, after=2 * HOUR) == ["b", "c", "a"]
        assert await ids_due(store, "ops") == ["a"]

    async def test_the_parts_of_a_digest_stand_side_by_side(self, store: Store) -> None:
        async with store.transaction() as work:
            digests = {"a": "d1", "b": "d2", "c": "d1", "d": "d2"}
            await work.notices.save([a_notice(id, digest_id=digest) for id, digest in digests.items()])
        assert await ids_due(store) == ["a", "c", "b", "d"]

    async def test_what_a_sink_has_taken_goes_and_the_others_still_get_it(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.notices.save([a_notice("a"), a_notice("a", "ops")])
            await work.notices.remove([a_notice("a"), a_notice("never there")])
        assert (await ids_due(store), await ids_due(store, "ops")) == ([], ["a"])

    async def test_too_many_push_the_oldest_out(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.notices.save([a_notice("old"), a_notice("of another", "ops")])
            many = [a_notice(f"{number:05}", after=timedelta(seconds=1 + number)) for number in range(MOST_WAITING)]
            await work.notices.save(many)
        assert await ids_due(store) == [notice.id for notice in many]
        assert await ids_due(store, "ops") == ["of another"]

    async def test_old_notices_are_forgotten(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.notices.save([a_notice("old"), a_notice("old", "ops"), a_notice("new", after=HOUR)])
            assert await work.notices.forget(START + HOUR) == 2
        assert (await ids_due(store), await ids_due(store, "ops")) == (["new"], [])
