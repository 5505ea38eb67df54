"""Recorded and hostile bodies → records → the domain's values."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.domain.instance import Charge, CostKind, InstanceStatus
from autopilot.domain.money import to_nano
from autopilot.domain.offer import CapacityType, Offer
from autopilot.providers import values
from autopilot.providers.runpod import mapping, wire
from autopilot.providers.runpod.runtimes import UP, Runtimes
from tests.unit.providers_runpod.runpod_samples import body

STARTED = datetime(2026, 11, 21, 3, 0, 0, 123_000, tzinfo=UTC)
DAY = date(2026, 11, 21)


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = body(f"graphql/{name}")["data"]["pod"]
    return found


def status(row: wire.PodRow, runtimes: Runtimes, minute: int) -> InstanceStatus:
    """So many minutes after the recorded start."""
    return mapping.status(row, runtimes.silence(row, STARTED + timedelta(minutes=minute)))


def market(num_gpus: int = 1) -> list[wire.PriceRow]:
    gpus = body("graphql/gpuTypes_market.response")["data"]["gpuTypes"]
    return [row for gpu in gpus for row in wire.price_rows(gpu, num_gpus)]


def offers(*, spot: bool = True) -> list[Offer]:
    made = (mapping.offer(row, row.gpu.name, Decimal(1000), spot=spot) for row in market())
    return [offer for offer in made if offer is not None]


@pytest.mark.parametrize(
    ("sample", "status", "intended_running"),
    [
        ("pod_running", InstanceStatus.RUNNING, True),
        ("pod_running_sweep_fields", InstanceStatus.RUNNING, True),
        ("pod_initializing", InstanceStatus.PROVISIONING, True),
        ("pod_exited_outbid", InstanceStatus.STOPPED, False),
        ("pod_exited_by_user", InstanceStatus.STOPPED, False),
        ("pod_exited_by_runpod", InstanceStatus.STOPPED, False),
    ],
)
def test_status_of_each_recorded_situation(sample: str, status: InstanceStatus, intended_running: bool) -> None:
    row = wire.pod_row(pod(sample))
    instance = mapping.instance(row, UP if row.is_up else None)
    assert (instance.status, instance.intended_running) == (status, intended_running)


@pytest.mark.parametrize(
    ("sample", "change", "failed"),
    [
        ("pod_exited_by_runpod", {}, True),
        ("pod_exited_by_runpod", {"podType": "RESERVED"}, True),
        ("pod_exited_by_runpod", {"lastStatusChange": "Exited by RunPod: Sat Nov 21 2026"}, True),
        ("pod_exited_by_runpod", {"lastStatusChange": "Exited by Runpod: Sat: Insufficient balance"}, False),
        ("pod_exited_by_runpod", {"runtime": {"uptimeInSeconds": 5}}, False),
        ("pod_exited_by_runpod", {"lastStatusChange": None}, False),
        ("pod_exited_outbid", {}, False),
        ("pod_exited_by_user", {}, False),
        ("pod_initializing", {}, False),
        ("pod_running", {}, False),
    ],
)
def test_which_stopped_pods_did_not_come_up(sample: str, change: dict[str, Any], failed: bool) -> None:
    # If they never ran: that is for others to know.
    assert mapping.start_failed(wire.pod_row(pod(sample) | {"runtime": None} | change)) is failed


@pytest.mark.parametrize(
    ("status", "env", "failed"),
    [
        ("EXITED", {}, True),
        ("EXITED", {wire.CAPACITY_VARIABLE: wire.SPOT_WORD}, False),
        ("ERROR", {wire.CAPACITY_VARIABLE: wire.SPOT_WORD}, True),
        ("RUNNING", {}, False),
    ],
)
def test_rest_has_no_words_for_an_end_but_on_demand_is_not_outbid(
    status: str, env: dict[str, str], failed: bool
) -> None:
    row = wire.rest_pod_row(body("rest_v2/pod_exited") | {"status": status, "env": env})
    assert mapping.instance(row, None).start_failed is failed


def test_a_recorded_pod() -> None:
    instance = mapping.instance(wire.pod_row(pod("pod_running_sweep_fields")), UP)
    assert instance.instance_id == "fkjbybgpwuvmhk"
    assert instance.label == "ap-7f3c2a-a1"
    assert instance.machine_id == "NVIDIA RTX A4000/COMMUNITY/-"
    assert instance.host_id == "hpvdausak8xb"
    assert instance.capacity_type is CapacityType.SPOT
    assert instance.bid == Decimal("0.22")
    assert instance.storage_rate == Decimal("0.005555556")  # 40 GB at 0.10 over 720 h
    assert (instance.gpu, instance.num_gpus) == ("RTX A4000", 1)
    assert instance.message.startswith("Rented by User: ")


def test_a_stopped_pod_pays_for_its_volume_at_twice_the_price() -> None:
    instance = mapping.instance(wire.pod_row(pod("pod_exited_outbid")), UP)
    assert instance.storage_rate == Decimal("0.005555556")  # 20 GB at 0.20 over 720 h, no container disk
    assert instance.message.startswith("Outbid: ")


def test_a_runtime_that_goes_missing() -> None:
    up, silent = (wire.pod_row(pod("pod_running_sweep_fields") | change) for change in ({}, {"runtime": None}))
    runtimes = Runtimes()
    assert status(silent, runtimes, 0) is InstanceStatus.PROVISIONING
    assert status(up, runtimes, 1) is InstanceStatus.RUNNING
    assert status(silent, runtimes, 10) is InstanceStatus.RUNNING
    assert status(silent, runtimes, 14) is InstanceStatus.RUNNING
    assert status(silent, runtimes, 15) is InstanceStatus.OFFLINE
    assert status(up, runtimes, 16) is InstanceStatus.RUNNING
    assert status(silent, runtimes, 17) is InstanceStatus.RUNNING


def test_a_pod_without_a_runtime_from_before_we_looked() -> None:
    silent, runtimes = wire.pod_row(pod("pod_running_sweep_fields") | {"runtime": None}), Runtimes()
    assert status(silent, runtimes, 59) is InstanceStatus.PROVISIONING
    assert status(silent, runtimes, 60) is InstanceStatus.RUNNING
    assert status(silent, runtimes, 65) is InstanceStatus.OFFLINE


def test_a_restart_boots_again_and_a_removed_pod_is_forgotten() -> None:
    runtimes = Runtimes()
    up = wire.pod_row(pod("pod_running_sweep_fields"))
    assert status(up, runtimes, 1) is InstanceStatus.RUNNING
    assert up.started_at is not None
    restarted = replace(up, is_up=False, started_at=up.started_at + timedelta(minutes=2))
    assert status(restarted, runtimes, 3) is InstanceStatus.PROVISIONING
    runtimes.forget_others([restarted])
    assert status(replace(up, is_up=False), runtimes, 3) is InstanceStatus.PROVISIONING


def test_the_runtime_of_a_stopped_pod_is_not_believed() -> None:
    row = wire.pod_row(pod("pod_running") | {"desiredStatus": "EXITED"})
    assert mapping.status(row, UP) is InstanceStatus.STOPPED


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("CREATED", InstanceStatus.PROVISIONING),
        ("RESTARTING", InstanceStatus.PROVISIONING),
        ("PAUSED", InstanceStatus.STOPPED),
        ("DEAD", InstanceStatus.OFFLINE),
    ],
)
def test_states_that_are_documented_but_not_seen(word: str, status: InstanceStatus) -> None:
    row = wire.pod_row(pod("pod_running") | {"desiredStatus": word})
    assert mapping.status(row, UP) is status


@pytest.mark.parametrize(("kind", "is_spot"), [("INTERRUPTABLE", True), ("BID", True), ("RESERVED", False)])
def test_kinds_of_pods(kind: str, is_spot: bool) -> None:
    assert wire.pod_row(pod("pod_running") | {"podType": kind}).is_spot is is_spot


@pytest.mark.parametrize(
    "missing",
    [
        {"id": None},
        {"id": 'a"b'},
        {"podType": None},
        {"desiredStatus": None},
        {"desiredStatus": ""},
        {"costPerHr": None},
        {"costPerHr": -1},
        {"runtime": "up"},
        {"runtime": []},
    ],
)
def test_a_pod_of_which_too_little_is_known_is_not_skipped(missing: dict[str, Any]) -> None:
    with pytest.raises(wire.UnreadableRow):
        wire.pod_row(pod("pod_running") | missing)


@pytest.mark.parametrize("runtime", [None, {"uptimeInSeconds": 7}])
def test_a_pod_in_an_unknown_state_counts_as_running(runtime: dict[str, int] | None) -> None:
    told = wire.pod_row(pod("pod_running") | {"desiredStatus": "FROZEN", "runtime": runtime})
    by_rest = wire.rest_pod_row(body("rest_v2/pod_running") | {"status": "FROZEN"})
    for row in (told, by_rest):
        shown = mapping.instance(row, None)
        assert shown.status is InstanceStatus.RUNNING
        assert shown.intended_running
        assert shown.bills > 0


def test_a_pod_of_whose_runtime_nothing_is_said_is_not_taken_for_one_that_is_lost() -> None:
    row = dict(pod("pod_running"))
    assert wire.pod_row(row | {"runtime": None}).is_up is False
    del row["runtime"]
    with pytest.raises(wire.UnreadableRow):
        wire.pod_row(row)


@pytest.mark.parametrize(
    ("sample", "status", "rate"),
    [
        ("pod_provisioning", InstanceStatus.PROVISIONING, "0.44"),
        ("pod_running", InstanceStatus.RUNNING, "0.44"),
        ("pod_exited", InstanceStatus.STOPPED, "0"),
    ],
)
def test_pods_by_rest(sample: str, status: InstanceStatus, rate: str) -> None:
    instance = mapping.instance(wire.rest_pod_row(body(f"rest_v2/{sample}")), UP)
    assert (instance.status, instance.bid) == (status, Decimal(rate))
    assert instance.capacity_type is CapacityType.ON_DEMAND
    assert instance.machine_id == "NVIDIA GeForce RTX 4090/SECURE/-"
    running_gb, stopped_gb = Decimal(70) / 10, Decimal(20) / 5
    expected = stopped_gb if status is InstanceStatus.STOPPED else running_gb
    assert abs(instance.storage_rate - expected / 720) < Decimal("1e-8")


def test_rest_knows_our_spot_pods_by_their_environment() -> None:
    row = body("rest_v2/pod_running") | {"env": {wire.CAPACITY_VARIABLE: str(CapacityType.SPOT)}}
    assert wire.rest_pod_row(row).is_spot


def test_a_rest_pod_without_an_environment_could_be_either_kind() -> None:
    row = dict(body("rest_v2/pod_running"))
    assert not wire.rest_pod_row(row | {"env": None}).is_spot
    del row["env"]
    with pytest.raises(wire.UnreadableRow):
        wire.rest_pod_row(row)


@pytest.mark.parametrize("missing", [{"id": None}, {"status": None}, {"cost": None}, {"env": ["A=b"]}])
def test_a_rest_pod_of_which_too_little_is_known(missing: dict[str, Any]) -> None:
    with pytest.raises(wire.UnreadableRow):
        wire.rest_pod_row(body("rest_v2/pod_running") | missing)


def test_offers_of_the_recorded_market() -> None:
    found = {offer.offer_id: offer for offer in offers()}
    assert set(found) == {
        "NVIDIA RTX A4000/SECURE/1",
        "NVIDIA RTX A4000/COMMUNITY/1",
        "NVIDIA A100 80GB PCIe/SECURE/1",
    }
    community = found["NVIDIA RTX A4000/COMMUNITY/1"]
    assert (community.floor, community.on_demand_price) == (Decimal("0.16"), Decimal("0.24"))
    assert community.machine_id == "NVIDIA RTX A4000/COMMUNITY/-"
    assert (community.verified, community.datacenter) == (True, False)
    assert (community.storage_price, community.vram_gb) == (Decimal("0.10"), Decimal(16))
    reserved = found["NVIDIA A100 80GB PCIe/SECURE/1"]
    assert (reserved.floor, reserved.on_demand_price, reserved.datacenter) == (None, Decimal("1.64"), True)


def test_without_spot_there_are_no_floors() -> None:
    assert {offer.floor for offer in offers(spot=False)} == {None}
    floor_only = wire.PriceRow(market()[0].gpu, "SECURE", 1, Decimal("0.2"), None, None, None)
    assert mapping.offer(floor_only, "x", Decimal(1), spot=False) is None


def test_out_of_stock_is_not_offered() -> None:
    gpu = body("graphql/gpuTypes_market.response")["data"]["gpuTypes"][0]
    gpu["community"]["stockStatus"] = "None"
    assert [row.cloud for row in wire.price_rows(gpu, 1)] == ["SECURE"]


def prices(num_gpus: int, floor: str | None, on_demand: str | None) -> Offer | None:
    gpu = wire.GpuRow("G", "G", Decimal(16))
    row = wire.PriceRow(
        gpu,
        "COMMUNITY",
        num_gpus,
        None if floor is None else Decimal(floor),
        None if on_demand is None else Decimal(on_demand),
        list_price=Decimal("0.24"),
        list_spot_price=Decimal("0.16"),
    )
    return mapping.offer(row, "G", Decimal(1), spot=True)


@pytest.mark.parametrize(
    ("num_gpus", "floor", "on_demand", "expected"),
    [
        (4, "0.64", "0.96", ("0.64", "0.96")),
        (4, "0.16", "0.24", ("0.64", "0.96")),
        (4, "0.17", "0.26", ("0.68", "1.04")),
        (2, "0.16", None, ("0.32", None)),
        (2, "0.32", None, ("0.32", None)),
        (1, "0.16", "0.24", ("0.16", "0.24")),
    ],
)
def test_prices_are_of_the_whole_pod_and_checked_to_be(
    num_gpus: int, floor: str, on_demand: str | None, expected: tuple[str, str | None]
) -> None:
    offer = prices(num_gpus, floor, on_demand)
    assert offer is not None
    stated = None if offer.on_demand_price is None else str(offer.on_demand_price)
    assert (str(offer.floor), stated) == expected


@given(st.decimals("0.001", "100", places=3), st.integers(1, 16))
def test_a_bid_per_gpu_never_falls_short_of_the_whole(bid: Decimal, num_gpus: int) -> None:
    whole = mapping.whole_bid(bid, num_gpus)
    assert bid <= whole <= bid + num_gpus * mapping.BID_STEP
    assert mapping.whole_bid(whole, num_gpus) == whole
    assert Decimal(str(float(mapping.bid_per_gpu(bid, num_gpus)))) * num_gpus == whole
    to_nano(whole)


def test_offer_ids_name_the_pool_and_the_count() -> None:
    identifier = mapping.offer_id("NVIDIA A100 80GB PCIe", "SECURE", 8)
    assert mapping.pool_of_offer(identifier) == mapping.Pool("NVIDIA A100 80GB PCIe", "SECURE", 8)
    assert mapping.pool_of_offer("odd/name/COMMUNITY/1") == mapping.Pool("odd/name", "COMMUNITY", 1)


@pytest.mark.parametrize(
    "wrong", ["", "111", "X/SECURE", "X/ALL/1", "X/SECURE/0", "X/SECURE/-1", "/SECURE/1", "X/SECURE/٣"]
)
def test_what_is_no_offer_id(wrong: str) -> None:
    with pytest.raises(ValueError, match="not an offer id"):
        mapping.pool_of_offer(wrong)


def test_the_recorded_catalogue_of_rest() -> None:
    (gpu,) = body("rest_v2/catalog_gpus")["gpus"]
    row = wire.rest_price_row(gpu, "COMMUNITY", 2)
    assert row is not None
    offer = mapping.offer(row, "RTX 4090", Decimal(1000), spot=True)
    assert offer is not None
    assert (offer.floor, offer.on_demand_price) == (None, Decimal("0.62"))
    assert wire.rest_price_row(gpu, "COMMUNITY", 5) is None
    assert wire.rest_price_row(gpu, "SECURE", 5) is not None
    assert wire.rest_price_row(gpu | {"availability": "NONE"}, "SECURE", 1) is None
    assert wire.rest_price_row(gpu | {"secure": False}, "SECURE", 1) is None


def test_the_recorded_bill() -> None:
    rows = [wire.bill_row(row) for row in body("rest_v2/billing_pods")["records"]]
    day = date(2026, 6, 1)
    assert mapping.charges(rows, day, day) == (
        Charge("7h9k2m4n6p", day, CostKind.COMPUTE, Decimal("11.10")),
        Charge("7h9k2m4n6p", day, CostKind.STORAGE_RUNNING, Decimal("1.24")),
    )
    assert mapping.charges(rows, DAY, DAY) == ()


def test_bills_add_up_per_day_and_nothing_is_no_charge() -> None:
    rows = [wire.BillRow("a", DAY, Decimal("0.5"), Decimal(0)), wire.BillRow("a", DAY, Decimal("0.25"), Decimal(0))]
    assert mapping.charges(rows, DAY, DAY) == (Charge("a", DAY, CostKind.COMPUTE, Decimal("0.75")),)


@pytest.mark.parametrize("missing", [{"podId": None}, {"startTime": "?"}, {"totalAmount": None}, {"diskAmount": "x"}])
def test_a_bill_that_cannot_be_read(missing: dict[str, Any]) -> None:
    (record,) = body("rest_v2/billing_pods")["records"]
    with pytest.raises(wire.UnreadableRow):
        wire.bill_row(record | missing)


hostile = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats().map(str)
    | st.text(max_size=12)
    | st.sampled_from(["RUNNING", "EXITED", "INTERRUPTABLE", "2026-11-21T03:00:00Z", "0.3", "1e400", "-0"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=5,
)


def spoilt(sample: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The sample with some of its fields replaced by anything, as it comes out of the decoder."""
    some = st.dictionaries(st.sampled_from(sorted(sample)), hostile, max_size=6)
    return some.map(lambda changes: values.decode(json.dumps(sample | changes, default=str)))


