"""What the account's limits and credit mean for a job: notes with figures where they keep it from running."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from autopilot.books.budget import account
from autopilot.domain.launches import LaunchCount
from autopilot.domain.lease import LeaseState
from autopilot.domain.market import Allowance
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.planning.account_limits import AccountState, account_notes, paid_until
from autopilot.planning.plan import plan
from autopilot.pricing.rule.cost import price_candidates
from autopilot_lab.memory_store.store import MemoryStore
from tests import store_records
from tests.builders import HOUR, START, D, a_job, a_market, a_spec, an_offer, limits

PARAMS = Params()
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
DAY = timedelta(days=1)


def an_account(
    day: str | None = None, month: str | None = None, left: tuple[Any, ...] = (), **caps: Any
) -> AccountState:
    full = tuple(None if cap is None else D(cap) for cap in (day, month))
    return AccountState(limits(day=full[0], month=full[1], **caps), Allowance(*(left or full)))


def notes(
    account: AccountState,
    expected: str | None = "20",
    offers: tuple[Offer, ...] = (),
    credit: Any = None,
    now: datetime = MIDNIGHT,
    **spec: Any,
) -> str:
    job = a_job(spec=a_spec(**spec))
    market = a_market(*(offers or (dear(),)), credit=credit)
    found = price_candidates(job, market, market.offers, PARAMS)
    return "\n".join(account_notes(job, found, market, account, None if expected is None else D(expected), now, PARAMS))


def dear(**changes: Any) -> Offer:
    """$5/h on spot, $10/h on demand, without a disk's price."""
    return an_offer(**({"floor": D(5) / PARAMS.bids.markup, "on_demand_price": D(10), "storage_price": D(0)} | changes))


def test_without_limits_there_is_nothing_to_say() -> None:
    assert notes(an_account()) == ""
    assert notes(an_account("1000", "10000", max_hourly=D(20)), credit=D(100)) == ""
    assert account_notes(a_job(), [], a_market(), an_account("0"), None, START, PARAMS) == []


def test_limits_on_numbers_that_make_the_job_wait() -> None:
    full = replace(an_account(max_instances=2), left=Allowance(None, None, instances=0))
    assert notes(full).startswith("all 2 machines that the account may have are rented")
    assert notes(replace(full, left=Allowance(None, None, instances=1))) == ""
    account = an_account(launches_per_hour=20)
    assert notes(replace(account, launches_hour=LaunchCount(rented=14))) == ""
    told = notes(replace(account, launches_hour=LaunchCount(rented=15)))
    assert told.startswith("15 machines were rented in the last hour, of 20 that the account may rent (5 are kept")
    assert "refused 200 machines" in notes(replace(account, launches_hour=LaunchCount(refused=200)))


def test_a_rate_above_the_account_s_limit_rents_nothing() -> None:
    said = notes(an_account(max_hourly=D(4)))
    assert said == (
        "nothing can be rented: the cheapest offer costs $5.000/h, disk included, and the account's limit of $4.00/h is"
        " lower; raise [limits] max_hourly, or ask for less in [resources]"
    )
    assert notes(an_account(max_hourly=D(5))) == ""
    with_disk = notes(an_account(max_hourly=D(5)), offers=(dear(storage_price=D("3.6")),))
    assert "costs $5.100/h, disk included" in with_disk


def test_a_deadline_s_on_demand_above_the_limit_is_named() -> None:
    account = an_account(max_hourly=D(6))
    said = notes(account, deadline=MIDNIGHT + DAY)
    assert said.startswith("on-demand capacity, which the deadline may need, costs $10.000/h, disk included")
    assert said.endswith("or expect to miss the deadline")
    assert notes(account) == notes(account, deadline=MIDNIGHT + DAY, fall_back=False) == ""


def test_credit_that_does_not_cover_a_start_is_named_with_the_figures() -> None:
    said = notes(an_account(), credit=D("0.05"))
    assert said.startswith(
        "vastai can rent nothing to this job: a start sets $1.00 aside, and the account there has $0.05"
    )
    assert said.endswith("pay in there")
    assert notes(an_account(), credit=D("1.10")) == ""
    assert notes(an_account(), credit=None) == ""


