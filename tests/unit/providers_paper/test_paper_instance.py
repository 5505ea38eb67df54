"""A simulated instance: when it runs, why it stops, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot.domain.errors import UserError
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.offer import CapacityType, OfferQuery
from autopilot.providers.paper import books
from autopilot.providers.paper.agent import AgentMemory
from autopilot.providers.paper.instance import PaperInstance

D = Decimal
START = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
LOAD = timedelta(seconds=30)
QUERY = OfferQuery((("RTX 4090", 1),), D(20), D(40), verified_only=True, datacenter_only=False)
RUNNING, STOPPED, PROVISIONING = InstanceStatus.RUNNING, InstanceStatus.STOPPED, InstanceStatus.PROVISIONING


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def created(**changes: Any) -> PaperInstance:
    """Bids $0.30/h on a floor of $0.20/h, pays $0.01/h for its disk, loads for 4 minutes."""
    instance = PaperInstance(
        instance_id="paper-1",
        label="ap1.install.lease",
        machine_id="7",
        host_id="3",
        gpu="RTX 4090",
        num_gpus=1,
        ends_at=None,
        query=QUERY,
        capacity_type=CapacityType.SPOT,
        bid=D("0.30"),
        storage_rate=D("0.01"),
        floor=D("0.20"),
        ready_at=at(240),
        agent=AgentMemory("http://127.0.0.1:1/orders"),
    )
    return replace(instance, **changes).as_created(START)


def priced(instance: PaperInstance, seconds: float, bid: str = "0.30", floor: str = "0.20") -> PaperInstance:
    return instance.reprice(at(seconds), LOAD, bid=D(bid), floor=D(floor))


def cost(instance: PaperInstance, seconds: float, kind: CostKind) -> Decimal:
    return sum((c.amount for c in instance.charges(at(seconds)) if c.kind is kind), D(0))


def test_it_runs_from_the_instant_at_which_it_is_loaded() -> None:
    instance = created()
    assert instance.grow(at(239)).status is PROVISIONING
    late = instance.grow(at(1000))
    assert (late.status, late.booted_at, late.boots) == (RUNNING, at(240), 1)
    assert late.grow(at(2000)) == late
    assert cost(late, 240 + 3600, CostKind.COMPUTE) == D("0.30")
    assert cost(late, 3600, CostKind.STORAGE_RUNNING) == D("0.01")


def test_outbid_it_pauses_and_only_its_disk_bills() -> None:
    paused = priced(created(), 240 + 3600, floor="0.31")
    assert paused.status is STOPPED
    assert not paused.show("paper-x").intended_running
    assert cost(paused, 240 + 7200, CostKind.COMPUTE) == D("0.30")
    assert cost(paused, 7200, CostKind.STORAGE_RUNNING) == D("0.02")


def test_a_bid_at_the_floor_still_runs() -> None:
    assert priced(created(), 300, floor="0.30").status is RUNNING


@pytest.mark.parametrize(("bid", "floor"), [("0.30", "0.25"), ("0.40", "0.35")])
def test_it_loads_again_when_the_floor_falls_or_the_bid_rises(bid: str, floor: str) -> None:
    back = priced(priced(created(), 300, floor="0.35"), 400, bid=bid, floor=floor)
    assert (back.status, back.ready_at) == (PROVISIONING, at(430))
    assert (back.grow(at(430)).status, back.grow(at(430)).boots) == (RUNNING, 2)


def test_a_new_bid_bills_from_its_own_instant() -> None:
    raised = priced(created(), 240 + 3600, bid="0.60")
    assert cost(raised, 240 + 7200, CostKind.COMPUTE) == D("0.90")
    assert len(raised.spans) == 3


def test_a_stop_of_ours_holds_at_any_price_until_we_start_it() -> None:
    halted = created().halt(at(300), LOAD)
    assert priced(halted, 400, bid="0.90").status is STOPPED
    assert halted.restart(at(500), LOAD).status is PROVISIONING


def test_a_start_that_the_price_forbids_waits_for_it() -> None:
    queued = priced(created(), 300, floor="0.50").restart(at(400), LOAD)
    assert queued.status is STOPPED
    assert queued.show("paper-x").intended_running
    back = priced(queued, 500)
    assert (back.status, back.start_queued) == (PROVISIONING, False)


def test_on_demand_is_never_outbid() -> None:
    assert not created(capacity_type=CapacityType.ON_DEMAND, floor=None).grow(at(300)).is_outbid


def test_charges_are_cut_at_midnight_and_end_with_the_destroy() -> None:
    gone = created().destroy(at(4 * 3600))
    later = list(gone.charges(at(9 * 3600)))
    assert later == list(gone.charges(at(4 * 3600)))
    assert {charge.day.day for charge in later} == {20, 21}
    midnight = {c.day.day: c.amount for c in later if c.kind is CostKind.COMPUTE}
    assert midnight == {20: D("0.58"), 21: D("0.60")}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "paper.json"
    assert books.load(path) == {}
    instance = priced(created(), 5000, floor="0.9").destroy(at(6000))
    worked = replace(instance, agent=replace(instance.agent, looked_at=at(5), saved_as=(3, 4), done_s=1.5))
    books.save(path, {"paper-1": worked})
    assert books.load(path) == {"paper-1": worked}


@pytest.mark.parametrize("text", ["", "{", '{"paper-1": {}}', "[]"])
def test_a_state_file_that_is_none_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "paper.json"
    path.write_text(text)
    with pytest.raises(UserError, match="delete the file"):
        books.load(path)
