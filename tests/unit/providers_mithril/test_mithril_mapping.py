"""Mithril's records as our values: floors, prices, states."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.instance import InstanceStatus, Stopper
from autopilot.providers.mithril import mapping, wire
from autopilot.providers.mithril.own_bids import Own
from autopilot.providers.mithril.wire import BidRow, InstanceRow, PriceRow, TypeRow

D = Decimal
NO_OWN_BIDS = Own()
AT = datetime(2026, 11, 23, tzinfo=UTC)
KIND = TypeRow("it_1", "h100-80gb.sxm.8x", 8, D(80), D(12000))


def prices(**changes: Decimal | int | None) -> PriceRow:
    given: dict[str, Any] = {
        "spot": D("25.00"),
        "minimum": D("8.00"),
        "lowest_allocated": D("26.00"),
        "wins_now": None,
        "available": 0,
    }
    return PriceRow(**(given | changes))


def a_bid(status: str = "Allocated", instance_ids: tuple[str, ...] = ("inst_1",), quantity: int = 1) -> BidRow:
    return BidRow("bid_1", "ap1.x", status, D("30.00"), quantity, "it_1", "us-x", instance_ids)


def a_machine(status: str = "RUNNING", instance_id: str = "inst_1", created_at: datetime = AT) -> InstanceRow:
    return InstanceRow(instance_id, "bid_1", status, created_at)


@pytest.mark.parametrize(
    ("changes", "floor"),
    [
        ({}, "26.01"),
        ({"available": 3}, "25.01"),
        ({"available": 3, "spot": None}, "8.01"),
        ({"available": 3, "spot": D("5.00")}, "8.01"),
        ({"wins_now": D("26.50")}, "26.50"),
        ({"wins_now": D("1.00")}, "8.00"),
        ({"lowest_allocated": D("2.00")}, "8.00"),
        ({"lowest_allocated": None}, None),
        ({"available": None, "lowest_allocated": None}, None),
        ({"available": 1, "spot": None, "minimum": None}, None),
    ],
)
def test_the_floor_is_what_wins_and_not_what_is_paid(
    changes: dict[str, Decimal | int | None], floor: str | None
) -> None:
    found = mapping.room(prices(**changes), NO_OWN_BIDS)
    assert found.floor == (None if floor is None else D(floor))


def test_an_offer_tells_the_floor_from_the_price() -> None:
    offer = mapping.offer(KIND, "us-x", prices(), "H100 SXM", NO_OWN_BIDS)
    assert offer is not None
    assert (offer.floor, offer.clearing_price, offer.on_demand_price) == (D("26.01"), D("25.00"), None)
    assert mapping.pool_of_offer(offer.offer_id) == ("us-x", "it_1")


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("h100-80gb.sxm.8x", "H100 SXM"),
        ("a100-80gb.sxm.1x", "A100 SXM4"),
        ("b200.8x", "B200"),
        ("h200.8x", "H200"),
        ("mystery-9000.16x", "MYSTERY-9000"),
    ],
)
def test_gpus_have_their_standard_names(name: str, gpu: str) -> None:
    assert mapping.gpu_of(name) == gpu


P, R, S = InstanceStatus.PROVISIONING, InstanceStatus.RUNNING, InstanceStatus.STOPPED


@pytest.mark.parametrize(
    ("bid", "machine", "expected", "is_meant_to_run"),
    [
        (a_bid("Open", ()), None, P, True),
        (a_bid("Open"), None, S, True),
        (a_bid("Open"), a_machine("PREEMPTED"), S, True),
        (a_bid("Open"), a_machine("RUNNING"), R, True),
        (a_bid("Allocated", ()), None, P, True),
        (a_bid(), a_machine("NEW"), P, True),
        (a_bid(), a_machine("STARTING"), P, True),
        (a_bid(), a_machine(), R, True),
        (a_bid(), a_machine("RELOCATING"), R, True),
        (a_bid(), a_machine("STOPPED"), P, True),
        (a_bid(), a_machine("ERROR"), S, True),
        (a_bid("Preempting"), a_machine("PREEMPTING"), R, True),
        (a_bid("Preempting"), a_machine("PREEMPTED"), S, True),
        (a_bid("Paused"), a_machine("PAUSED"), S, False),
        (a_bid("Paused"), a_machine("STOPPING"), R, False),
        (a_bid("Paused"), a_machine("RUNNING"), R, False),
        (a_bid("Paused"), None, S, False),
        (a_bid("Terminated"), a_machine("STOPPING"), R, False),
    ],
)
def test_what_a_bid_and_its_machine_come_to(
    bid: BidRow, machine: InstanceRow | None, expected: InstanceStatus, is_meant_to_run: bool
) -> None:
    made = mapping.instance(bid, machine, KIND, prices(), NO_OWN_BIDS, is_waiting=True)
    assert made.status is expected
    assert made.intended_running is is_meant_to_run
    assert made.start_failed is (machine is not None and machine.status == "ERROR")


@pytest.mark.parametrize(
    ("bid", "machine", "who"),
    [
        (a_bid("Open"), a_machine("PREEMPTED"), Stopper.BIDDER),
        (a_bid("Preempting"), a_machine("PREEMPTED"), Stopper.BIDDER),
        (a_bid("Paused"), a_machine("PAUSED"), Stopper.USER),
        (a_bid("Open"), a_machine("ERROR"), Stopper.HOST),
        (a_bid("Allocated"), a_machine("RUNNING"), None),
    ],
)
def test_who_stopped_a_machine(bid: BidRow, machine: InstanceRow, who: Stopper | None) -> None:
    assert mapping.instance(bid, machine, KIND, prices(), NO_OWN_BIDS, is_waiting=False).stopped_by is who


def test_a_new_bid_that_waits_for_too_long_counts_as_outbid() -> None:
    made = mapping.instance(a_bid("Open", ()), None, KIND, prices(), NO_OWN_BIDS, is_waiting=False)
    assert made.status is S
    assert made.price_to_win == D("26.01")
    assert made.bills == 0


@pytest.mark.parametrize("status", ["Terminated", "Replaced"])
def test_an_ended_bid_is_over_unless_its_machine_still_is_on(status: str) -> None:
    assert mapping.is_over(a_bid(status), None)
    assert mapping.is_over(a_bid(status), a_machine("PREEMPTED"))
    assert not mapping.is_over(a_bid(status), a_machine("STOPPING"))
    assert not mapping.is_over(a_bid("Paused"), None)


def test_of_several_machines_the_newest_counts_and_replaced_ones_never() -> None:
    old, new = a_machine("RUNNING", "inst_0", AT), a_machine("STARTING", "inst_1", AT.replace(hour=1))
    assert mapping.current(a_bid(), [new, old]) is new
    assert mapping.current(a_bid(), [a_machine("REPLACED")]) is None
    assert mapping.current(a_bid(), [InstanceRow("inst_2", "bid_2", "RUNNING", AT)]) is None


def test_a_machine_costs_the_price_and_never_more_than_its_limit() -> None:
    shown = mapping.instance(a_bid(), a_machine(), KIND, prices(), NO_OWN_BIDS, is_waiting=False)
    assert (shown.bid, shown.computes_at, shown.bills) == (D("30.00"), D("25.00"), D("25.00"))
    dear = mapping.instance(a_bid(), a_machine(), KIND, prices(spot=D("99.00")), NO_OWN_BIDS, is_waiting=False)
    assert dear.computes_at == D("30.00")
    unknown = mapping.instance(a_bid(), a_machine(), KIND, None, NO_OWN_BIDS, is_waiting=False)
    assert unknown.computes_at == D("30.00")
    several = mapping.instance(a_bid(quantity=3), a_machine(), KIND, prices(), NO_OWN_BIDS, is_waiting=False)
    assert (several.bid, several.computes_at, several.num_gpus) == (D("90.00"), D("75.00"), 24)


@pytest.mark.parametrize(("bid", "limit"), [("2.509", "2.50"), ("2.50", "2.50"), ("0.009", "0.00"), ("5000", "1000")])
def test_a_limit_is_never_more_than_was_decided(bid: str, limit: str) -> None:
    assert mapping.limit_for(D(bid)) == D(limit)


@pytest.mark.parametrize(
    "change",
    [
        {"fid": None},
        {"fid": "../x"},
        {"status": None},
        {"limit_price": 2.5},
        {"limit_price": "$-1"},
        {"instance_quantity": 0},
        {"instance_quantity": 5000},
        {"instance_type": 7},
        {"region": "us/../x"},
        {"instances": None},
        {"instances": [7]},
    ],
)
def test_a_bid_that_cannot_be_read_is_not_left_out(change: dict[str, object]) -> None:
    row = {
        "fid": "bid_1",
        "status": "Open",
        "limit_price": "$2.50",
        "instance_quantity": 1,
        "instance_type": "it_1",
        "region": "us-x",
        "instances": [],
        "name": "n",
    }
    assert wire.bid_row(row).limit == D("2.50")
    with pytest.raises(wire.UnreadableRow):
        wire.bid_row(row | change)


@pytest.mark.parametrize("change", [{"fid": ""}, {"bid": 5}, {"bid": "../x"}])
def test_a_machine_that_cannot_be_read_is_not_left_out(change: dict[str, object]) -> None:
    row = {"fid": "inst_1", "status": "STATUS_RUNNING", "bid": "bid_1", "created_at": None}
    read = wire.instance_row(row)
    assert read is not None
    assert read.status == "RUNNING"
    assert wire.instance_row({"fid": 7, "status": "STATUS_ASLEEP", "bid": None}) is None, "a reservation's"
    with pytest.raises(wire.UnreadableRow):
        wire.instance_row(row | change)


@pytest.mark.parametrize(
    ("bid", "machine"),
    [
        (a_bid("Frozen"), None),
        (a_bid("Frozen", ()), None),
        (a_bid("Frozen"), a_machine("PREEMPTED")),
        (a_bid("Relocating"), None),
        (a_bid(), a_machine("ASLEEP")),
        (a_bid("Paused"), a_machine("ASLEEP")),
        (a_bid("Terminated"), a_machine("ASLEEP")),
    ],
)
def test_an_unknown_status_counts_as_running(bid: BidRow, machine: InstanceRow | None) -> None:
    assert not mapping.is_over(bid, machine)
    made = mapping.instance(bid, machine, KIND, prices(), Own(), is_waiting=True)
    assert made.status is R
    assert made.bills == D("25.00")


def test_a_bid_need_not_state_its_region() -> None:
    row = {
        "fid": "bid_1",
        "status": "Open",
        "limit_price": "$2.50",
        "instance_quantity": 1,
        "instance_type": "it_1",
        "instances": [],
        "name": "ap1.x",
    }
    assert wire.bid_row(row).region == wire.bid_row(row | {"region": None}).region == ""


@pytest.mark.parametrize(
    ("bid", "ceiling", "limit"), [("9.99", "5.005", "5.00"), ("4.999", "5.00", "4.99"), ("9.99", None, "9.99")]
)
def test_no_limit_is_above_what_the_market_takes(bid: str, ceiling: str | None, limit: str) -> None:
    assert mapping.limit_for(D(bid), None if ceiling is None else D(ceiling)) == D(limit)


def test_a_pool_whose_floor_is_above_what_the_market_takes_is_not_offered() -> None:
    dear = replace(prices(), ceiling=D("26.00"))
    assert mapping.offer(KIND, "us-x", prices(), "H100 SXM", Own()) is not None
    assert mapping.offer(KIND, "us-x", dear, "H100 SXM", Own()) is None


def series(**changes: object) -> dict[str, object]:
    row = {
        "instance_type": "it_1",
        "region": "us-x",
        "timestamps": ["2026-11-23T00:00:00Z", "2026-11-23T02:00:00Z"],
        "spot_prices": ["$5.50", "6.00"],
        "reserved_prices": [None, None],
        "region_disabled": False,
    }
    return {"series": [row | changes, row | {"region": "us-y", "spot_prices": ["$1", "$1"]}], "complete": True}


def test_a_record_of_prices_is_read_in_either_form() -> None:
    read = wire.past_prices(series(), "it_1", "us-x")
    assert read is not None
    assert read.prices == {AT: D("5.50"), AT.replace(hour=2): D("6.00")}
    assert read.is_whole
    old = {"prices": [{"timestamp": "2026-11-23T00:00:00Z", "spot_instance_price": "$5.50"}]}
    told = wire.past_prices(old, "it_1", "us-x")
    assert told is not None
    assert told.prices == {AT: D("5.50")}


def test_a_record_that_breaks_off_or_makes_no_sense_is_not_made_up() -> None:
    broken = wire.past_prices(series() | {"complete": False}, "it_1", "us-x")
    assert broken is not None
    assert not broken.is_whole
    assert wire.past_prices(series(spot_prices=["$5.50"]), "it_1", "us-x") is None
    assert wire.past_prices({}, "it_1", "us-x") is None
    odd = wire.past_prices(series(spot_prices=[None, "much"]), "it_1", "us-x")
    assert odd is not None
    assert odd.prices == {}
