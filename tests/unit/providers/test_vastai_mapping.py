"""Recorded and hostile bodies → records → the domain's values."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.instance import Charge, CostKind, InstanceStatus
from autopilot.domain.money import to_nano
from autopilot.domain.offer import CapacityType
from autopilot.providers import values
from autopilot.providers.vastai import mapping, wire
from tests.unit.providers.vastai_samples import body


def offer_rows(name: str) -> tuple[wire.OfferRow, ...]:
    return wire.offer_rows(body(name)["offers"])[0]


@pytest.mark.parametrize(
    ("sample", "status", "intended_running"),
    [
        ("instance_provisioning", InstanceStatus.PROVISIONING, True),
        ("instance_loading", InstanceStatus.PROVISIONING, True),
        ("instance_pull_failed", InstanceStatus.PROVISIONING, True),
        ("instance_running_bid", InstanceStatus.RUNNING, True),
        ("instance_container_exited", InstanceStatus.RUNNING, True),
        ("instance_outbid", InstanceStatus.STOPPED, False),
        ("instance_outbid_lagging_actual", InstanceStatus.STOPPED, False),
        ("instance_start_queued", InstanceStatus.STOPPED, True),
        ("instance_offline", InstanceStatus.OFFLINE, True),
    ],
)
def test_status_of_each_recorded_situation(sample: str, status: InstanceStatus, intended_running: bool) -> None:
    instance = mapping.instance(wire.instance_row(body(sample)["instances"]))
    assert (instance.status, instance.intended_running) == (status, intended_running)


@pytest.mark.parametrize(
    ("intended", "current", "actual", "status"),
    [
        ("running", "running", "rebooting", InstanceStatus.RUNNING),
        ("frozen", "running", "frozen", InstanceStatus.RUNNING),
        ("running", "running", "created", InstanceStatus.PROVISIONING),
        ("running", "running", "unknown", InstanceStatus.OFFLINE),
        ("stopped", "unloaded", "running", InstanceStatus.STOPPED),
        ("stopped", None, "loading", InstanceStatus.STOPPED),
        ("stopped", "running", "running", InstanceStatus.RUNNING),
        (None, None, None, InstanceStatus.PROVISIONING),
        (None, None, "running", InstanceStatus.RUNNING),
        ("Running", "Running", " running\n", InstanceStatus.RUNNING),
    ],
)
def test_status_by_state_words(
    intended: str | None, current: str | None, actual: str | None, status: InstanceStatus
) -> None:
    row = body("instance_running_bid")["instances"]
    row |= {"intended_status": intended, "cur_state": current, "actual_status": actual}
    assert mapping.instance(wire.instance_row(row)).status is status


def test_a_recorded_instance_in_full() -> None:
    instance = mapping.instance(wire.instance_row(body("instance_running_bid")["instances"]))
    assert instance.instance_id == "47848147"
    assert instance.label == "autopilot/job-01JD/attempt-3"
    assert (instance.machine_id, instance.host_id) == ("43567", "155381")
    assert instance.capacity_type is CapacityType.SPOT
    assert instance.bid == Decimal("0.165")
    assert instance.storage_rate == Decimal("0.011111111")
    assert (instance.gpu, instance.num_gpus) == ("RTX 4090", 1)
    assert instance.ends_at == datetime.fromtimestamp(1798513200, UTC)
    assert instance.message == "success, running nvidia/cuda_12.4.1-devel-ubuntu22.04/ssh"


@pytest.mark.parametrize("missing", ["id", "is_bid", "dph_base"])
@pytest.mark.parametrize("value", [None, "", "x", -1, float("nan"), [], {}])
def test_an_instance_without_its_essentials_is_not_believed(missing: str, value: object) -> None:
    row = body("instance_running_bid")["instances"]
    row[missing] = value
    with pytest.raises(wire.UnreadableRow):
        wire.instance_row(row)


def test_an_instance_survives_nulls_elsewhere() -> None:
    row = dict.fromkeys(body("instance_running_bid")["instances"])
    row |= {"id": "12", "is_bid": "false", "dph_base": "0.31"}
    instance = mapping.instance(wire.instance_row(row))
    assert instance.instance_id == "12"
    assert instance.capacity_type is CapacityType.ON_DEMAND
    assert instance.bid == Decimal("0.31")
    assert (instance.label, instance.machine_id, instance.ends_at) == ("", "", None)


def test_on_demand_rows_carry_both_prices() -> None:
    offers = mapping.offers(offer_rows("offer_ondemand"), ())
    single = next(offer for offer in offers if offer.num_gpus == 1)
    assert single.offer_id == "29332107"
    assert single.key == ("vastai", "43567", 1)
    assert single.floor == Decimal("0.1333")
    assert single.on_demand_price == Decimal("0.255")
    assert single.vram_gb == Decimal("24.564")
    assert single.storage_price == Decimal("0.2")
    assert (single.upload_price, single.download_price) == (Decimal("0.0039"), Decimal("0.002"))
    assert single.reliability == Decimal("0.9974")
    assert single.verified
    assert not single.datacenter
    assert single.location == "Washington, US"
    assert {offer.num_gpus for offer in offers} == {1, 2}


def test_a_chunk_seen_only_among_bids_has_a_floor_alone() -> None:
    on_demand = [row for row in offer_rows("offer_ondemand") if row.num_gpus == 1]
    offers = mapping.offers(on_demand, offer_rows("offer_bid"))
    by_size = {offer.num_gpus: offer for offer in offers}
    assert by_size[1].on_demand_price == Decimal("0.255")
    assert by_size[2].on_demand_price is None
    assert by_size[2].floor == offer_rows("offer_bid")[1].min_bid


def test_the_cheapest_of_equal_chunks_is_kept() -> None:
    row = body("offer_ondemand")["offers"][0]
    rows = [row | {"id": 9}, row | {"id": 5, "min_bid": Decimal("0.1")}, row | {"id": 7, "min_bid": None}]
    offers = mapping.offers(wire.offer_rows(rows)[0], ())
    assert [offer.offer_id for offer in offers] == ["5"]


def test_rows_that_are_no_gpu_offers_are_counted_out() -> None:
    good = body("offer_ondemand")["offers"]
    hostile = body("offer_hostile_disk_row")["offers"]
    rows, skipped = wire.offer_rows([*good, *hostile, None, 3, "x", [], {}])
    assert (len(rows), skipped) == (len(good), 6)


@pytest.mark.parametrize("field", ["storage_cost", "inet_up_cost", "inet_down_cost", "machine_id", "id", "num_gpus"])
@pytest.mark.parametrize("value", [None, "x", -1, {}])
def test_offers_with_unknown_costs_or_identity_are_left_out(field: str, value: object) -> None:
    assert wire.offer_row(body("offer_ondemand")["offers"][0] | {field: value}) is None


def test_numbers_in_strings_and_non_numbers() -> None:
    row = json.loads(json.dumps(body("offer_ondemand")["offers"][0], default=str))
    text = json.dumps(row | {"num_gpus": "1", "min_bid": "0.1333", "dph_base": float("nan"), "inet_down": "Infinity"})
    read = wire.offer_row(values.decode(text))
    assert read is not None
    assert (read.num_gpus, read.min_bid, read.price, read.download_mbps) == (1, Decimal("0.1333"), None, Decimal(0))


def test_prices_are_read_without_a_double_between() -> None:
    decoded = values.decode('{"a": 0.1, "b": 0.30000000000000004, "c": 1e400, "d": 1e99999999999999999999, "e": NaN}')
    assert decoded["a"] == Decimal("0.1")
    assert values.dollars(decoded["b"]) == Decimal("0.3")
    assert [values.number(decoded[name]) for name in "cde"] == [None, None, None]


def test_charges_by_instance_day_and_kind() -> None:
    rows = [row for raw in body("charges")["results"] if (row := wire.charge_row(raw)) is not None]
    first, second = date(2026, 11, 20), date(2026, 11, 19)
    assert mapping.charges(rows, second, first) == (
        Charge("47841147", second, CostKind.STORAGE_RUNNING, Decimal("0.011")),
        Charge("47848147", first, CostKind.BANDWIDTH, Decimal("0.020")),
        Charge("47848147", first, CostKind.COMPUTE, Decimal("0.248")),
        Charge("47848147", first, CostKind.STORAGE_RUNNING, Decimal("0.162")),
    )
    assert {charge.day for charge in mapping.charges(rows, first, first)} == {first}


def test_an_unknown_kind_of_charge_is_not_lost() -> None:
    raw = body("charges")["results"][0]
    raw["items"].append(raw["items"][0] | {"type": "surcharge", "amount": Decimal("0.05")})
    row = wire.charge_row(raw)
    assert row is not None
    charges = mapping.charges([row], date(2026, 11, 1), date(2026, 11, 30))
    assert [(charge.kind, charge.amount) for charge in charges if charge.kind is CostKind.FEE] == [
        (CostKind.FEE, Decimal("0.05"))
    ]
    assert sum(charge.amount for charge in charges) == Decimal("0.48")


def test_a_credit_of_an_unknown_kind_is_not_lost() -> None:
    raw = body("charges")["results"][1]
    raw["items"][0] |= {"type": "surcharge", "amount": Decimal("-0.011")}
    row = wire.charge_row(raw)
    assert row is not None
    (charge,) = mapping.charges([row], date(2026, 11, 1), date(2026, 11, 30))
    assert (charge.kind, charge.amount) == (CostKind.CREDIT, Decimal("-0.011"))


def test_a_kind_of_cost_under_another_name_is_no_fee() -> None:
    for item in range(4):
        raw = body("charges")["results"][0]
        raw["items"][item] |= {"type": "usage", "amount": Decimal("0.1")}
        with pytest.raises(wire.UnreadableRow, match="new type"):
            wire.charge_row(raw)


def test_each_known_type_of_item_has_its_kind_of_cost() -> None:
    for item_type in wire.ITEM_TYPES:
        row = wire.ChargeRow("1", datetime(2026, 11, 20, tzinfo=UTC), ((item_type, Decimal(1)),))
        (charge,) = mapping.charges([row], date(2026, 11, 20), date(2026, 11, 20))
        assert charge.kind not in (CostKind.FEE, CostKind.CREDIT)


def test_charges_of_other_things_are_passed_over() -> None:
    assert wire.charge_row(body("charges")["results"][0] | {"type": "volume", "source": "volume-12"}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"source": None},
        {"source": "instance-x"},
        {"source": "contract-47848147"},
        {"type": None, "source": "contract-47848147"},
        {"start": None},
        {"items": None},
        {"items": [{}]},
    ],
)
def test_a_charge_that_cannot_be_read_is_not_skipped(change: dict[str, Any]) -> None:
    with pytest.raises(wire.UnreadableRow):
        wire.charge_row(body("charges")["results"][0] | change)


@pytest.mark.parametrize(
    ("rate", "num_gpus", "bid"),
    [
        ("0.1333", 1, "0.134"),
        ("0.31", 1, "0.31"),
        ("0.3100000001", 1, "0.311"),
        ("0", 1, "0.001"),
        ("-3", 1, "0.001"),
        ("40", 1, "32"),
        ("40", 2, "40"),
        ("300", 8, "128"),
        ("300", None, "128"),
    ],
)
def test_bids_are_rounded_up_and_kept_in_bounds(rate: str, num_gpus: int | None, bid: str) -> None:
    assert mapping.bid_for(Decimal(rate), num_gpus) == Decimal(bid)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def hostile(row: dict[str, Any]) -> st.SearchStrategy[str]:
    """The row's JSON text with any of its fields replaced by any JSON value."""
    plain = json.loads(json.dumps(row, default=str))
    changes = st.dictionaries(st.sampled_from(sorted(plain)), json_values, max_size=8)
    return changes.map(lambda change: json.dumps(plain | change))


