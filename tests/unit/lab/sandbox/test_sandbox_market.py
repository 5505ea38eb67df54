from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from autopilot_lab.sandbox.catalogue import default_catalogue
from autopilot_lab.sandbox.churn import Churn
from autopilot_lab.sandbox.market.exchange import NoSuchAsk, NoSuchInstance
from autopilot_lab.sandbox.market.instances import Cause, Contract
from autopilot_lab.sandbox.market.machines import HostState
from autopilot_lab.sandbox.market.market import CannotStart, InsufficientCredit, OrderRefused, SandboxMarket
from autopilot_lab.sandbox.market.metering import DISK, GPU

OpenMarket = Callable[..., Any]


def words(instance: Contract) -> tuple[str, str, str, str | None]:
    return instance.intended, instance.cur_state, instance.next_state, instance.actual


def test_a_winning_bid_loads_then_runs(trader: Any) -> None:
    instance = trader.rent("0.20")
    assert words(instance) == ("running", "running", "running", None)
    trader.wait(10)
    assert instance.actual == "loading"
    trader.wait(29.9)
    assert instance.actual == "loading"
    assert instance.meter.cost(trader.market.now)[GPU] == 0
    trader.wait(0.1)
    assert instance.actual == "running"


def test_gpu_is_billed_only_while_running_at_the_bid_in_force_and_disk_throughout(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(40 + 3600)
    trader.market.change_bid(instance.id, Decimal("0.30"))
    trader.wait(3600)
    trader.rival("0.50", duration_s=1800)
    trader.wait(1800 + 20 + 7200)
    trader.market.destroy(instance.id)
    trader.wait(86_400)
    cost = instance.meter.cost(trader.market.now)
    assert cost[GPU] == Fraction("0.2") + Fraction("0.3") + Fraction("0.6")
    spec = trader.market.machines[trader.machine_id].spec
    seconds = 40 + 3600 + 3600 + 1800 + 20 + 7200
    assert cost[DISK] == Fraction(spec.storage_cost) * 10 / 720 * Fraction(seconds, 3600)


def test_an_outbid_instance_stops_at_once_its_status_lags_and_it_resumes_by_itself(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(60)
    rival = trader.rival("0.21")
    assert words(instance) == ("stopped", "stopped", "stopped", "running")
    assert instance.cause is Cause.OUTBID
    trader.wait(30)
    assert instance.actual == "exited"
    trader.market.remove_stranger(rival)
    assert words(instance) == ("running", "running", "running", "loading")
    trader.wait(20)
    assert (instance.actual, instance.boots) == ("running", 2)


def test_a_tie_stays_with_the_incumbent(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.rival("0.20")
    assert instance.holding


def test_a_raised_bid_resumes(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.rival("0.25")
    assert not instance.holding
    trader.market.change_bid(instance.id, Decimal("0.25"))
    assert not instance.holding
    trader.market.change_bid(instance.id, Decimal("0.26"))
    assert instance.holding


def test_an_underbid_parks_after_a_delay_but_is_billed_at_once(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.rival("0.15")
    trader.wait(40)
    trader.market.change_bid(instance.id, Decimal("0.14"))
    trader.wait(46.9)
    assert instance.holding
    trader.wait(0.1)
    assert not instance.holding
    assert instance.meter.cost(trader.market.now)[GPU] == Fraction("0.14") * 47 / 3600


def test_a_bid_lowered_and_raised_again_in_time_is_not_parked(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.rival("0.15")
    trader.market.change_bid(instance.id, Decimal("0.14"))
    trader.wait(30)
    trader.market.change_bid(instance.id, Decimal("0.20"))
    trader.wait(100)
    assert instance.holding


def test_a_floor_above_the_bid_parks_it(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.market.set_floor(trader.machine_id, Decimal("0.2001"))
    assert instance.cause is Cause.OUTBID
    trader.market.set_floor(trader.machine_id, Decimal("0.2"))
    assert instance.holding


def test_on_demand_displaces_any_bid(trader: Any) -> None:
    instance = trader.rent("9.00")
    trader.on_demand_customer(duration_s=600)
    assert instance.cause is Cause.DISPLACED
    trader.wait(600)
    assert instance.holding


def test_what_its_owner_stopped_does_not_resume_but_a_queued_start_does(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.market.stop(instance.id)
    rival = trader.rival("0.50")
    trader.market.remove_stranger(rival)
    trader.wait(3600)
    assert words(instance)[:3] == ("stopped", "stopped", "stopped")
    rival = trader.rival("0.50")
    assert trader.market.start(instance.id) is False
    assert words(instance)[:3] == ("running", "stopped", "running")
    trader.wait(3900)
    trader.market.remove_stranger(rival)
    assert instance.holding


def test_a_stop_cancels_a_queued_start(trader: Any) -> None:
    instance = trader.rent("0.20")
    rival = trader.rival("0.50")
    trader.market.start(instance.id)
    trader.market.stop(instance.id)
    trader.market.remove_stranger(rival)
    assert not instance.holding


def test_a_losing_create_makes_a_stopped_contract_that_bills_its_disk_and_may_wake_up(trader: Any) -> None:
    instance = trader.rent("0.09")
    assert words(instance) == ("stopped", "stopped", "stopped", "stopped")
    trader.wait(3600)
    assert instance.meter.cost(trader.market.now)[DISK] > 0
    trader.market.set_floor(trader.machine_id, Decimal("0.05"))
    assert instance.holding


def test_cancel_unavail_makes_no_contract(trader: Any) -> None:
    with pytest.raises(CannotStart):
        trader.rent("0.09", cancel_unavail=True)
    assert trader.market.instances == {}


def test_offer_ids_change_when_rented_and_when_given_back(open_market: OpenMarket) -> None:
    trader = open_market(gpus=2)
    machine = trader.market.machines[trader.machine_id]
    single, other, whole = machine.spec.chunks()
    before = dict(machine.offer_ids)
    instance = trader.rent("0.30")
    assert machine.offer_ids[single] != before[single]
    assert machine.offer_ids[whole] != before[whole]
    assert machine.offer_ids[other] == before[other]
    rented = dict(machine.offer_ids)
    trader.market.destroy(instance.id)
    assert machine.offer_ids[single] != rented[single]
    with pytest.raises(NoSuchAsk):
        trader.market.find_offer(before[single])


def test_on_demand_evicts_own_and_foreign_bids_and_cannot_be_taken_twice(trader: Any) -> None:
    bid = trader.rent("0.40")
    firm = trader.rent(None)
    assert firm.holding
    assert firm.price == trader.market.machines[trader.machine_id].spec.on_demand
    assert bid.cause is Cause.DISPLACED
    with pytest.raises(NoSuchAsk):
        trader.rent(None)


def test_min_bid_echoes_the_tenants_own_bid_late_and_in_three_decimals(trader: Any) -> None:
    def shown() -> Decimal:
        return shown_floor(trader)

    instance = trader.rent("0.2346")
    assert shown() == Decimal("0.100")
    trader.wait(16)
    assert shown() == Decimal("0.235")
    trader.market.change_bid(instance.id, Decimal("0.5"))
    trader.wait(15.9)
    assert shown() == Decimal("0.235")
    trader.wait(0.1)
    assert shown() == Decimal("0.500")


@pytest.mark.parametrize(("visible", "shown"), [(False, Decimal("0.1000")), (True, Decimal("0.3010"))])
def test_a_contested_chunk_shows_the_floor_or_what_wins(open_market: OpenMarket, visible: bool, shown: Decimal) -> None:
    trader = open_market(clearing_is_visible=visible)
    trader.rival("0.30")
    ask = next(a for a in trader.market.asks() if a.machine.spec.machine_id == trader.machine_id)
    assert ask.min_bid == shown


def test_the_outbid_notice_tells_the_price_that_wins(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.rival("0.30")
    notice = trader.market.lifecycle.notices[-1]
    assert (notice.kind, notice.price, notice.new_min_bid) == ("outbid", Decimal("0.2000"), Decimal("0.3010"))
    trader.market.change_bid(instance.id, None)
    assert instance.price == Decimal("0.3010")
    assert instance.holding


def test_an_offline_host_bills_nothing_and_comes_back_with_the_instance(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(60)
    before = instance.meter.total(trader.market.now)
    trader.market.set_host(trader.machine_id, HostState.OFFLINE)
    trader.wait(7200)
    assert instance.meter.total(trader.market.now) == before
    assert trader.market.actual_status(instance) == "offline"
    assert words(instance)[:3] == ("running", "running", "running")
    with pytest.raises(NoSuchAsk):
        trader.rent("0.9")
    trader.market.set_host(trader.machine_id, HostState.ONLINE)
    trader.wait(20)
    assert instance.actual == "running"


def test_a_vanished_host_never_returns(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.market.set_host(trader.machine_id, HostState.VANISHED)
    with pytest.raises(OrderRefused):
        trader.market.set_host(trader.machine_id, HostState.ONLINE)
    assert trader.market.actual_status(instance) == "offline"
    trader.market.destroy(instance.id)
    with pytest.raises(NoSuchInstance):
        trader.market.get(instance.id)


def test_a_contract_expires_and_is_deleted_two_days_later(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.market.set_credit(Decimal(100_000))
    trader.market.advance_to(instance.end_date)
    trader.wait(60)
    assert words(instance) == ("stopped", "stopped", "stopped", "stopped")
    with pytest.raises(OrderRefused):
        trader.market.start(instance.id)
    trader.wait(48 * 3600 - 61)
    assert instance.destroyed_at is None
    trader.wait(1)
    assert instance.destroyed_at is not None


def test_credit_runs_out_at_the_exact_moment_and_stops_everything(open_market: OpenMarket) -> None:
    trader = open_market(credit=Decimal("0.50"))
    instance = trader.rent("0.20")
    trader.wait(24 * 3600)
    paused = next(e for e in trader.market.journal.entries if e.kind == "instance.paused")
    assert paused.fields["cause"] == "out_of_credit"
    assert instance.meter.total(paused.at) >= Fraction("0.5")
    one_microsecond = (Fraction("0.2") + instance.storage_rate) / 3_600_000_000
    assert instance.meter.total(paused.at) < Fraction("0.5") + one_microsecond
    assert words(instance) == ("stopped", "stopped", "stopped", "exited")
    assert trader.market.credit < 0
    with pytest.raises(InsufficientCredit):
        trader.market.start(instance.id)
    with pytest.raises(InsufficientCredit):
        trader.rent("0.30")
    trader.market.set_credit(Decimal(5))
    trader.wait(3600)
    assert not instance.holding
    assert trader.market.start(instance.id) is True


def test_credit_set_to_nothing_stops_everything_now(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(100)
    trader.market.set_credit(Decimal(0))
    trader.wait(0)
    assert instance.cause is Cause.OUT_OF_CREDIT


def test_a_container_that_ends_keeps_its_gpu_and_its_bill(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(40)
    trader.market.container_exited(instance.id, boot=1, exit_code=3)
    trader.market.container_exited(instance.id, boot=0, exit_code=4)
    trader.wait(3600)
    assert words(instance) == ("running", "running", "running", "exited")
    assert instance.meter.cost(trader.market.now)[GPU] == Fraction("0.2")
    assert trader.kinds().count("container.exited") == 1


def test_reboot_loads_again_without_losing_the_gpu(trader: Any) -> None:
    instance = trader.rent("0.20")
    trader.wait(100)
    trader.market.reboot(instance.id)
    assert (instance.actual, instance.holding) == ("loading", True)
    trader.wait(20)
    assert (instance.actual, instance.boots) == ("running", 2)


def test_coarse_and_fine_steps_give_the_same_history(open_market: OpenMarket) -> None:
    def history(steps: int) -> list[dict[str, object]]:
        trader = open_market(seed=3)
        Churn(trader.market, 3)
        instance = trader.rent("0.20")
        for _ in range(steps):
            trader.wait(86_400 / steps)
        trader.market.destroy(instance.id)
        return [entry.as_json() for entry in trader.market.journal.entries]

    once = history(1)
    assert once == history(480)
    assert {"floor.moved", "rival.arrived", "on_demand.arrived"} <= {str(entry["kind"]) for entry in once}


def test_the_default_market_has_the_promised_models_and_spread() -> None:
    specs = default_catalogue(1, datetime(2026, 1, 1, tzinfo=UTC))
    assert {spec.gpu_name for spec in specs} == {"RTX 4090", "RTX 3090", "A100 SXM4", "H100 SXM"}
    assert len(specs) == 12
    spreads = [spec.on_demand / spec.floor for spec in specs]
    assert Decimal("1.6") < sum(spreads) / len(spreads) < Decimal("1.8")
    assert specs == default_catalogue(1, datetime(2026, 1, 1, tzinfo=UTC))
    assert specs != default_catalogue(2, datetime(2026, 1, 1, tzinfo=UTC))
    assert isinstance(SandboxMarket(specs, datetime(2026, 1, 1, tzinfo=UTC)).credit, Decimal)


def shown_floor(trader: Any) -> Decimal:
    market: SandboxMarket = trader.market
    return next(ask.min_bid for ask in market.asks() if ask.machine.spec.machine_id == trader.machine_id)


def test_a_list_may_echo_a_bid_after_its_machine_was_given_back(trader: Any) -> None:
    trader.market.echo_lasts_s = 900
    instance = trader.rent("0.138")
    trader.wait(60)
    trader.market.destroy(instance.id)
    trader.wait(899)
    assert shown_floor(trader) == Decimal("0.138")
    trader.wait(1)
    assert shown_floor(trader) == Decimal("0.10")


def test_a_full_host_is_listed_and_takes_no_tenant(trader: Any) -> None:
    machine = trader.market.machines[trader.machine_id]
    machine.is_full = True
    assert shown_floor(trader) == Decimal("0.10")
    with pytest.raises(NoSuchAsk):
        trader.rent("0.20")
    machine.is_full = False
    assert trader.rent("0.20").holding


def test_a_create_that_loses_is_recorded_with_its_machine(trader: Any) -> None:
    trader.rival("0.20")
    with pytest.raises(CannotStart):
        trader.rent("0.15", cancel_unavail=True)
    lost = trader.market.journal.entries[-1]
    assert lost.kind == "create.lost"
    assert (lost.fields["machine_id"], lost.fields["price"]) == (trader.machine_id, Decimal("0.1500"))
