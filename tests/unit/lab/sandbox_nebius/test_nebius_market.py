"""Nebius's emulator by itself: prices by the quarter of an hour, and who loses hardware first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from autopilot_lab.sandbox.host_traits import Boot, HostTraits, Truth
from autopilot_lab.sandbox.nebius.catalogue import H200, PROJECTS
from autopilot_lab.sandbox.nebius.lifecycle import NoMachines, Timings
from autopilot_lab.sandbox.nebius.market import DISK_PER_GB_H, NebiusMarket
from autopilot_lab.sandbox.nebius.pools import NebiusPool, PoolSpec
from autopilot_lab.sandbox.nebius.refusals import NebiusRefused
from autopilot_lab.sandbox.nebius.vms import Vm, VmOrder, VmState

D = Decimal
START = datetime(2026, 1, 1, 0, 4, tzinfo=UTC)
PROJECT = PROJECTS["eu-north1"]


@pytest.fixture
def market() -> NebiusMarket:
    spec = PoolSpec("eu-north1", H200, D("2.00"), 2)
    return NebiusMarket([spec], START, seed=1, timings=Timings(), machines=NoMachines())


def pool_of(market: NebiusMarket) -> NebiusPool:
    (pool,) = market.pools.values()
    return pool


def wait(market: NebiusMarket, seconds: float) -> None:
    market.advance_to(market.now + timedelta(seconds=seconds))


def rent(market: NebiusMarket, name: str, cap: str) -> Vm:
    made = market.make_policy("", PROJECT, name, H200.name, D(cap))
    wait(market, 3)
    order = VmOrder(PROJECT, name, H200.name, "1gpu-16vcpu-200gb", 40, "#!/bin/sh\n", True)
    vm = market.vm(market.make_vm("", order, made.resource_id).resource_id)
    wait(market, 41)
    return vm


def test_a_price_moves_on_the_quarter_of_an_hour_of_the_clock(market: NebiusMarket) -> None:
    pool = pool_of(market)
    pool.next_price = D("2.50")
    wait(market, 10 * 60)
    assert pool.price == D("2.00")
    wait(market, 60)
    assert pool.price == D("2.50")
    assert pool.quotes[-1].at == START.replace(minute=15)


def test_whose_cap_is_passed_has_a_minute_then_lies_stopped_and_pays_for_the_disk(market: NebiusMarket) -> None:
    vm = rent(market, "a", "2.40")
    states = [vm.state]
    market.set_price(pool_of(market), D("2.41"))
    for seconds in (59, 1):
        wait(market, seconds)
        states.append(vm.state)
    assert states == [VmState.RUNNING, VmState.STOPPING, VmState.STOPPED]
    before = vm.meter.total(market.now)
    wait(market, 3600)
    assert vm.meter.total(market.now) - before == D(40) * DISK_PER_GB_H
    assert vm.state is VmState.STOPPED, "nothing starts it"
    with pytest.raises(NebiusRefused, match="policy"):
        market.start_vm("", vm)


def test_the_lowest_cap_loses_its_hardware_first(market: NebiusMarket) -> None:
    low, high = rent(market, "low", "2.10"), rent(market, "high", "3.00")
    market.set_gpus(pool_of(market), 1)
    wait(market, 61)
    assert (low.state, high.state) == (VmState.STOPPED, VmState.RUNNING)


def test_a_higher_cap_takes_the_hardware_of_a_lower_one_once_that_has_shut_down(market: NebiusMarket) -> None:
    low, _ = rent(market, "low", "2.10"), rent(market, "middle", "2.50")
    high = rent(market, "high", "3.00")
    assert (low.state, high.state) == (VmState.STOPPING, VmState.STOPPED)
    market.lifecycle.start(high)
    wait(market, 120)
    assert (low.state, high.state) == (VmState.STOPPED, VmState.RUNNING)


def test_a_policy_is_blocked_below_the_price_and_stays_while_a_machine_runs_under_it(market: NebiusMarket) -> None:
    vm = rent(market, "a", "2.40")
    policy = market.policy(vm.policy_id)
    assert not market.is_blocked(policy)
    with pytest.raises(NebiusRefused, match="run under the policy"):
        market.delete_policy("", policy.id)
    market.set_price(pool_of(market), D("2.41"))
    wait(market, 61)
    assert market.is_blocked(policy)
    market.delete_policy("", policy.id)


@pytest.mark.parametrize("cap", ["5.40", "0.0001"])
def test_a_cap_out_of_range_is_refused(market: NebiusMarket, cap: str) -> None:
    with pytest.raises(NebiusRefused, match="out of the allowed range"):
        market.make_policy("", PROJECT, "a", H200.name, D(cap))


def test_the_same_key_finds_the_same_operation(market: NebiusMarket) -> None:
    made = market.make_policy("key", PROJECT, "a", H200.name, D("2.40"))
    assert market.find_replay("key") is made
    assert market.find_replay("another") is None


def test_a_host_that_never_gets_through_keeps_a_machine_starting(market: NebiusMarket) -> None:
    pool_of(market).hosts.replace_all((HostTraits(truth=Truth(Boot.FOR_EVER)),))
    vm = rent(market, "a", "2.40")
    wait(market, 7200)
    assert vm.state is VmState.STARTING
    pool_of(market).hosts.replace_all(())
    other = rent(market, "b", "2.40")
    assert other.state is VmState.RUNNING
    assert not other.host.is_dud
