"""Posting: totals less what is posted, each total once, each day by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.lease import Lease, LeaseState, cost_by_day
from autopilot.domain.ledger import EntryType, LeaseBooks, LedgerEntry
from autopilot.domain.money import NANO
from autopilot.domain.params import Params
from autopilot.engine.accrue import accruals, reserve_change
from autopilot.policy.budget import commitment
from tests.builders import START, D, a_lease, an_intent, at, heartbeat

COMPUTE, STORAGE = CostKind.COMPUTE, CostKind.STORAGE_RUNNING
TODAY = START.date()


def total(entries: list[LedgerEntry]) -> dict[tuple[CostKind, date], Decimal]:
    sums: dict[tuple[CostKind, date], Decimal] = {}
    for entry in entries:
        sums[entry.kind, entry.day] = sums.get((entry.kind, entry.day), D(0)) + entry.amount
    return sums


def running(rate: str = "0.36", started: datetime = START) -> Lease:
    """Shown so, by every list."""
    lease = an_intent().bill_as(InstanceStatus.RUNNING, D(rate), D("0.0036"), started)
    return watched_until(lease, started + timedelta(days=99))


def watched_until(lease: Lease, until: datetime) -> Lease:
    return replace(lease, observed=replace(lease.observed, seen_at=until))


def test_unwatched_time_is_not_posted() -> None:
    lease = watched_until(running(), at(100))
    entries, unposted = accruals(lease, {}, at(5000))
    assert (total(entries), unposted) == ({(COMPUTE, TODAY): D("0.01")}, D("0.0001"))
    entries, _ = accruals(lease.stop_billing(at(4000)), {}, at(5000))
    assert total(entries)[COMPUTE, TODAY] == D("0.4"), "somebody knows its end"


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
    lease = replace(running().stop_billing(at(10)), state=LeaseState.GONE)
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
    over = replace(running().stop_billing(at(3600)), state=LeaseState.GONE)
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
    over = replace(lease.stop_billing(end), state=LeaseState.GONE)
    posted += accruals(over, total(posted), end)[0]
    assert total(posted) == cost_by_day(over, end)


def test_traffic_that_agents_report_is_accrued_on_the_day_on_which_it_was_heard_of() -> None:
    lease = a_lease(upload_price=D("0.02"), download_price=D("0.004"), download_gb=D(10))
    lease = evolve_lease(lease, heartbeat(lease, at(60), sent_bytes=3_000_000_000))
    lease = evolve_lease(lease, heartbeat(lease, at(120), sent_bytes=2_000_000_000))
    lease = evolve_lease(lease, heartbeat(lease, at(180), boot=2, seq=0, sent_bytes=1_000_000_000))
    tomorrow = START + timedelta(days=1)
    lease = evolve_lease(lease, heartbeat(lease, tomorrow, boot=2, sent_bytes=2_500_000_000))
    entries, _ = accruals(lease, {}, tomorrow)
    traffic = {entry.day: entry.amount for entry in entries if entry.kind is CostKind.BANDWIDTH}
    assert traffic == {TODAY: 4 * D("0.02"), tomorrow.date(): D("0.03")}, "what setting up received is only held back"


def test_a_claim_counts_as_far_as_it_can_be_true_and_the_rest_when_it_is() -> None:
    lease, counted = a_lease(upload_gb=D(5)), []
    for seconds, boot, claimed, most in (
        (10, 1, 10**17, 5_000),  # the store has taken so much
        (20, 1, 10**17, 5_000),
        (30, 1, 10**17, 8_000),  # and now more: the same claim was not forgotten
        (40, 1, 7_000, 9_000),  # a counter does not go back
        (50, 1, 8_500, 8_200),
        (60, 2, 600, 9_000),  # a new boot; the one before may have sent a whole checkpoint
        (70, 2, 700, 9_100),
    ):
        lease = evolve_lease(lease, heartbeat(lease, at(seconds), boot=boot, sent_bytes=claimed, most_bytes=most))
        counted.append(sum(int(str(sent)) for _, sent in lease.traffic.sent_by_day))
    assert counted == [5_000, 5_000, 8_000, 8_000, 8_200, 9_000, 9_100]


def test_a_disk_is_told_apart_by_whether_its_machine_is_stopped() -> None:
    lease = running().bill_as(InstanceStatus.STOPPED, D("0.36"), D("0.0036"), at(3600))
    entries, _ = accruals(replace(lease.stop_billing(at(10_800)), state=LeaseState.GONE), {}, at(10_800))
    assert total(entries) == {
        (COMPUTE, TODAY): D("0.36"),
        (STORAGE, TODAY): D("0.0036"),
        (CostKind.STORAGE_STOPPED, TODAY): D("0.0072"),
    }


def test_what_is_set_aside_follows_what_the_lease_commits_to() -> None:
    books, posted = LeaseBooks(), list[LedgerEntry]()
    intent = an_intent(reserved=D("0.50"))
    live = a_lease()
    raised, gone = replace(live, bid=D("0.6")), replace(live, state=LeaseState.GONE)
    for lease in (intent, intent, live, live, raised, live, gone, gone):
        entry = reserve_change(lease, books, commitment(lease, Params()), at(len(posted)))
        if entry is not None:
            books, posted = books.with_entry(entry), [*posted, entry]
        assert books.reserved == commitment(lease, Params())
    kinds = [EntryType.RESERVE, EntryType.VOID, EntryType.RESERVE, EntryType.VOID, EntryType.VOID]
    assert [entry.type for entry in posted] == kinds
    assert [entry.corrects for entry in posted] == [None, *(entry.id for entry in posted[:-1])]
    assert len({entry.id for entry in posted}) == len(posted)
    assert {entry.day for entry in posted} == {TODAY}


def test_less_than_a_cent_is_not_given_back_while_the_lease_lives_and_more_is_always_set_aside() -> None:
    held = commitment(a_lease(), Params())
    books = LeaseBooks(reserved=held + D("0.009"), reserve_rows=1)
    assert reserve_change(a_lease(), books, held, START) is None
    books = replace(books, reserved=held - NANO)
    entry = reserve_change(a_lease(), books, held, START)
    assert entry is not None
    assert (entry.type, entry.amount) == (EntryType.RESERVE, NANO)
