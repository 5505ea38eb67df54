"""What every store tells reports and keeps of the market's history."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.money import ZERO, from_nano
from autopilot.domain.prices import PriceObservation, PriceSum
from autopilot.domain.spend import SpendRow, report, total_row
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord, Store
from tests.store_records import DAY, START, a_job, a_lease, an_entry, forgotten, records

HOUR = timedelta(hours=1)
OCT_31, NOV_1, NOV_30, DEC_1 = date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 30), date(2026, 12, 1)
NOW = datetime(2026, 12, 5, tzinfo=UTC)


def row(key: str, compute: str, storage: str = "0", bandwidth: str = "0", instances: int = 1) -> tuple[object, ...]:
    return key, Decimal(compute), Decimal(storage), Decimal(bandwidth), instances


def short(rows: tuple[SpendRow, ...]) -> list[tuple[object, ...]]:
    return [(r.key, r.costs.compute, r.costs.storage, r.costs.bandwidth, r.instances) for r in rows]


def a_price(at: datetime, floor: str | None = "0.20", machine: str = "m1", **changes: Any) -> PriceObservation:
    seen = PriceObservation("vastai", machine, "RTX 4090", 1, None if floor is None else Decimal(floor), None, at)
    return replace(seen, **changes)


class WhatReportsRead:
    @pytest.fixture
    async def posted(self, store: Store) -> Store:
        """Two jobs and a orphan on two markets, around two month boundaries."""
        first = a_lease("lease-1", state=LeaseState.GONE, instance_id="7001")
        second = a_lease("lease-2", state=LeaseState.GONE, instance_id="7002", gpu="H100")
        other = a_lease("lease-3", "job-000002", provider="runpod", intended_at=START)
        orphan = a_lease("lease-4", None, instance_id="7004")
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(first, second)))
            await work.jobs.save(
                a_job("job-000002", name="other", leases=(other,), submitted_at=START.replace(hour=10))
            )
            await work.leases.save(orphan)
            await work.ledger.post(
                [
                    an_entry("r1", "50", day=NOV_1, lease=first, type="reserve"),
                    an_entry("v1", "-50", day=NOV_1, lease=first, type="void", corrects="r1"),
                    an_entry("a1", "1", day=OCT_31, lease=first),
                    an_entry("a2", "2", day=NOV_1, lease=first),
                    an_entry("a2", "999", day=NOV_1, lease=first),
                    an_entry("a3", "0.25", day=NOV_1, lease=first, kind=CostKind.STORAGE_STOPPED),
                    an_entry("s1", "-0.000000001", day=NOV_1, lease=first, type="settle"),
                    an_entry("a4", "4", day=NOV_30, lease=second),
                    an_entry("a5", "8", day=DEC_1, lease=other),
                    an_entry("d1", "0.5", day=DEC_1, lease=other, type="adjust", kind=CostKind.BANDWIDTH),
                    an_entry("a6", "16", day=DEC_1, lease=orphan),
                ]
            )
            await work.ledger.post([an_entry("a1", "999", day=OCT_31, lease=first)])
        return store

    async def test_spend_by_every_key(self, posted: Store) -> None:
        async with posted.snapshot() as work:
            source, daily = await work.reports.sum_spend(), await work.reports.sum_spend(per="day")
            monthly = await work.reports.sum_spend(per="month")
        assert report(monthly, "month", now=NOW) == report(daily, "month", now=NOW)
        assert short(report(daily, "month", now=NOW)) == [
            row("2026-10", "1"),
            row("2026-11", "5.999999999", "0.25", instances=2),
            row("2026-12", "24", "0", "0.5", instances=2),
        ]
        assert [r.key for r in report(daily, "day", now=NOW)] == [
            "2026-10-31",
            "2026-11-01",
            "2026-11-30",
            "2026-12-01",
        ]
        by_job = report(source, "job", now=NOW)
        assert short(by_job) == [
            row("", "16"),
            row("job-000001", "6.999999999", "0.25", instances=2),
            row("job-000002", "8", "0", "0.5"),
        ]
        assert [r.name for r in by_job] == [None, "train", "other"]
        assert [(r.key, r.posted) for r in report(source, "provider", now=NOW)] == [
            ("runpod", Decimal("8.5")),
            ("vastai", Decimal("23.249999999")),
        ]
        assert [(r.key, r.instances) for r in report(source, "gpu", now=NOW)] == [("H100", 1), ("RTX 4090", 3)]
        assert [r.key for r in report(source, "label", now=NOW)] == ["", "other", "train"]
        assert short(report(source, "kind", now=NOW)) == [
            row("bandwidth", "0", "0", "0.5"),
            row("compute", "30.999999999", instances=4),
            row("storage_stopped", "0", "0.25"),
        ]
        assert [r.key for r in report(source, "instance", now=NOW)] == ["7001", "7002", "7004", "lease-3"]
        assert total_row(by_job).instances == 4

    async def test_spend_by_owner_and_tag(self, posted: Store) -> None:
        async with posted.transaction() as work:
            job = await work.jobs.find("job-000002")
            assert job is not None
            tagged = replace(job, spec=replace(job.spec, tags=(("project", "x"),)))
            await work.jobs.save(replace(tagged, owner=-3))
        async with posted.snapshot() as work:
            source, with_tags = await work.reports.sum_spend(), await work.reports.sum_spend(with_tags=True)
        rest, none = (Decimal("7.249999999"), Decimal(16))
        by_owner = {row.key: row.posted for row in report(source, "owner", now=NOW)}
        assert by_owner == {"": none, "-3": Decimal("8.5"), "0": rest}
        by_tag = {row.key: row.posted for row in report(with_tags, "tag:project", now=NOW)}
        assert by_tag == {"": none + rest, "x": Decimal("8.5")}
        assert {each.tags for each in source.leases.values()} == {()}

    async def test_spend_of_some_days_and_of_one_job(self, posted: Store) -> None:
        async with posted.snapshot() as work:
            november = await work.reports.sum_spend(NOV_1, DEC_1)
            assert short(report(november, "job", now=NOW)) == [row("job-000001", "5.999999999", "0.25", instances=2)]
            of_other = await work.reports.sum_spend(job_id="job-000002", per="day")
            assert short(report(of_other, "month", now=NOW)) == [row("2026-12", "8", "0", "0.5")]
            nothing = await work.reports.sum_spend(date(2025, 1, 1), date(2025, 2, 1))
            assert (report(nothing, "job", now=NOW), nothing.ran, dict(nothing.leases)) == ((), {}, {})

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(nanos=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=50))
    async def test_reported_sums_are_exact(self, store: Store, nanos: list[int]) -> None:
        exact = from_nano(sum(nanos))
        async with forgotten(store) as work:
            await work.jobs.save(a_job(leases=(a_lease(),)))
            for number, nano in enumerate(nanos):
                await work.ledger.post([an_entry(f"e{number}", from_nano(nano)), an_entry("once", "1", type="reserve")])
            assert [cell.amount for cell in (await work.reports.sum_spend()).cells] == [exact]
            assert [cell.amount for cell in (await work.reports.sum_spend(per="day")).cells] == [exact]

    async def test_hours_and_what_they_would_have_cost_on_demand(self, store: Store) -> None:
        rate = {"billed_rate": Decimal("0.30"), "storage_rate": ZERO}
        ran = a_lease("lease-1", on_demand_price=Decimal("0.80"), instance_id="1")
        ran = ran.bill_as(InstanceStatus.PROVISIONING, at=START - HOUR, **rate)
        ran = ran.bill_as(InstanceStatus.RUNNING, at=START, **rate)
        ran = ran.bill_as(InstanceStatus.STOPPED, at=START + 2 * HOUR, **rate).stop_billing(START + 5 * HOUR)
        seen = a_lease("lease-2", None, instance_id="2", gone_at=START + HOUR, state=LeaseState.GONE)
        seen = seen.bill_as(InstanceStatus.RUNNING, at=START, **rate).stop_billing(START + HOUR)
        unseen = replace(seen, id="lease-3", instance_id="3", label="other", gpu="H100")
        async with store.transaction() as work:
            await work.jobs.save(a_job(leases=(ran,)))
            for lease in (seen, unseen):
                await work.leases.save(lease)
            dear, cheap = Decimal("0.90"), Decimal("0.70")
            await work.prices.add(
                [
                    a_price(START, on_demand_price=dear, machine="m1"),
                    a_price(START, on_demand_price=cheap, machine="m2"),
                    a_price(START, on_demand_price=Decimal("0.01"), num_gpus=2),
                    a_price(START + 2 * HOUR, on_demand_price=Decimal("0.01"), machine="m3"),
                ]
            )
            await work.ledger.post(an_entry(f"e-{lease.id}", "0.60", lease=lease) for lease in (ran, seen, unseen))
        async with store.snapshot() as work:
            source = await work.reports.sum_spend()
            everything = await work.reports.sum_spend(with_spans=True)
        rows = {r.key: r for r in report(source, "instance", now=NOW)}
        assert (rows["1"].running, rows["1"].on_demand, rows["1"].saved) == (2 * HOUR, Decimal("1.60"), Decimal(1))
        assert (rows["2"].running, rows["2"].on_demand) == (HOUR, cheap)
        assert (rows["3"].running, rows["3"].on_demand, rows["3"].saved) == (HOUR, None, None)
        assert {len(stretches) for stretches in source.ran.values()} == {1}
        assert source.spans == {}
        assert everything.ran == source.ran
        assert len(everything.spans["lease-1"]) == 3
        total = total_row(rows.values())
        assert (total.on_demand, total.compared, total.posted) == (Decimal("2.30"), Decimal("1.20"), Decimal("1.80"))

    async def test_the_life_of_one_lease(self, posted: Store) -> None:
        async with posted.transaction() as work:
            duplicate = a_lease("lease-5", None, provider="runpod", instance_id="7001", intended_at=START + HOUR)
            await work.leases.save(replace(duplicate, label="duplicate"))
            await work.bids.save(BidRecord("b2", "lease-1", START + HOUR, Decimal(2), "done", None))
            await work.bids.save(BidRecord("b1", "lease-1", START, Decimal(1), "done", None))
            await work.bids.save(BidRecord("b3", "lease-2", START, Decimal(1), "done", None))
            about = EventRecord(START, "lease.active", "job-000001", "lease-1")
            await work.events.add([about, replace(about, lease_id="lease-2"), replace(about, name="lease.gone")])
        async with posted.snapshot() as work:
            assert [lease.id for lease in await work.leases.search("lease-1")] == ["lease-1"]
            assert [lease.id for lease in await work.leases.search("7001")] == ["lease-5", "lease-1"]
            assert [lease.id for lease in await work.leases.search("duplicate")] == ["lease-5"]
            assert await work.leases.search("nothing") == ()
            assert [bid.id for bid in await work.bids.list_by_lease("lease-1")] == ["b1", "b2"]
            assert [event.name for event in await work.events.list_by_lease("lease-1")] == [
                "lease.active",
                "lease.gone",
            ]


class WhatAStoreKeepsOfPrices:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(seen=records(PriceObservation, gpu="RTX 4090", num_gpus=st.integers(1, 16)))
    async def test_an_observation(self, store: Store, seen: PriceObservation) -> None:
        async with forgotten(store) as work:
            await work.prices.add([seen, replace(seen, floor=None)])
            assert await work.prices.list_by_gpu("RTX 4090", seen.observed_at, seen.observed_at + HOUR) == (seen,)

    async def test_history_by_gpu_time_and_market(self, store: Store) -> None:
        first, later = a_price(START), a_price(START + HOUR)
        elsewhere = a_price(START, provider="runpod")
        async with store.transaction() as work:
            await work.prices.add([later, first, elsewhere, a_price(START, gpu="H100", machine="m9")])
        async with store.snapshot() as work:
            end = START + 2 * HOUR
            assert await work.prices.list_by_gpu("RTX 4090", START, end) == (elsewhere, first, later)
            assert await work.prices.list_by_gpu("RTX 4090", START, START + HOUR) == (elsewhere, first)
            assert await work.prices.list_by_gpu("RTX 4090", START, end, provider="vastai") == (first, later)
            assert await work.prices.list_by_gpu("RTX 3090", START, end) == ()

    async def test_sums_by_step_and_market(self, store: Store) -> None:
        minute = timedelta(minutes=1)
        pair = replace(a_price(START + 70 * minute, "0.80"), num_gpus=2)
        thinned = replace(
            a_price(START, "0.31", machine="m2"), floor_low=Decimal("0.25"), floor_high=Decimal("0.40"), samples=12
        )
        last = START + 3 * HOUR - timedelta(microseconds=1)
        async with store.transaction() as work:
            await work.prices.add(
                [
                    a_price(START, "0.20", on_demand_price=Decimal("0.60")),
                    a_price(START + 59 * minute, "0.300000001", on_demand_price=Decimal("0.50")),
                    thinned,
                    a_price(START + HOUR, None),
                    pair,
                    a_price(last, "0.90", provider="runpod"),
                    a_price(START, "0.10", gpu="RTX_4090", provider="runpod"),
                    a_price(START + 3 * HOUR, "0.01"),
                    a_price(START, "0.01", gpu="H100", machine="m9"),
                ]
            )
        period = START, START + 3 * HOUR
        first = PriceSum(
            *("vastai", 1, 0, Decimal("0.20"), Decimal("0.40"), Decimal("0.50")),
            total=Decimal("0.20") + Decimal("0.300000001") + 12 * Decimal("0.31"),
            floors=14,
            samples=14,
            machines=2,
            last_at=START + 59 * minute,
        )
        unknown = PriceSum("vastai", 1, 1, None, None, None, Decimal(0), 0, 1, 1, START + HOUR)
        of_pair = PriceSum(
            *("vastai", 2, 1, Decimal("0.80"), Decimal("0.80"), None, Decimal("0.80")), 1, 1, 1, pair.observed_at
        )
        low, high = Decimal("0.10"), Decimal("0.90")
        cheap = PriceSum("runpod", 1, 0, low, low, None, low, 1, 1, 1, START)
        dear = PriceSum("runpod", 1, 2, high, high, None, high, 1, 1, 1, last)
        async with store.snapshot() as work:
            names = ["RTX 4090", "RTX_4090"]
            found = await work.prices.sum_by_step(names, *period, steps=3)
            assert found == (cheap, dear, first, unknown, of_pair)
            assert await work.prices.count_machines(names, *period) == {"runpod": 1, "vastai": 3}
            assert await work.prices.sum_by_step(["RTX 4090"], *period, steps=3, provider="runpod") == (dear,)
            assert await work.prices.count_machines(["RTX 4090"], *period, provider="vastai") == {"vastai": 3}
            assert await work.prices.sum_by_step([], *period, steps=3) == ()

    async def test_sums_of_large_amounts_are_exact(self, store: Store) -> None:
        """Nano-dollars of one price all but fill a BIGINT."""
        most = Decimal("9000000000.000000001")
        async with store.transaction() as work:
            await work.prices.add([a_price(START, str(most), machine=f"m{number}") for number in range(30)])
        async with store.snapshot() as work:
            (found,) = await work.prices.sum_by_step(["RTX 4090"], START, START + HOUR, steps=1)
        assert (found.total, found.floors, found.low) == (30 * most, 30, most)

    async def test_steps_that_do_not_divide_the_time_hold_all_of_it(self, store: Store) -> None:
        until = START + 10 * timedelta(microseconds=1)
        async with store.transaction() as work:
            await work.prices.add(
                a_price(START + number * timedelta(microseconds=1), machine=f"m{number}") for number in range(10)
            )
        async with store.snapshot() as work:
            found = await work.prices.sum_by_step(["RTX 4090"], START, until, steps=3)
        assert [(each.step, each.machines) for each in found] == [(0, 4), (1, 4), (2, 2)]

    async def test_old_prices_are_put_together_by_the_hour_once(self, store: Store) -> None:
        nine = START.replace(minute=0)
        async with store.transaction() as work:
            await work.prices.add(
                [
                    a_price(nine, "0.20", on_demand_price=Decimal("0.50")),
                    a_price(nine + 20 * timedelta(minutes=1), "0.50"),
                    a_price(nine + 40 * timedelta(minutes=1), None, reliability=Decimal("0.99")),
                    a_price(nine + 59 * timedelta(minutes=1), "0.20", machine="m2"),
                    a_price(nine + HOUR, "0.30"),
                    a_price(nine + 2 * HOUR, "0.40"),
                ]
            )
        until = nine + 2 * HOUR + timedelta(minutes=30)
        async with store.transaction() as work:
            assert await work.prices.thin(until, hours=1) == 1
            assert len(await work.prices.list_by_gpu("RTX 4090", nine, until)) == 4
            assert await work.prices.thin(until, hours=9) == 1
        for _ in range(2):
            async with store.transaction() as work:
                assert await work.prices.thin(until, hours=9) == 0
                at_nine, other, at_ten, at_eleven = await work.prices.list_by_gpu("RTX 4090", nine, until)
        assert (at_nine.observed_at, at_nine.samples, at_nine.floor) == (nine, 3, Decimal("0.35"))
        assert (at_nine.floor_low, at_nine.floor_high) == (Decimal("0.20"), Decimal("0.50"))
        assert (at_nine.on_demand_price, at_nine.reliability) == (Decimal("0.50"), Decimal("0.99"))
        assert (other.machine_id, other.observed_at, other.samples) == ("m2", nine, 1)
        assert (at_ten.observed_at, at_ten.floor_low) == (nine + HOUR, Decimal("0.30"))
        assert at_eleven == a_price(nine + 2 * HOUR, "0.40")

    async def test_prices_are_forgotten(self, store: Store) -> None:
        async with store.transaction() as work:
            await work.prices.add([a_price(START), a_price(START + HOUR)])
            assert await work.prices.forget(START + HOUR) == 1
            assert await work.prices.forget(START + HOUR) == 0
            assert await work.prices.list_by_gpu("RTX 4090", START, NOW) == (a_price(START + HOUR),)


class WhatAStoreForgets:
    async def test_decisions_and_events_of_jobs_long_over_and_nothing_of_money(self, store: Store) -> None:
        over = a_job(status=JobStatus.SUCCEEDED, finished_at=START, leases=(a_lease(state=LeaseState.GONE),))
        recent = a_job("job-000002", status=JobStatus.FAILED, finished_at=START + 2 * HOUR)
        going = a_job("job-000003", status=JobStatus.RUNNING)
        async with store.transaction() as work:
            for job in (over, recent, going):
                await work.jobs.save(job)
                await work.decisions.add(DecisionRecord(f"{job.id}-1", job.id, START, (), (), ()))
                await work.events.add([EventRecord(START, "job.submitted", job.id, None)])
            await work.events.add([EventRecord(START, "spot.became_absent", None, None)])
            await work.bids.save(BidRecord("b1", "lease-1", START, Decimal(1), "done", None))
            await work.ledger.post([an_entry("e1", "1", day=DAY)])
            assert await work.decisions.forget(START) == await work.events.forget(START) == 0
            assert await work.decisions.forget(START + HOUR) == 1
            assert await work.events.forget(START + HOUR) == 1  # the newest event of all always stays
            await work.events.add([EventRecord(START + HOUR, "spot.became_absent", None, None)])
            assert await work.decisions.forget(START + HOUR) == 0
            assert await work.events.forget(START + HOUR) == 1
        async with store.snapshot() as work:
            assert [event.job_id for event in await work.events.list_after()] == ["job-000002", "job-000003", None]
            assert await work.decisions.list_by_job(over.id, limit=9) == ()
            assert len(await work.decisions.list_by_job(recent.id, limit=9)) == 1
            assert len(await work.ledger.list_entries("lease-1")) == len(await work.bids.list_by_lease("lease-1")) == 1
            assert len((await work.reports.sum_spend()).cells) == 1