@given(hostile(body("offer_ondemand")["offers"][0]))
def test_hostile_offers_never_raise(text: str) -> None:
    row = wire.offer_row(values.decode(text))
    if row is not None:
        for offer in mapping.offers([row], [row]):
            assert offer.num_gpus >= 1
            for price in (offer.floor, offer.on_demand_price, offer.storage_price):
                assert price is None or to_nano(price) >= 0


@given(hostile(body("instance_running_bid")["instances"]))
def test_hostile_instances_are_read_or_named_unreadable(text: str) -> None:
    try:
        row = wire.instance_row(values.decode(text))
    except wire.UnreadableRow:
        return
    instance = mapping.instance(row)
    assert to_nano(instance.bid) >= 0
    assert to_nano(instance.storage_rate) >= 0
    assert instance.label.encode().decode() == instance.label


@given(hostile(body("charges")["results"][0]))
def test_hostile_charges_are_read_or_named_unreadable(text: str) -> None:
    try:
        row = wire.charge_row(values.decode(text))
    except wire.UnreadableRow:
        return
    if row is not None:
        mapping.charges([row], date.min, date.max)


@given(st.text() | json_values.map(json.dumps))
def test_any_text_decodes_or_is_named_unreadable(text: str) -> None:
    try:
        decoded = values.decode(text)
    except values.Unreadable:
        return
    readers: tuple[Callable[[object], object], ...] = (
        *(values.number, values.dollars, values.price, values.integer, values.identifier, values.text),
        *(values.boolean, values.instant, values.label, values.mapping),
    )
    for read in readers:
        read(decoded)


