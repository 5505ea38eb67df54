"""What every store keeps of the ways in which markets' answers have changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings

from autopilot.domain.drift import Drift, DriftKind
from autopilot.ports.store import Store
from autopilot.ports.store.drifts import MOST_DRIFTS
from tests.store_records import START, forgotten, records

HOUR = timedelta(hours=1)


def a_drift(field: str = "dph_base", after: int = 0, **changes: Any) -> Drift:
    at = START + after * HOUR
    made = Drift("vastai", "instance", field, DriftKind.TYPE, True, True, 3, at, at, "text")
    return replace(made, **changes)


class WhatAStoreKeepsOfDrift:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(drift=records(Drift))
    async def test_a_drift_comes_back_equal(self, store: Store, drift: Drift) -> None:
        async with forgotten(store) as work:
            await work.drifts.save([drift])
            assert await work.drifts.list() == (drift,)

    async def test_a_drift_saved_again_is_the_same_row(self, store: Store) -> None:
        newer = a_drift(after=1, count=9, is_money=False)
        other = a_drift(kind=DriftKind.MISSING)
        async with store.transaction() as work:
            await work.drifts.save([])
            await work.drifts.save([a_drift(), other])
            await work.drifts.save([newer])
        async with store.snapshot() as work:
            assert await work.drifts.list() == (newer, other)

    async def test_what_is_read_comes_first_then_what_was_seen_last(self, store: Store) -> None:
        ignored = a_drift("score", after=9, is_read=False, is_money=False)
        old, new = a_drift("min_bid"), a_drift("label", after=1, is_money=False)
        elsewhere = a_drift("cost", after=2, provider="runpod")
        async with store.transaction() as work:
            await work.drifts.save([ignored, old, new, elsewhere])
            assert await work.drifts.list() == (elsewhere, new, old, ignored)
            assert await work.drifts.list(provider="vastai") == (new, old, ignored)
            assert await work.drifts.list(money=True) == (elsewhere, old)
            assert await work.drifts.list(provider="vastai", money=True) == (old,)

    async def test_so_many_are_kept_and_no_more(self, store: Store) -> None:
        ignored = [a_drift(f"x{number}", after=number, is_read=False) for number in range(MOST_DRIFTS + 5)]
        async with store.transaction() as work:
            await work.drifts.save([a_drift()])
            await work.drifts.save(ignored)
        async with store.snapshot() as work:
            kept = await work.drifts.list()
        assert len(kept) == MOST_DRIFTS
        assert kept[0] == a_drift()
        assert {drift.field for drift in ignored} - {drift.field for drift in kept} == {f"x{n}" for n in range(6)}

    async def test_what_no_answer_shows_any_more_is_forgotten(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.drifts.save([a_drift(), a_drift("label", after=2)])
            assert await work.drifts.forget(START) == 0
            assert await work.drifts.forget(START + HOUR) == 1
            assert await work.drifts.list() == (a_drift("label", after=2),)
