"""The market's rules: placement, eviction, resume, timers, money. Times are seconds since the start."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.market.metering import DISK, GPU
from autopilot_lab.sandbox.runpod.catalogue import default_catalogue
from autopilot_lab.sandbox.runpod.churn import Churn
from autopilot_lab.sandbox.runpod.exchange import ExchangeConfig, Mode, SpotPrice
from autopilot_lab.sandbox.runpod.lifecycle import Timings
from autopilot_lab.sandbox.runpod.machines import Cloud, Requirements
from autopilot_lab.sandbox.runpod.market import PodMarket
from autopilot_lab.sandbox.runpod.pods import Cause, Container, NetworkVolume, PodOrder, Status
from autopilot_lab.sandbox.runpod.refusals import PodRefused, RefusalReason
from tests.unit.lab.sandbox_runpod.runpod_tenant import START, Tenant

D = Decimal


def refusal(call: Any) -> RefusalReason:
    with pytest.raises(PodRefused) as caught:
        call()
    return caught.value.reason


# --- getting and losing GPUs


def test_a_pod_is_running_at_once_and_its_container_later(tenant: Tenant) -> None:
    pod = tenant.rent()
    assert (pod.status, pod.container, pod.cost_per_hr) == (Status.RUNNING, Container.CREATING, D("0.20"))
    seen = []
    for seconds in (39.9, 0.1):
        tenant.wait(seconds)
        seen.append(pod.container)
    assert seen == [Container.CREATING, Container.RUNNING]
    assert tenant.times("container.started") == [40]


def test_the_lowest_floor_with_free_gpus_comes_first() -> None:
    market = PodMarket(default_catalogue(7), START)
    cheap, dear = sorted(
        (each for each in market.machines.values() if each.spec.gpu_type.display_name == "RTX 3090"),
        key=lambda machine: machine.floor or D(0),
    )
    order = PodOrder("image", (cheap.spec.gpu_type.id,), bid=D("0.25"))
    assert market.rent(order).machine_id == cheap.spec.machine_id
    free = market.free_gpus(cheap)
    if free:
        market.add_stranger("rival", cheap, free, D("0.20"))
    assert market.rent(order).machine_id == dear.spec.machine_id


def test_a_bid_below_the_floor_and_a_host_without_spot(tenant: Tenant) -> None:
    assert refusal(lambda: tenant.rent("0.09")) is RefusalReason.LOW_BID
    assert tenant.rent("0.10").status is Status.RUNNING
    tenant.market.set_floor(tenant.machine.spec.machine_id, None)
    assert refusal(lambda: tenant.rent("9")) is RefusalReason.NO_CAPACITY


def test_a_higher_bid_takes_gpus_and_nothing_comes_back_by_itself(tenant: Tenant) -> None:
    pod = tenant.rent(volume_gb=10)
    tenant.wait(100)
    assert tenant.rival("0.20") is None
    before = pod.status
    rival = tenant.rival("0.21")
    assert (before, pod.status, pod.cause) == (Status.RUNNING, Status.EXITED, Cause.OUTBID)
    assert pod.last_status_change.startswith("Outbid: Sun Mar 01 2026 12:01:40 GMT+0000")
    assert tenant.times("pod.outbid") == [100]
    tenant.market.remove_stranger(str(rival))
    tenant.wait(7200)
    assert pod.status is Status.EXITED


def test_an_on_demand_arrival_takes_gpus_from_the_lowest_bid(tenant: Tenant) -> None:
    high, low = tenant.rent("0.40", gpu_count=2), tenant.rent("0.15", gpu_count=2)
    assert tenant.rival(None, 2) is not None
    assert (high.status, low.status, low.cause) == (Status.RUNNING, Status.EXITED, Cause.DISPLACED)
    assert "Outbid" in low.last_status_change


def test_our_own_higher_bid_displaces_a_rival(tenant: Tenant) -> None:
    tenant.rival("0.30")
    assert refusal(lambda: tenant.rent("0.30")) is RefusalReason.NO_CAPACITY
    assert tenant.rent("0.31").status is Status.RUNNING
    assert "stranger.outbid" in tenant.kinds()


def test_a_rising_floor_evicts_no_tenant_but_keeps_newcomers_out(tenant: Tenant) -> None:
    pod = tenant.rent("0.20")
    tenant.market.set_floor(tenant.machine.spec.machine_id, D("0.50"))
    tenant.wait(3600)
    assert pod.status is Status.RUNNING
    assert refusal(lambda: tenant.rent("0.49")) is RefusalReason.LOW_BID


def test_on_demand_is_never_evicted(tenant: Tenant) -> None:
    pod = tenant.rent(None, gpu_count=4)
    assert pod.cost_per_hr == D("1.20")
    assert tenant.rival("9") is None
    assert tenant.rival(None) is None
    assert pod.status is Status.RUNNING


def test_requirements(tenant: Tenant) -> None:
    spec = tenant.machine.spec
    for wrong in (
        Requirements(clouds=frozenset({Cloud.SECURE})),
        Requirements(country="XX"),
        Requirements(data_center_ids=frozenset({"EU-RO-1"})),
        Requirements(min_vcpus=spec.vcpus_per_gpu + 1),
        Requirements(min_memory_gb=spec.memory_gb_per_gpu + 1),
        Requirements(min_download_mbps=spec.download_mbps + 1),
        Requirements(cuda_versions=frozenset({"1.0"})),
        Requirements(min_cuda_version="99.0"),
    ):
        assert refusal(lambda wrong=wrong: tenant.rent(requirements=wrong)) is RefusalReason.NO_CAPACITY
    fits = Requirements(country=spec.country.lower(), min_vcpus=2 * spec.vcpus_per_gpu, min_cuda_version="12.0")
    assert tenant.rent(requirements=fits, gpu_count=2).status is Status.RUNNING
    assert refusal(lambda: tenant.rent(volume_gb=spec.disk_gb)) is RefusalReason.NO_CAPACITY


def test_an_outbid_pod_may_vanish_with_its_volume(open_market: Any) -> None:
    tenant = open_market(config=ExchangeConfig(vanish_probability=1.0))
    pod = tenant.rent(volume_gb=10)
    tenant.rival("0.9")
    assert (pod.status, pod.terminated_at) == (Status.TERMINATED, START)
    assert pod.last_status_change.startswith("Outbid: ")
    tenant.wait(3600)
    assert pod.meter.total(tenant.market.now) == 0


# --- stopping and resuming


def test_resume_is_on_the_same_host_at_a_new_bid(tenant: Tenant) -> None:
    pod = tenant.rent(gpu_count=2)
    tenant.wait(100)
    tenant.market.stop(pod)
    assert tenant.market.lowest_bid_to_resume(pod) == D("0.10")
    tenant.rival("0.30", 3)
    assert tenant.market.lowest_bid_to_resume(pod) == D("0.31")
    assert refusal(lambda: tenant.market.bid_resume(pod, 2, D("0.30"))) is RefusalReason.HOST_FULL
    assert refusal(lambda: tenant.market.bid_resume(pod, 2, D("0.05"))) is RefusalReason.LOW_BID
    tenant.market.bid_resume(pod, 2, D("0.31"))
    assert (pod.status, pod.bid, pod.cost_per_hr) == (Status.RUNNING, D("0.31"), D("0.62"))
    tenant.wait(15)
    assert tenant.times("container.started") == [40, 115]


def test_the_two_ways_to_resume_do_not_mix(tenant: Tenant) -> None:
    spot, on_demand = tenant.rent(), tenant.rent(None)
    for pod in (spot, on_demand):
        tenant.market.stop(pod)
    assert refusal(lambda: tenant.market.resume(spot, 1)) is RefusalReason.WRONG_RESUME
    assert refusal(lambda: tenant.market.bid_resume(on_demand, 1, D(1))) is RefusalReason.INVALID
    tenant.market.resume(on_demand, None)
    assert on_demand.status is Status.RUNNING


def test_without_gpus_the_data_can_still_be_reached(tenant: Tenant) -> None:
    pod = tenant.rent(None, volume_gb=10)
    tenant.market.stop(pod)
    tenant.rival(None)
    assert refusal(lambda: tenant.market.resume(pod, 1)) is RefusalReason.HOST_FULL
    tenant.market.resume(pod, 0)
    assert (pod.status, pod.gpu_count, pod.cost_per_hr) == (Status.RUNNING, 0, D(0))
    assert tenant.market.free_gpus(tenant.machine) == 0
    tenant.wait(15)
    assert pod.container is Container.RUNNING


def test_nothing_starts_before_the_grace_period_is_over(open_market: Any) -> None:
    tenant = open_market(timings=Timings(grace_s=100))
    pod = tenant.rent()
    tenant.wait(40)
    tenant.market.stop(pod)
    tenant.wait(10)
    tenant.market.bid_resume(pod, 1, D("0.2"))
    tenant.wait(3600)
    assert tenant.times("container.started") == [40, 140]


def test_the_restart_loop(tenant: Tenant) -> None:
    pod = tenant.rent()
    tenant.wait(40)
    tenant.market.container_exited(pod.id, 1, 0)
    assert (pod.status, pod.container) == (Status.RUNNING, Container.RESTARTING)
    tenant.market.container_exited(pod.id, 1, 0)
    tenant.wait(2)
    assert (pod.container, pod.boots) == (Container.RUNNING, 2)
    assert tenant.kinds().count("container.exited") == 1
    tenant.market.container_exited(pod.id, 1, 0)
    assert pod.container is Container.RUNNING
    tenant.market.container_exited(pod.id, 2, 1)
    tenant.market.stop(pod)
    tenant.wait(60)
    assert pod.boots == 2


def test_timers(tenant: Tenant) -> None:
    tenant.rent(stop_after=START + timedelta(seconds=50), terminate_after=START + timedelta(seconds=70))
    past = tenant.rent(terminate_after=START - timedelta(seconds=1))
    tenant.wait(100)
    assert tenant.times("pod.stopped") == [50]
    assert tenant.times("pod.terminated") == [0, 70]
    assert past.status is Status.TERMINATED


def test_no_supply(open_market: Any) -> None:
    tenant = open_market(mode=Mode.NO_SUPPLY)
    assert refusal(lambda: tenant.rent("9")) is RefusalReason.NO_CAPACITY
    assert tenant.rent(None).status is Status.RUNNING


# --- money


def cost(tenant: Tenant, pod: Any) -> dict[str, Decimal]:
    """Dollars, to a tenth of a nano-dollar."""
    exact = pod.meter.cost(tenant.market.now)
    return {kind: D(exact[kind].numerator) / D(exact[kind].denominator) for kind in (GPU, DISK)}


def test_a_pod_costs_from_renting_to_stopping_and_its_volume_doubly_after(tenant: Tenant) -> None:
    pod = tenant.rent(container_disk_gb=72, volume_gb=36, gpu_count=2)
    tenant.wait(1800)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.0075")}
    tenant.market.stop(pod)
    tenant.wait(3600)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.0175")}
    tenant.market.terminate(pod)
    tenant.wait(3600)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.0175")}


def test_nothing_costs_while_the_host_is_down(tenant: Tenant) -> None:
    pod = tenant.rent(volume_gb=72, container_disk_gb=0)
    tenant.wait(3600)
    tenant.market.set_host(tenant.machine.spec.machine_id, HostState.OFFLINE)
    tenant.wait(3600)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.01")}
    tenant.market.stop(pod)
    tenant.wait(3600)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.01")}
    assert refusal(lambda: tenant.market.bid_resume(pod, 1, D(1))) is RefusalReason.HOST_FULL
    tenant.market.set_host(tenant.machine.spec.machine_id, HostState.ONLINE)
    tenant.wait(3600)
    assert cost(tenant, pod) == {GPU: D("0.2"), DISK: D("0.03")}


def test_a_spot_pod_may_pay_the_floor(open_market: Any) -> None:
    tenant = open_market(config=ExchangeConfig(spot_price=SpotPrice.FLOOR))
    pod = tenant.rent("0.25", gpu_count=2)
    assert pod.cost_per_hr == D("0.20")
    assert tenant.rival("0.24", 4) is None


def test_the_balance_is_settled_every_five_minutes(tenant: Tenant) -> None:
    tenant.rent(container_disk_gb=0, gpu_count=4, bid="0.30")
    seen = []
    for _ in range(3):
        tenant.wait(299)
        seen.append(tenant.market.balance.show(tenant.market.now))
        tenant.wait(1)
        seen.append(tenant.market.balance.show(tenant.market.now))
    assert seen == [100, D("99.9"), D("99.9"), D("99.8"), D("99.8"), D("99.7")]
    tenant.wait(7)
    tenant.market.set_balance(D(50))
    assert tenant.market.balance.show(tenant.market.now) == 50


def test_an_hours_credit_is_needed_to_deploy(open_market: Any) -> None:
    tenant = open_market(balance=D("0.3999"))
    wish = {"bid": "0.20", "gpu_count": 2, "container_disk_gb": 0}
    assert refusal(lambda: tenant.rent(**wish)) is RefusalReason.BALANCE
    tenant.market.set_balance(D("0.40"))
    assert tenant.rent(**wish).status is Status.RUNNING


def test_the_spend_limit_counts_everything(open_market: Any) -> None:
    tenant = open_market(config=ExchangeConfig(spend_limit=D("0.5")))
    first = tenant.rent("0.20", gpu_count=2, container_disk_gb=0)
    assert refusal(lambda: tenant.rent("0.20", container_disk_gb=0)) is RefusalReason.BALANCE
    tenant.market.stop(first)
    assert tenant.rent("0.20", container_disk_gb=0).status is Status.RUNNING


def test_at_zero_pods_are_terminated_at_the_settlement(open_market: Any) -> None:
    tenant = open_market(balance=D("0.31"))
    running, stopped = tenant.rent("0.30", container_disk_gb=0), tenant.rent("0.10", volume_gb=1)
    tenant.market.stop(stopped)
    tenant.wait(4000)
    assert {running.status, stopped.status} == {Status.TERMINATED}
    assert tenant.times("balance.exhausted") == [3900]
    assert running.cause is Cause.OUT_OF_BALANCE
    assert tenant.times("pod.terminated") == [3900, 3900]


def test_a_pod_with_a_network_volume_is_only_stopped_and_the_volume_goes_on_costing() -> None:
    market = PodMarket(
        default_catalogue(7), START, balance=D("1.0"), network_volumes=[NetworkVolume("nv", "n", 720, "EU-RO-1")]
    )
    order = PodOrder("x", ("NVIDIA RTX A4000",), bid=D("0.34"), network_volume_id="nv", container_disk_gb=0)
    pod = market.rent(order)
    market.advance_to(START + timedelta(hours=4))
    assert (pod.status, pod.cause) == (Status.EXITED, Cause.OUT_OF_BALANCE)
    assert pod.last_status_change.endswith(": Insufficient balance")
    spent = pod.meter.total(market.now) + market.network_volumes["nv"].meter.total(market.now)
    assert market.balance.show(market.now) == 1 - D(spent.numerator) / D(spent.denominator)
    assert market.network_volumes["nv"].meter.total(market.now) == D("0.28")
    assert market.balance.show(market.now) < 0


# --- determinism


def test_equal_seeds_give_equal_markets() -> None:
    def history(seed: int, step_s: float) -> list[tuple[Any, ...]]:
        market = PodMarket(default_catalogue(seed), START, seed=seed, config=ExchangeConfig(vanish_probability=0.5))
        Churn(market, seed)
        order = PodOrder("x", ("NVIDIA GeForce RTX 3090",), bid=D("0.22"), volume_gb=5)
        pods = [market.rent(order) for _ in range(3)]
        now = START
        while now < START + timedelta(days=2):
            now += timedelta(seconds=step_s)
            market.advance_to(now)
        assert market.now == now
        books = [pod.meter.total(market.now) for pod in pods]
        return [*((each.at, each.kind, tuple(each.fields.items())) for each in market.journal.entries), tuple(books)]

    once = history(3, 86_400)
    assert once == history(3, 600)
    assert once != history(4, 86_400)
    assert {"pod.outbid", "floor.moved", "rival.arrived", "on_demand.arrived"} <= {entry[1] for entry in once[:-1]}


def test_pod_ids_look_like_runpods(tenant: Tenant) -> None:
    pod = tenant.rent()
    assert len(pod.id) == 14
    assert pod.id.isalnum()
    assert pod.id.islower()