@given(st.from_regex(r"-?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,25})?", fullmatch=True))
def test_any_number_reads_or_not(literal: str) -> None:
    for value in (literal, values._decimal(literal)):
        for read in (values.number, values.dollars, values.integer, values.identifier, values.instant):
            read(value)


def running(**changes: Any) -> dict[str, Any]:
    return {**body("instance_running_bid")["instances"], **changes}


def addresses(row: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each.host, each.port) for each in mapping.instance(wire.instance_row(row)).ssh]


def test_a_machine_is_logged_in_to_at_its_own_address_or_at_the_market_s_proxy() -> None:
    assert addresses(running()) == [("203.0.113.42", 40122), ("ssh5.vast.ai", 18146)]
    assert addresses(running(ports=None)) == [("ssh5.vast.ai", 18146)]
    assert addresses(running(ports={}, public_ipaddr=" 203.0.113.42\n")) == [("ssh5.vast.ai", 18146)]
    assert addresses(running(actual_status="exited")) == []


@pytest.mark.parametrize(
    "host", ["", "-oProxyCommand=touch /tmp/x", "a b", "host;id", "root@host", None, 7, "é.example"]
)
def test_an_address_that_could_be_anything_else_is_none(host: object) -> None:
    assert addresses(running(ports=None, ssh_host=host)) == []
    assert addresses(running(public_ipaddr=host)) == [("ssh5.vast.ai", 18146)]


@pytest.mark.parametrize("port", [None, 0, -1, 65_536, "x", 1.5, True])
def test_a_port_that_is_none_is_no_address(port: object) -> None:
    assert addresses(running(ports=None, ssh_port=port)) == []
    assert addresses(running(ports={"22/tcp": [{"HostPort": port}]})) == [("ssh5.vast.ai", 18146)]
    assert addresses(running(ports={"22/tcp": port})) == [("ssh5.vast.ai", 18146)]
