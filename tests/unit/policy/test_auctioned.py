"""Bids on an auction, as actions: within every limit of the job, even if the core would pay more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from autopilot.domain.actions import Acquire, ChangeBid, Decision, Release
from autopilot.domain.floors import Bidders, Tally
from autopilot.domain.hosts import HostRecord, KnownHosts
from autopilot.domain.instance import InstanceStatus
from autopilot.domain.job import Job
from autopilot.domain.lease import Lease, Span
from autopilot.domain.market import ProviderView
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.outlook import Outlook
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.policy.decide import decide
from tests.builders import (
    HOUR,
    START,
    D,
    a_job,
    a_lease,
    a_market,
    a_paused_lease,
    a_spec,
    an_offer,
    capabilities,
)

P = Params()
NO_HOSTS = KnownHosts()
FLOOR = D("0.2")
OFFER = an_offer("a", floor=FLOOR, on_demand_price=D(1))
CALM = Tally(1.05, held=1e4, dollars=2100.0)


def bidders(markup: float = 1.1, storm: Tally = CALM) -> Bidders:
    """One markup alone did any work."""
    return Bidders((Tally(markup, held=1e4, dollars=2e3 * markup),), storm)


def decided(
    *offers: Offer,
    held: Lease | None = None,
    hours: float = 9.0,
    known: Bidders | None = None,
    hosts: KnownHosts = NO_HOSTS,
    **limits: Any,
) -> Decision:
    spec = a_spec(**{"work_estimate": 6 * HOUR, "deadline": START + hours * HOUR, **limits})
    job: Job = replace(a_job(*(() if held is None else (held,)), spec=spec), submitted_at=START - 3 * HOUR)
    market = replace(a_market(*(offers or (OFFER,))), outlook=Outlook(bidders=known or bidders()), hosts=hosts)
    market = replace(market, providers={**market.providers, "elsewhere": ProviderView(capabilities(), True, None)})
    return decide(job, market, START, P)


def bid(**limits: Any) -> Decimal:
    """What is bid on the only machine, $/h."""
    (action,) = decided(**limits).actions
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.SPOT
    return action.bid


def machine(minutes: float, **changes: Any) -> Lease:
    since = START - timedelta(minutes=minutes)
    return a_lease(
        machine_id="held", on_demand_price=D(1), acquired_at=since, intended_at=since, running_since=since, **changes
    )


def test_the_bid_is_the_floor_times_the_markup_of_least_cost() -> None:
    assert bid() == D("0.220")


@pytest.mark.parametrize("limit", [D("0.24"), D("0.25")])
def test_no_bid_and_disk_together_are_above_what_the_job_may_cost_an_hour(limit: Decimal) -> None:
    assert bid(known=bidders(1.3)) > limit, "without it more would be bid"
    assert bid(known=bidders(1.3), max_rate=limit) + OFFER.storage_rate(a_spec().disk_gb) <= limit


def test_no_bid_is_above_the_highest_that_the_job_allows() -> None:
    assert bid(known=bidders(1.3), max_bid=D("0.24")) <= D("0.24")


@pytest.mark.parametrize(("minutes", "moves"), [(10, 0), (40, 1)])
def test_a_machine_that_has_just_begun_is_not_left_for_a_price(minutes: int, moves: int) -> None:
    actions = decided(held=machine(minutes, bid=D("0.85"))).actions
    assert sum(isinstance(action, Acquire) for action in actions) == moves


def test_a_machine_that_runs_keeps_its_bid() -> None:
    assert decided(held=machine(300, bid=D("0.22"))).actions == ()


def test_it_is_left_for_on_demand_while_that_is_still_in_time() -> None:
    (action,) = decided(held=machine(300, bid=D("0.22")), hours=6.6).actions
    assert isinstance(action, Acquire)
    assert (action.capacity_type, action.reason) == (CapacityType.ON_DEMAND, Reason.DEADLINE)


def test_the_budget_outranks_the_deadline() -> None:
    (action,) = decided(hours=6.6, budget=D(4)).actions
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.SPOT


def test_dear_hours_are_waited_out_with_slack_and_not_without() -> None:
    dear = an_offer("a", floor=D("0.95"), on_demand_price=D(1))
    assert decided(dear, hours=40).actions == ()
    (action,) = decided(dear, hours=6.9).actions
    assert isinstance(action, Acquire)
    assert action.capacity_type is CapacityType.ON_DEMAND


def test_why_tells_the_markup_and_what_each_option_costs() -> None:
    notes = {note.topic: dict(note.numbers) for note in decided().notes}
    assert notes["bidders"]["markup"] == 1.1
    options = {dict(note.numbers)["option"] for note in decided().notes if note.topic == "option"}
    assert options == {"on_demand", "spot"}


def test_a_machine_that_was_outbid_is_won_back() -> None:
    held = a_paused_lease(machine_id="held", bid=D("0.2"), price_to_win=D("0.21"), on_demand_price=D(1))
    actions = decided(held=held).actions
    assert [action.bid for action in actions if isinstance(action, ChangeBid)] == [D("0.231")]


def test_one_that_was_beaten_within_minutes_is_bid_on_at_the_price_of_the_next() -> None:
    """Its last bid held from its last start, whatever was billed meanwhile, until it was stopped."""

    def raised_to(minutes: int) -> list[Decimal]:
        ended = START + timedelta(minutes=minutes)
        spans = (
            Span(InstanceStatus.RUNNING, D("0.19"), D(0), START, START + timedelta(minutes=1)),
            Span(InstanceStatus.RUNNING, D("0.2"), D(0), START + timedelta(minutes=1), ended),
            Span(InstanceStatus.STOPPED, D(0), D(0), ended),
        )
        held = a_paused_lease(
            machine_id="held", bid=D("0.2"), price_to_win=D("0.21"), on_demand_price=D(1), spans=spans
        )
        actions = decided(replace(OFFER, floor=D("0.3")), held=held).actions
        return [action.bid for action in actions if isinstance(action, ChangeBid)]

    assert raised_to(180) == [D("0.231")]
    assert raised_to(5) == [D("0.331")]


def test_a_machine_is_told_from_one_of_the_same_id_on_another_market() -> None:
    """The job has moved: what it may rent now is on one market, the machine that was lost on another."""
    held = a_paused_lease(machine_id="a", bid=D("0.5"), price_to_win=D("0.6"), on_demand_price=D(1))
    actions = decided(replace(OFFER, provider="elsewhere"), held=held).actions
    assert [type(action) for action in actions] == [Release, Acquire]


def test_a_raise_that_the_budget_does_not_cover_is_no_option() -> None:
    held = a_paused_lease(machine_id="held", bid=D("0.2"), price_to_win=D("0.21"), on_demand_price=D(1))
    wide, narrow = (decided(held=held, budget=budget).actions for budget in (D(20), D("0.01")))
    assert any(isinstance(action, ChangeBid) for action in wide)
    assert not any(isinstance(action, ChangeBid) for action in narrow)


@pytest.mark.parametrize(
    "limits", [{"deadline": None}, {"deadline": None, "work_estimate": None}, {"fall_back": False}]
)
def test_without_a_guarantee_the_bid_is_that_of_the_cheapest_hour_of_work(limits: dict[str, Any]) -> None:
    assert bid(**limits) == D("0.220")


def test_without_a_deadline_nothing_is_bought_on_demand_for_want_of_a_bid() -> None:
    dear = an_offer("a", floor=D("0.95"), on_demand_price=D(1))
    assert decided(dear, deadline=None).actions == ()
    assert decided(dear, hours=6.9, fall_back=False).actions == ()


def test_starts_that_take_long_on_a_market_are_held_for() -> None:
    """Half of the launches come to nothing there: five tries may be needed, each for as long as a silent machine is
    waited for."""
    record = HostRecord("vastai", "x", "x", "RTX 4090", START, launches=100.0, failed=50.0)
    duds = KnownHosts.of({record.key: record})
    assert decided(held=machine(300, bid=D("0.22")), hours=7.5).actions == ()
    (action,) = decided(held=machine(300, bid=D("0.22")), hours=7.5, hosts=duds).actions
    assert isinstance(action, Acquire)
    assert (action.capacity_type, action.reason) == (CapacityType.ON_DEMAND, Reason.DEADLINE)
