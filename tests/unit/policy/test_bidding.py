from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from autopilot.domain.params import BidRules, Params
from autopilot.pricing.rule.bidding import ceiling, first_bid, raised_bid
from tests.builders import D, a_lease, a_spec, an_offer

P = Params(bids=BidRules(markup=D("1.15"), over_winning=D("1.20"), max_rebids=3))


def dollars(text: str | None) -> Decimal | None:
    return None if text is None else D(text)


@pytest.mark.parametrize(
    ("max_bid", "max_hourly", "on_demand", "limit"),
    [
        (None, None, None, None),
        (None, None, "0.600", "0.539"),
        (None, None, "0.6017", "0.541"),  # 0.54153 rounded down to a bid
        ("0.500", None, "0.600", "0.500"),
        ("0.500", "0.400", "0.600", "0.400"),
        ("0.700", None, "0.600", "0.539"),
        ("0.500", None, None, "0.500"),
    ],
)
def test_the_ceiling_is_the_lowest_bound(
    max_bid: str | None, max_hourly: str | None, on_demand: str | None, limit: str | None
) -> None:
    spec = a_spec(max_bid=dollars(max_bid), max_hourly=dollars(max_hourly))
    assert ceiling(spec, dollars(on_demand), P) == dollars(limit)


@pytest.mark.parametrize(
    ("floor", "on_demand", "bid"),
    [
        ("0.200", "0.600", "0.230"),
        ("0.2001", "0.600", "0.231"),  # rounded up, so that it wins
        ("0.500", "0.600", "0.539"),  # no room for the whole markup
        ("0.540", "0.600", None),
        ("0.539", "0.600", "0.539"),
        ("0.541", "0.600", None),
        ("0", "0.600", "0.001"),
        (None, "0.600", None),
        ("0.200", None, None),
    ],
)
def test_a_first_bid_wins_now_or_is_not_made(floor: str | None, on_demand: str | None, bid: str | None) -> None:
    offer = an_offer(floor=dollars(floor), on_demand_price=dollars(on_demand))
    assert first_bid(a_spec(), offer, P) == dollars(bid)


@pytest.mark.parametrize(
    ("rate", "rebids", "bid"),
    [
        ("0.300", 0, "0.362"),
        ("0.300", 2, "0.362"),
        ("0.300", 3, None),
        ("0.500", 0, "0.539"),
        ("0.540", 0, None),
        ("0.560", 0, None),
        ("0.001", 0, "0.003"),  # a fifth of nearly nothing is still a whole unit
    ],
)
def test_a_raise_is_a_fifth_over_what_wins_and_within_the_ceiling(rate: str, rebids: int, bid: str | None) -> None:
    lease = a_lease(bid=D(rate), rebids=rebids, price_to_win=D(rate) + D("0.001"))
    assert raised_bid(a_spec(), lease, P) == dollars(bid)


@pytest.mark.parametrize("pays_bid", [True, False])
@pytest.mark.parametrize("to_win", [None, "0.200", "0.300"])
def test_nothing_is_bid_without_a_rival(pays_bid: bool, to_win: str | None) -> None:
    lease = a_lease(bid=D("0.300"), on_demand_price=D(20), price_to_win=dollars(to_win))
    for budget in (None, D(9)):
        assert raised_bid(a_spec(budget=budget), lease, P, pays_bid=pays_bid) is None


def test_what_the_market_says_to_win_is_no_raise_in_the_dark() -> None:
    lease = a_lease(bid=D("0.300"), on_demand_price=D(20))
    lease = replace(lease, observed=replace(lease.observed, price_to_win=D("1.500")))
    bid = raised_bid(a_spec(), lease, P)
    assert bid is not None
    assert bid > D("1.500")


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        ("bids", {"markup": D("0.99")}),
        ("bids", {"markup": D(11)}),
        ("bids", {"over_winning": D("0.9")}),
        ("bids", {"ceiling_of_on_demand": D(1)}),
        ("bids", {"ceiling_of_on_demand": D(0)}),
        ("bids", {"max_rebids": -1}),
        ("deadline", {"estimate_error": -0.1}),
        ("hazard", {"preemptions_per_h": -1}),
        ("auction", {"rebid_gap_s": -1}),
        ("timing", {"setup_s": -1}),
        ("budget", {"tail_h": -1}),
        ("loading", {"preparing_mbps": 0}),
    ],
)
def test_parameters_out_of_bounds_are_refused(group: str, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|at least"):
        replace(getattr(Params(), group), **changes)
