"""The emulator's machines over time: they start, are warned, come back, move, and cost the price of each round."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot_lab.sandbox.host_traits import Boot, HostTraits, Truth
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.mithril.bids import Bid, BidOrder, BidStatus, MachineStatus
from autopilot_lab.sandbox.mithril.lifecycle import NoMachines, Timings
from autopilot_lab.sandbox.mithril.market import MithrilMarket, MithrilRefused
from autopilot_lab.sandbox.mithril.pools import AuctionPoolSpec, TypeSpec

D = Decimal
START = datetime(2026, 1, 1, tzinfo=UTC)
KIND = TypeSpec("it_x", "a100-80gb.sxm.1x", "a100-80gb", "sxm", 1, 80, 16, 200, 1000)
POOL = AuctionPoolSpec("us-x", KIND, 1, D("1.00"))
ORDER = BidOrder("mine", "proj", "us-x", "it_x", D("2.00"), 1, ("sshkey_sandbox",), "#!/bin/sh\n")


class Told(NoMachines):
    """What a machine would have been told."""

    def __init__(self) -> None:
        self.notices: list[tuple[str, str, float] | None] = []

    def warn(self, bid: Bid, status: MachineStatus, bid_status: str, in_s: float) -> None:
        self.notices.append((str(status), bid_status, in_s))

    def withdraw(self, bid: Bid) -> None:
        self.notices.append(None)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def market(told: Told) -> MithrilMarket:
    return MithrilMarket([POOL], START, seed=1, timings=Timings(), machines=told)


def after(market: MithrilMarket, seconds: float) -> None:
    market.advance_to(START + timedelta(seconds=seconds))


def status(bid: Bid) -> tuple[BidStatus, MachineStatus | None]:
    return bid.status, None if bid.machine is None else bid.machine.status


def rival(market: MithrilMarket, limit: str, stay_s: float | None = None) -> None:
    market.add_rival(market.pools["us-x", "it_x"], D(limit), 1, stay_s)


def test_a_bid_waits_for_the_next_round_and_its_machine_starts_free_of_charge(market: MithrilMarket) -> None:
    bid = market.place(ORDER, "key")
    after(market, 119)
    assert status(bid) == (BidStatus.OPEN, None)
    after(market, 120)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.STARTING)
    after(market, 180)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)
    assert bid.meter.total(market.now) == 0
    after(market, 180 + 3600)
    assert to_decimal(bid.meter.total(market.now), D("0.01")) == D("1.00")


def test_it_pays_the_price_of_each_round_and_not_its_limit(market: MithrilMarket) -> None:
    bid = market.place(ORDER, None)
    after(market, 180)
    rival(market, "1.60")
    after(market, 240 + 3600)
    paid = to_decimal(bid.meter.total(market.now), D("0.0001"))
    assert paid == ((D(60) * D("1.00") + D(3600) * D("1.60")) / 3600).quantize(D("0.0001"))


def test_an_outbid_machine_is_warned_stopped_and_comes_back_by_itself(market: MithrilMarket, told: Told) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    rival(market, "3.00", stay_s=1000)
    after(market, 240)
    assert status(bid) == (BidStatus.PREEMPTING, MachineStatus.PREEMPTING)
    assert told.notices == [("PREEMPTING", "Preempting", 300.0)]
    after(market, 540)
    assert status(bid) == (BidStatus.OPEN, MachineStatus.PREEMPTED)
    machine = bid.machine
    paid = bid.meter.total(market.now)
    after(market, 1210)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.STARTING)
    assert bid.meter.total(market.now) == paid
    after(market, 1400)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)
    assert bid.machine is machine
    assert bid.boots == 2


def test_a_bid_that_wins_again_within_the_window_goes_on_without_a_stop(market: MithrilMarket, told: Told) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    rival(market, "3.00", stay_s=100)
    after(market, 240)
    assert bid.status is BidStatus.PREEMPTING
    after(market, 2000)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)
    assert bid.boots == 1
    assert told.notices[-1] is None


def test_a_raise_within_the_window_saves_the_machine(market: MithrilMarket) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    rival(market, "3.00")
    after(market, 250)
    market.change_limit(bid, D("3.10"))
    after(market, 700)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)
    assert market.pools["us-x", "it_x"].cleared.price == D("3.00")


def test_it_never_pays_more_than_its_limit_while_it_is_warned(market: MithrilMarket) -> None:
    bid = market.place(ORDER, None)
    after(market, 240)
    rival(market, "9.00")
    rival(market, "8.00")
    after(market, 360)
    before = bid.meter.total(market.now)
    after(market, 660)
    assert bid.meter.total(market.now) - before == 300 * D("2.00") / 3600 or bid.status is BidStatus.OPEN
    assert to_decimal(bid.meter.total(market.now) - before, D("0.0001")) == D("0.1667")


def test_a_machine_is_moved_under_the_same_bid(market: MithrilMarket, told: Told) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    market.lifecycle.relocate(bid)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RELOCATING)
    assert told.notices == [("RELOCATING", "Relocating", 300.0)]
    after(market, 501)
    assert [machine.status for machine in bid.machines] == [MachineStatus.REPLACED, MachineStatus.STARTING]
    after(market, 610)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)


def test_a_pause_while_it_is_warned_holds(market: MithrilMarket) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    rival(market, "3.00")
    after(market, 250)
    market.pause(bid)
    after(market, 2000)
    assert status(bid) == (BidStatus.PAUSED, MachineStatus.PAUSED)
    market.resume(bid)
    assert bid.status is BidStatus.OPEN


def test_the_same_key_brings_the_same_bid(market: MithrilMarket) -> None:
    assert market.place(ORDER, "key") is market.place(ORDER, "key")
    with pytest.raises(MithrilRefused, match="idempotency key"):
        market.place(replace(ORDER, name="other"), "key")
    with pytest.raises(MithrilRefused, match="name already used"):
        market.place(ORDER, "another key")


@pytest.mark.parametrize(
    ("change", "status_code"),
    [
        ({"limit": D("0.99")}, 400),
        ({"ssh_keys": ()}, 400),
        ({"startup_script": "x" * 10_001}, 422),
        ({"region": "nowhere"}, 422),
    ],
)
def test_what_is_refused(market: MithrilMarket, change: dict[str, Any], status_code: int) -> None:
    with pytest.raises(MithrilRefused) as refused:
        market.place(replace(ORDER, **change), None)
    assert refused.value.status == status_code
    assert market.bids == {}


def test_an_ended_bid_wins_nothing_any_more(market: MithrilMarket) -> None:
    bid = market.place(ORDER, None)
    after(market, 200)
    market.end(bid)
    paid = bid.meter.total(market.now)
    after(market, 5000)
    assert bid.status is BidStatus.TERMINATED
    assert bid.machine is None
    assert bid.meter.total(market.now) == paid


def with_hosts(told: NoMachines, *boots: Boot) -> MithrilMarket:
    hosts = tuple(HostTraits(truth=Truth(boot)) for boot in boots)
    return MithrilMarket([replace(POOL, hosts=hosts)], START, seed=1, timings=Timings(), machines=told)


def test_on_a_host_that_never_gets_through_a_machine_starts_for_ever_and_free_of_charge() -> None:
    market = with_hosts(NoMachines(), Boot.FOR_EVER)
    bid = market.place(ORDER, "key")
    after(market, 7200)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.STARTING)
    assert bid.meter.total(market.now) == 0
    market.pools["us-x", "it_x"].hosts.replace_all(())
    market.lifecycle.stop(bid, MachineStatus.PREEMPTED)
    assert bid.machine is not None
    assert bid.machine.host.is_dud, "a machine stays where it is"


def test_each_launch_gets_a_host_of_the_pool_s_own_choice() -> None:
    drawn = []
    for _ in range(2):
        market = with_hosts(NoMachines(), *Boot)
        bid = market.place(ORDER, "key")
        drawn.append([market.draw_host(bid).truth.boots for _ in range(20)])
    assert drawn[0] == drawn[1], "by the seed"
    assert set(drawn[0]) == set(Boot)


def test_without_a_network_nothing_is_started_on_a_machine_that_runs_and_bills() -> None:
    class Started(NoMachines):
        def start(self, bid: Bid) -> None:
            raise AssertionError("nothing comes of its user data")

    market = with_hosts(Started(), Boot.NO_NETWORK)
    bid = market.place(ORDER, "key")
    after(market, 180 + 3600)
    assert status(bid) == (BidStatus.ALLOCATED, MachineStatus.RUNNING)
    assert bid.meter.total(market.now) > 0