@given(spoilt(pod("pod_running_sweep_fields")))
def test_a_hostile_pod_is_read_or_refused(raw: dict[str, Any]) -> None:
    try:
        row = wire.pod_row(raw)
    except wire.UnreadableRow:
        return
    instance = mapping.instance(row, UP)
    assert to_nano(instance.bid) >= 0
    assert to_nano(instance.storage_rate) >= 0
    json.dumps(instance.label).encode()


@given(spoilt(body("rest_v2/pod_running")))
def test_a_hostile_rest_pod_is_read_or_refused(raw: dict[str, Any]) -> None:
    try:
        row = wire.rest_pod_row(raw)
    except wire.UnreadableRow:
        return
    assert to_nano(mapping.instance(row, UP).bid) >= 0


@given(spoilt(body("graphql/gpuTypes_market.response")["data"]["gpuTypes"][0]), st.integers(1, 8))
def test_a_hostile_price_is_sane_or_left_out(raw: dict[str, Any], num_gpus: int) -> None:
    for row in wire.price_rows(raw, num_gpus):
        offer = mapping.offer(row, "x", Decimal(1), spot=True)
        assert offer is not None
        assert all(price is None or to_nano(price) > 0 for price in (offer.floor, offer.on_demand_price))


@given(spoilt(body("rest_v2/catalog_gpus")["gpus"][0]))
def test_a_hostile_catalogue_is_sane_or_left_out(raw: dict[str, Any]) -> None:
    row = wire.rest_price_row(raw, "SECURE", 2)
    assert row is None or (row.on_demand is not None and row.on_demand > 0)


@given(spoilt(body("rest_v2/billing_pods")["records"][0]))
def test_a_hostile_bill_is_read_or_refused(raw: dict[str, Any]) -> None:
    try:
        row = wire.bill_row(raw)
    except wire.UnreadableRow:
        return
    assert to_nano(row.compute + row.storage) is not None
