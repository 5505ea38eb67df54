"""Answers about money, made from a ledger in memory: spend with comparisons, prices in steps, budgets that run out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.unpack import AgentUnpacker
from autopilot.answers.models.money import PricesQuery
from autopilot.blobs.local import LocalBlobStore
from autopilot.books.budget import budget, burning, credits_of, lasts
from autopilot.books.prices import prices
from autopilot.books.reconciliation import reconciliation, reconciliation_of_dearest
from autopilot.books.spend import spend, spend_of_month
from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.domain.gpu_names import NAMES
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.params import Params
from autopilot.domain.prices import PriceObservation
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.engine.outstanding import read_moment
from autopilot.ids import UlidIds
from autopilot.ports.store import Store
from autopilot.providers.paper.bootstrap import PaperBootstrap
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import limits
from tests.leases import change_lease
from tests.store_records import START, a_job, a_lease, an_entry

HOUR = timedelta(hours=1)
NOW = START + timedelta(days=3)


@pytest.fixture
async def store() -> MemoryStore:
    """Ten hours of four RTX 4090 for $3, and one of an H100 whose price on demand nobody knows."""
    rate = {"billed_rate": Decimal("0.30"), "storage_rate": Decimal(0)}
    many = a_lease(state=LeaseState.GONE, num_gpus=4, on_demand_price=Decimal("1.60"), instance_id="1")
    many = many.bill_as(InstanceStatus.RUNNING, at=START, **rate).stop_billing(START + 10 * HOUR)
    one = a_lease("lease-2", None, gpu="H100 SXM", state=LeaseState.GONE, label="x", instance_id="2")
    one = one.bill_as(InstanceStatus.RUNNING, at=START, **rate).stop_billing(START + HOUR)
    made = MemoryStore()
    async with made.transaction() as work:
        await work.jobs.save(a_job(leases=(many,)))
        await work.leases.save(one)
        await work.ledger.post([an_entry("a", "3", lease=many), an_entry("b", "1", lease=one)])
    return made


async def spend_in(store: Store, query: dict[str, str], now: datetime = NOW) -> dict[str, Any]:
    async with store.snapshot() as uow:
        return await spend(uow, await read_moment(uow, now, Params()), query)


async def prices_in(store: Store, query: PricesQuery) -> dict[str, Any]:
    async with store.snapshot() as uow:
        return await prices(uow, query, NOW, NAMES)


@pytest.mark.parametrize("by", ["job", "kind", "day", "instance"])
async def test_comparisons_say_what_they_compare(store: MemoryStore, by: str) -> None:
    body = await spend_in(store, {"by": by})
    assert body["total_row"]["posted"] == "4"
    found = {each["name"]: each for each in body["comparisons"]}
    assert (found["on_demand"]["cost"], found["on_demand"]["spent"], found["on_demand"]["saved"]) == ("16", "3", "13")
    assert found["on_demand"]["saved_share"] == "0.8125"
    # Per GPU-hour: H100 SXM at 2.49; and 40 hours of RTX 4090 at 0.37 with one of H100 SXM at 1.79.
    assert (found["hyperscaler_list"]["cost"], found["hyperscaler_list"]["spent"]) == ("2.49", "1")
    assert (found["cloud_list"]["cost"], found["cloud_list"]["spent"]) == ("16.59", "4")
    assert len(found["cloud_list"]["sources"]) == 2
    assert all("20" in source for source in found["cloud_list"]["sources"])


async def test_nothing_spent_compares_with_nothing() -> None:
    body = await spend_in(MemoryStore(), {})
    assert (body["rows"], body["total_row"]["posted"], body["comparisons"]) == ([], "0", [])


async def test_months_of_another_zone(store: MemoryStore) -> None:
    async with store.transaction() as work:
        night = datetime(2026, 11, 30, 22, tzinfo=UTC)
        lease = a_lease("lease-3", None, label="y", instance_id="3", state=LeaseState.GONE)
        lease = lease.bill_as(InstanceStatus.RUNNING, Decimal(1), Decimal(0), night).stop_billing(night + 2 * HOUR)
        await work.leases.save(lease)
        await work.ledger.post([an_entry("c", "2", day=night.date(), lease=lease)])
    utc = await spend_in(store, {"month": "2026-12"}, NOW + timedelta(days=20))
    berlin = await spend_in(store, {"month": "2026-12", "zone": "Europe/Berlin"}, NOW + timedelta(days=20))
    assert (utc["total_row"]["posted"], berlin["total_row"]["posted"]) == ("0", "1")
    assert (berlin["since"], berlin["until"]) == ("2026-12-01", "2026-12-31")
    assert berlin["total_row"]["running_s"] == 3600


async def test_prices_are_per_gpu_in_steps() -> None:
    store = MemoryStore()
    seen = PriceObservation("vastai", "m1", "RTX 4090", 2, Decimal("0.40"), Decimal("1.00"), NOW - 4 * HOUR)
    async with store.transaction() as work:
        await work.prices.add(
            [
                seen,
                replace(seen, machine_id="m2", num_gpus=1, floor=Decimal("0.30"), on_demand_price=None),
                replace(seen, observed_at=NOW - HOUR, floor=None),
                replace(
                    seen,
                    observed_at=NOW - 2 * HOUR,
                    floor_low=Decimal("0.10"),
                    floor_high=Decimal("0.90"),
                    samples=9,
                ),
            ]
        )
    body = await prices_in(store, PricesQuery(gpu="RTX 4090", since="4h", steps=4))
    (market,) = body["markets"]
    first, second, third, fourth = market["steps"]
    assert (first["low"], first["mean"], first["high"], first["machines"]) == ("0.2", "0.25", "0.3", 2)
    assert (second["low"], second["machines"]) == (None, 0)
    assert (third["low"], third["mean"], third["high"]) == ("0.05", "0.2", "0.45")
    assert (fourth["low"], fourth["on_demand"]) == (None, "0.5")
    assert (market["observations"], market["last_low"], market["low"]) == (12, None, "0.05")
    assert (await prices_in(store, PricesQuery(gpu="RTX 4090", provider="runpod")))["markets"] == []
    for spelling in ("4090", "rtx_4090", "NVIDIA GeForce RTX 4090"):
        same = await prices_in(store, PricesQuery(gpu=spelling, since="4h", steps=4))
        assert same | {"gpu": body["gpu"]} == body
    with pytest.raises(UserError, match="no market lists a GPU called 'RTX 4900'"):
        await prices_in(store, PricesQuery(gpu="RTX 4900"))


async def forecast_of(tmp_path: Path, spent: str, rate: str) -> tuple[object, object]:
    """Of a month with $500 that a machine has drawn on and goes on with: the forecast, and whether it is the limit."""
    store, clock = MemoryStore(), ManualClock(NOW)
    lease = a_lease(instance_id="1", acquired_at=NOW)
    lease = lease.bill_as(InstanceStatus.RUNNING, Decimal(rate), Decimal(0), NOW) if Decimal(rate) else lease
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(change_lease(lease, last_seen_at=NOW),)))
        await work.ledger.post([an_entry("a", spent, lease=lease)])
    blobs = LocalBlobStore(tmp_path, b"key", "http://127.0.0.1:1")
    config = EngineConfig("install1", limits(month=Decimal(500)), Params())
    engine = Engine(config, {}, store, blobs, PaperBootstrap(blobs), AgentUnpacker(), clock, UlidIds(clock))
    async with store.snapshot() as uow:
        moment = await read_moment(uow, NOW, Params())
        found = (await budget(uow, moment, engine.config.limits, credits_of(engine)))["account"]
    return found["forecast_month"], found["forecast_reaches_limit"]


@pytest.mark.parametrize(
    ("spent", "rate", "forecast", "reaches"),
    [
        pytest.param("512.34", "0", "512.34", True, id="beyond-it-already"),
        pytest.param("512.34", "3", "512.34", True, id="beyond-it-already-and-more-is-stopped"),
        pytest.param("400", "3", "500", True, id="stopped-at-it"),
        pytest.param("400", "0", "400", False, id="within-it"),
    ],
)
async def test_a_forecast_ends_at_the_limit_and_is_never_below_what_is_spent(
    tmp_path: Path, spent: str, rate: str, forecast: str, reaches: bool
) -> None:
    assert await forecast_of(tmp_path, spent, rate) == (forecast, reaches)


@pytest.mark.parametrize(
    "query",
    [
        {"until": "9999-12-31"},
        {"month": "9999-12"},
        {"since": "0001-01-01", "zone": "Europe/Berlin"},
        {"month": "0001-01", "zone": "Europe/Berlin"},
        {"since": "1969-12-31"},
        {"until": "9000-01-01"},
    ],
    ids=str,
)
async def test_days_at_the_calendar_s_ends_are_refused(store: MemoryStore, query: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"not a (day|month)"):
        await spend_in(store, query)


async def test_days_near_them_are_not(store: MemoryStore) -> None:
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        body = await spend_in(store, {"since": "1970-01-01", "until": "8999-12-31", "zone": zone})
        assert body["total_row"]["posted"] == "4"


@pytest.mark.parametrize(
    "query",
    [
        {"since": "0001-01-01T00:00:00+14:00"},
        {"until": "9999-12-31T23:59:59-12:00"},
        {"since": "2026-11-01T00:00:00Z", "until": "9999-12-31T23:59:59-12:00"},
    ],
    ids=str,
)
async def test_prices_at_the_calendar_s_ends_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(UserError, match="not a duration"):
        await prices_in(MemoryStore(), PricesQuery.model_validate({"gpu": "RTX 4090"} | query))


def test_how_long_money_lasts() -> None:
    assert lasts(Decimal(3), Decimal("1.5")) == 2 * HOUR
    assert lasts(Decimal(-1), Decimal(1)) == timedelta(0)
    assert lasts(None, Decimal(1)) is None
    assert lasts(Decimal(1), Decimal(0)) is None
    assert lasts(Decimal(10**9), Decimal("1e-9")) is None


def test_what_burns_is_what_is_billed_now() -> None:
    running = a_lease().bill_as(InstanceStatus.RUNNING, Decimal(1), Decimal("0.1"), START)
    stopped = running.bill_as(InstanceStatus.STOPPED, Decimal(1), Decimal("0.2"), START + HOUR)
    assert burning([running, stopped, stopped.stop_billing(NOW), a_lease()]) == Decimal("1.3")


async def test_the_spend_of_each_market_adds_up_to_all(store: MemoryStore) -> None:
    async with store.transaction() as work:
        other = a_lease("lease-9", None, provider="runpod", label="z", instance_id="9", state=LeaseState.GONE)
        await work.leases.save(other)
        await work.ledger.post([an_entry("z", "0.000000001", lease=other, provider="runpod")])
    runs = a_lease("lease-8", provider="runpod", label="w", instance_id="8")
    runs = runs.bill_as(InstanceStatus.RUNNING, Decimal(1), Decimal(0), NOW - HOUR)
    runs = change_lease(runs, last_seen_at=NOW)
    async with store.transaction() as work:
        await work.leases.save(runs)
    query = {"by": "job", "month": f"{NOW:%Y-%m}"}
    async with store.snapshot() as uow:
        moment = await read_moment(uow, NOW, Params())
        whole, days = await spend_of_month(uow, moment, query["by"], query["month"], 9)
        by_key = await spend(uow, moment, query)
        dearest_first = sorted(by_key["rows"], key=lambda row: -Decimal(row["posted"]) - Decimal(row["accrued"]))
        assert whole == by_key | {"rows": dearest_first, "others": None, "others_count": 0}
        cut, _ = await spend_of_month(uow, moment, query["by"], query["month"], 1)
        by_day = await spend(uow, moment, query | {"by": "day"})
        bills = await reconciliation(uow, moment, query["month"])
        dearest = await reconciliation_of_dearest(uow, moment, query["month"], 1)
    assert cut["rows"] == whole["rows"][:1]
    assert (cut["others_count"], cut["total_row"]) == (len(whole["rows"]) - 1, whole["total_row"])
    assert Decimal(cut["rows"][0]["posted"]) + Decimal(cut["others"]["posted"]) == Decimal(whole["total_row"]["posted"])
    assert dearest["rows"] == [max(bills["rows"], key=lambda row: Decimal(row["posted"]))]
    assert (dearest["others_count"], dearest["total"]) == (len(bills["rows"]) - 1, bills["total"])
    first, others = Decimal(dearest["rows"][0]["posted"]), Decimal(dearest["others"]["posted"])
    assert first + others == Decimal(bills["total"]["posted"])
    assert list(days) == ["runpod", "vastai"]
    assert days["runpod"][f"{NOW:%Y-%m-%d}"] == "1"
    spent = {row["key"]: Decimal(row["posted"]) + Decimal(row["accrued"]) for row in by_day["rows"]}
    assert {day: sum(Decimal(each.get(day, 0)) for each in days.values()) for day in spent} == spent
    assert min(map(Decimal, days["runpod"].values())) == Decimal("0.000000001")