def test_a_day_s_cap_that_pays_for_hours_only() -> None:
    said = notes(an_account("50"), "100")
    assert said == (
        "the account limit of $50.00 a day pays for about 10.0 h a day of this at $5.000/h: the job is parked for the"
        " rest of each day, unless [limits] day is raised"
    )
    assert notes(an_account("50"), "49") == ""
    # Twelve hours across midnight never meet the cap, although they cost more than it is.
    assert notes(an_account("50"), "60", now=MIDNIGHT + 18 * HOUR) == ""
    assert "10.0 h a day" in notes(an_account("50"), None)
    # Nobody knows whether it runs for so long that the month's cap is met.
    assert notes(an_account("500", "600"), None) == ""


def test_a_deadline_that_the_caps_cannot_pay_for() -> None:
    account = an_account("50")
    late = notes(account, "168", deadline=MIDNIGHT + 2 * DAY)
    assert late.splitlines()[-1] == (
        "until the deadline the account's limits pay for about $100.00 of the expected $168.00: raise [limits] day, or"
        " expect to miss the deadline"
    )
    in_time = notes(account, "168", deadline=MIDNIGHT + 4 * DAY)
    assert "parked for the rest of each day" in in_time
    assert "expect to miss the deadline" not in in_time


def test_what_is_left_of_today_and_of_the_month() -> None:
    today = notes(an_account("200", left=(D(10), None)), "30")
    assert today == (
        "$10.00 is left of the account limit of $200.00 a day, which pays for about 2.0 h of this at $5.000/h: the job"
        " then waits until 00:00 UTC, unless [limits] day is raised"
    )
    month = notes(an_account("200", "500", left=(D(200), D(-3))), "30", deadline=MIDNIGHT + 3 * DAY)
    assert "the account limit of $500.00 a month, of which $0.00 is left, is reached" in month
    assert "about $0.00 of the expected $30.00: raise [limits] month" in month


def test_a_cap_below_the_reserve_of_a_start() -> None:
    said = notes(an_account("0.50"), "30")
    assert said.startswith(
        "nothing can be rented: a start sets $1.00 aside, more than the account's limit of $0.50 a day"
    )


@pytest.mark.parametrize(
    ("until", "expected", "paid"),
    [
        pytest.param(MIDNIGHT + DAY, "30", "30", id="the-work-ends-first"),
        pytest.param(MIDNIGHT + DAY, "90", "50", id="one-day"),
        pytest.param(MIDNIGHT + DAY + 2 * HOUR, "90", "60", id="two-hours-more"),
        pytest.param(MIDNIGHT + 30 * DAY, "900", "650", id="a-new-month-has-its-own-cap"),
    ],
)
def test_what_the_caps_pay_for(until: datetime, expected: str, paid: str) -> None:
    account = an_account("50", "300", left=(D(50), D(350)))
    assert paid_until(until, D(5), D(expected), account, MIDNIGHT).paid == D(paid)


def test_the_plan_carries_them() -> None:
    job, market = a_job(spec=a_spec(work_estimate=HOUR * 30)), a_market(dear())
    body = json.loads(json.dumps(plan(job, market, START, PARAMS, account=an_account("50")).answer))
    assert any("$50.00 a day pays for about 10.0 h a day" in note for note in body["notes"])
    assert plan(job, market, START, PARAMS, account=an_account()).answer["notes"] == body["notes"][:-1]


async def test_what_is_left_is_told_by_the_ledger() -> None:
    store = MemoryStore()
    lease = store_records.a_lease(state=LeaseState.GONE, instance_id="1")
    entry = store_records.an_entry("a", "3", lease=lease)
    async with store.transaction() as work:
        await work.jobs.save(store_records.a_job(leases=(lease,)))
        await work.ledger.post([entry])
    now = datetime.combine(entry.day, time(12), UTC)
    async with store.snapshot() as uow:
        found = await account(uow, limits(day=D(50), month=D(500)), now, PARAMS)
        tomorrow = await account(uow, limits(day=D(50), month=None), now + DAY, PARAMS)
    assert (found.left.day, found.left.month) == (D(47), D(497))
    assert (tomorrow.left.day, tomorrow.left.month) == (D(50), None)
