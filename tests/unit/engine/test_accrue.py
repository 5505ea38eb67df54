"""Posting: totals less what is posted, each total once, each day by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease, LeaseState, cost_by_day
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.engine.accrue import accruals, reserve, void
from tests.builders import START, D, a_lease, an_intent, at

COMPUTE, STORAGE = CostKind.COMPUTE, CostKind.STORAGE
TODAY = START.date()


def total(entries: list[LedgerEntry]) -> dict[tuple[CostKind, date], Decimal]:
    sums: dict[tuple[CostKind, date], Decimal] = {}
    for entry in entries:
        sums[entry.kind, entry.day] = sums.get((entry.kind, entry.day), D(0)) + entry.amount
    return sums


def running(rate: str = "0.36", started: datetime = START) -> Lease:
    return an_intent().billed_as(InstanceStatus.RUNNING, D(rate), D("0.0036"), started)


def test_nothing_is_posted_before_it_is_worth_a_cent() -> None:
    lease = running()
    entries, unposted = accruals(lease, {}, at(99))
    assert (entries, unposted) == ([], D("0.009999"))
    entries, unposted = accruals(lease, {}, at(100))
    assert [(entry.kind, entry.amount) for entry in entries] == [(COMPUTE, D("0.01"))]
    assert unposted == D("0.0001")


def test_only_the_difference_to_what_is_posted_is_posted() -> None:
    lease = running()
    entries, unposted = accruals(lease, {(COMPUTE, TODAY): D("0.30")}, at(3600))
    assert [(entry.kind, entry.amount) for entry in entries] == [(COMPUTE, D("0.06"))]
    assert unposted == D("0.0036")
    assert accruals(lease, {(COMPUTE, TODAY): D("0.36"), (STORAGE, TODAY): D("0.0036")}, at(3600)) == ([], D(0))


def test_more_posted_than_accrued_is_left_to_the_settlement() -> None:
    assert accruals(running(), {(COMPUTE, TODAY): D(1)}, at(3600)) == ([], D("0.0036"))


def test_a_lease_that_is_over_posts_to_the_last_nano_dollar() -> None:
    lease = replace(running().unbilled(at(10)), state=LeaseState.GONE)
    entries, unposted = accruals(lease, {}, at(500))
    assert total(entries) == {(COMPUTE, TODAY): D("0.001"), (STORAGE, TODAY): D("0.00001")}
    assert unposted == 0


def test_a_day_that_is_over_is_posted_in_full_and_spend_at_midnight_is_split() -> None:
    lease = running(started=datetime(2028, 2, 28, 23, tzinfo=UTC))
    midnight = datetime(2028, 2, 29, tzinfo=UTC)
    entries, unposted = accruals(lease, {}, midnight + timedelta(seconds=10))
    assert total(entries) == {(COMPUTE, date(2028, 2, 28)): D("0.36"), (STORAGE, date(2028, 2, 28)): D("0.0036")}
    assert unposted == D("0.00101")
    entries, _ = accruals(lease, total(entries), midnight + timedelta(days=1, hours=1))
    assert total(entries) == {
        (COMPUTE, date(2028, 2, 29)): D("8.64"),
        (STORAGE, date(2028, 2, 29)): D("0.0864"),
        (COMPUTE, date(2028, 3, 1)): D("0.36"),
    }


def test_a_replay_makes_the_same_ids_and_a_new_total_new_ones() -> None:
    lease = running()
    first, _ = accruals(lease, {}, at(3600))
    replayed, _ = accruals(lease, {}, at(3600))
    later, _ = accruals(lease, total(first), at(7200))
    assert [entry.id for entry in first] == [entry.id for entry in replayed]
    assert not {entry.id for entry in first} & {entry.id for entry in later}


def test_a_replay_after_a_crash_at_another_moment_makes_the_same_ids() -> None:
    over = replace(running().unbilled(at(3600)), state=LeaseState.GONE)
    first, again = accruals(over, {}, at(4000))[0], accruals(over, {}, at(5000))[0]
    assert [entry.id for entry in first] == [entry.id for entry in again]


def test_an_entry_says_whose_it_is() -> None:
    lease = running()
    (entry,), _ = accruals(lease, {}, at(3600))
    assert (entry.type, entry.lease_id, entry.job_id, entry.provider, entry.day, entry.posted_at) == (
        EntryType.ACCRUE,
        "lease-1",
        "job-1",
        "vastai",
        TODAY,
        at(3600),
    )


def test_an_intent_costs_nothing_by_itself() -> None:
    assert accruals(an_intent(), {}, at(100_000)) == ([], D(0))


def test_ticks_of_any_length_post_the_same_total() -> None:
    lease, ids = running("0.3333"), set[str]()
    posted: list[LedgerEntry] = []
    for now in (at(n * 37) for n in range(1, 400)):
        due, _ = accruals(lease, total(posted), now)
        assert not ids & {entry.id for entry in due}
        ids |= {entry.id for entry in due}
        posted += due
    end = at(400 * 37)
    over = replace(lease.unbilled(end), state=LeaseState.GONE)
    posted += accruals(over, total(posted), end)[0]
    assert total(posted) == cost_by_day(over, end)


def test_a_void_takes_back_the_whole_reserve_and_names_it() -> None:
    lease = a_lease(intended_at=datetime(2026, 11, 20, 23, 59, tzinfo=UTC))
    opened = reserve(lease, lease.intended_at)
    closed = void(lease, lease.intended_at + timedelta(days=3))
    assert (opened.type, closed.type) == (EntryType.RESERVE, EntryType.VOID)
    assert closed.corrects == opened.id
    assert opened.amount + closed.amount == 0
    assert opened.day == closed.day
    assert void(lease, lease.intended_at + timedelta(days=9)).id == closed.id
