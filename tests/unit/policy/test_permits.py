"""How long a machine may work on unheard: by what the limits leave, and by what other machines may bill meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.policy.budget import PERMIT_LEAST_S, SHORT_PERMIT_S, covers_raise, stop_cost
from autopilot.policy.permits import PermitBound, give_permit_s
from tests.builders import START, D, a_job, a_lease, a_spec

P = Params()
BURN = D("0.304")
"""Of a lease of the builders, $/h."""


def given(lease: Lease, left: Decimal | None, *others: Lease) -> int:
    bound = PermitBound(left, (lease, *others))
    return give_permit_s(lease, [bound], SHORT_PERMIT_S, START, P, may_be_long=False)


def under_permit(lease: Lease, ttl_s: int, ago_s: int = 0) -> Lease:
    renewed_at = START - timedelta(seconds=ago_s)
    return replace(lease, permit=replace(lease.permit, renewed_at=renewed_at, ttl_s=ttl_s))


def for_s(seconds: int, machines: int = 1) -> Decimal:
    """What so many machines bill in that time, dollars."""
    return machines * BURN * seconds / 3600


@pytest.mark.parametrize(
    ("left", "expected_s"),
    [
        pytest.param(None, SHORT_PERMIT_S, id="no limit"),
        pytest.param(D(10), SHORT_PERMIT_S, id="far from it"),
        pytest.param(for_s(600), PERMIT_LEAST_S + 300, id="half of what is left"),
        pytest.param(D(0), PERMIT_LEAST_S, id="at it: the time of a stop is held back"),
        pytest.param(D(-1), PERMIT_LEAST_S, id="beyond it"),
    ],
)
def test_a_permit_uses_half_of_what_a_limit_leaves(left: Decimal | None, expected_s: int) -> None:
    assert given(a_lease(), left) == expected_s


def test_machines_share_that_half() -> None:
    assert given(a_lease(), for_s(1200), a_lease("x")) == PERMIT_LEAST_S + 300


def test_what_another_machine_may_still_bill_is_not_given_again() -> None:
    """The other has not heard that it is to share."""
    other = under_permit(a_lease("x"), SHORT_PERMIT_S)
    may_bill_s = SHORT_PERMIT_S - PERMIT_LEAST_S
    assert given(a_lease(), for_s(may_bill_s + 60), other) == PERMIT_LEAST_S + 60
    assert given(a_lease(), for_s(may_bill_s), other) == PERMIT_LEAST_S


def test_no_permit_ends_before_the_one_that_it_replaces() -> None:
    assert given(under_permit(a_lease(), SHORT_PERMIT_S, ago_s=60), D(0)) == SHORT_PERMIT_S - 60
    assert given(under_permit(a_lease(), SHORT_PERMIT_S, ago_s=3600), D(0)) == PERMIT_LEAST_S
    of_a_wrong_clock = under_permit(a_lease(), SHORT_PERMIT_S, ago_s=-60)
    assert given(of_a_wrong_clock, D(0)) == PERMIT_LEAST_S


def test_a_raise_is_covered_with_what_the_permit_then_bills() -> None:
    bid, disk = D("0.360"), D("0.004")
    heard = under_permit(a_lease(), SHORT_PERMIT_S)
    outstanding = (bid + disk) * (SHORT_PERMIT_S - PERMIT_LEAST_S) / 3600
    enough = stop_cost(bid, disk, P) + outstanding

    def is_covered(budget: Decimal | None, lease: Lease = heard) -> bool:
        return covers_raise(a_job(lease, spec=a_spec(budget=budget)), lease, bid, START, P)

    assert is_covered(enough)
    assert is_covered(None)
    assert not is_covered(enough - D("0.000000001"))
    assert is_covered(enough - outstanding, under_permit(a_lease(), SHORT_PERMIT_S, ago_s=SHORT_PERMIT_S))
