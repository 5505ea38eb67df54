"""Reconciliation: the ledger takes the market's figures, line by line, and says so when they drift."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from autopilot.domain.instance import Charge, CostKind, InstanceStatus
from autopilot.domain.lease import AgentReport, BillWait, Lease, LeaseState, Span
from autopilot.domain.ledger import SPEND_TYPES, EntryType, InvoiceLine, LedgerEntry
from autopilot.domain.reasons import Reason
from autopilot.engine.invoices import (
    GIVE_UP_AFTER,
    LOOKS_APART,
    UNFINISHED_FOR,
    Reconciled,
    is_due,
    reconcile,
    tolerance,
    window,
)
from tests.builders import HOUR, START, D, a_lease, at
from tests.leases import change_lease

COMPUTE, DISK, STOPPED, BANDWIDTH = (
    *(CostKind.COMPUTE, CostKind.STORAGE_RUNNING, CostKind.STORAGE_STOPPED, CostKind.BANDWIDTH),
)
TODAY, NEXT_DAY = START.date(), START.date() + timedelta(days=1)
LEASE = a_lease(state=LeaseState.GONE, gone_at=at(3600), instance_id="77")
NOW = at(7200)
JUST_BEFORE = timedelta(seconds=-1)


def charge(kind: CostKind, amount: str, day: date = TODAY, instance_id: str = "77") -> Charge:
    return Charge(instance_id, day, kind, D(amount))


class Book:
    """A ledger of one lease: what was accrued, and every look at the bill since."""

    def __init__(self, accrued: dict[tuple[CostKind, date], str], lease: Lease = LEASE) -> None:
        self.lease = lease
        self.lines: dict[str, InvoiceLine] = {}
        self.entries: dict[str, LedgerEntry] = {}
        for (kind, day), amount in accrued.items():
            self.accrue(kind, day, amount)

    def accrue(self, kind: CostKind, day: date, amount: str) -> None:
        number = len(self.entries)
        entry = LedgerEntry(f"a{number}", EntryType.ACCRUE, kind, "lease-1", "job-1", "vastai", day, D(amount), START)
        self.entries[entry.id] = entry

    def look(self, charges: Iterable[Charge], after: timedelta = HOUR) -> Reconciled:
        """``after``: the end of the lease."""
        now = (self.lease.ending.gone_at or START) + after
        found = reconcile(self.lease, self.entries.values(), self.lines.values(), charges, now)
        for line in found.lines:
            self.lines.setdefault(line.id, line)
        for entry in found.entries:
            assert entry.id not in self.entries, "an id came back"
            self.entries[entry.id] = entry
        return found

    def look_twice(self, charges: Iterable[Charge], after: timedelta = HOUR) -> Reconciled:
        """The second look, an hour after the first."""
        self.look(charges, after)
        return self.look(charges, after + LOOKS_APART)

    def spent(self, kind: CostKind | None = None, day: date | None = None) -> Decimal:
        return sum(
            (
                entry.amount
                for entry in self.entries.values()
                if entry.type in SPEND_TYPES and kind in (None, entry.kind) and day in (None, entry.day)
            ),
            D(0),
        )


def test_the_difference_is_posted_into_the_day_it_belongs_to() -> None:
    book = Book({(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.004", (COMPUTE, NEXT_DAY): "0.10"})
    bill = [charge(COMPUTE, "0.355"), charge(DISK, "0.004"), charge(COMPUTE, "0.101", NEXT_DAY)]
    found = book.look(bill)
    assert [(entry.kind, entry.day, entry.amount) for entry in found.entries] == [
        (COMPUTE, TODAY, D("-0.005")),
        (COMPUTE, NEXT_DAY, D("0.001")),
    ]
    assert (found.is_final, found.waits_for, found.held) == (False, BillWait.SECOND_LOOK, D("0.004"))
    assert book.look(bill, HOUR + LOOKS_APART) == replace(
        found, lines=(), entries=(), is_final=True, waits_for=None, held=D(0)
    )


def test_within_rounding_it_settles_beyond_it_adjusts_and_is_an_alert() -> None:
    near = Book({(COMPUTE, TODAY): "0.36"}).look([charge(COMPUTE, "0.35")])
    assert ([e.type for e in near.entries], near.has_drifted) == ([EntryType.SETTLE], False)
    far = Book({(COMPUTE, TODAY): "0.36"}).look_twice([charge(COMPUTE, "0.349")])
    assert ([e.type for e in far.entries], far.has_drifted, far.drift) == ([EntryType.ADJUST], True, D("-0.011"))
    assert tolerance(D(20)) == D("0.02")
    large = Book({(COMPUTE, TODAY): "20"}).look([charge(COMPUTE, "20.02")])
    assert ([e.type for e in large.entries], large.has_drifted) == ([EntryType.SETTLE], False)


def test_an_entry_names_the_line_that_it_takes_over_and_the_entry_that_it_corrects() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    (entry,) = book.look_twice([charge(COMPUTE, "0.30")]).entries
    (line,) = book.lines.values()
    assert (entry.line_id, entry.corrects, entry.day) == (line.id, "a0", TODAY)
    assert (line.id, line.amount, line.revision) == (f"vastai:77:compute:{TODAY}:r1", D("0.30"), 1)


def test_a_later_figure_is_a_new_revision_and_an_adjustment_of_the_day_it_belongs_to() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    book.look([charge(COMPUTE, "0.36")])
    (entry,) = book.look([charge(COMPUTE, "0.363")], timedelta(days=20)).entries
    assert (entry.type, entry.amount, entry.day) == (EntryType.ADJUST, D("0.003"), TODAY)
    assert entry.posted_at == at(3600) + timedelta(days=20)
    assert book.look([charge(COMPUTE, "0.36")], timedelta(days=30)).entries[0].amount == D("-0.003")
    assert [line.revision for line in book.lines.values()] == [1, 2, 3]
    assert book.spent() == D("0.36")


def test_a_look_repeated_posts_nothing() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    book.look([charge(COMPUTE, "0.355")])
    soon = book.look([charge(COMPUTE, "0.355")], HOUR + LOOKS_APART + JUST_BEFORE)
    assert (soon.lines, soon.entries, soon.is_final) == ((), (), False)
    again = book.look([charge(COMPUTE, "0.355")], HOUR + LOOKS_APART)
    assert (again.lines, again.entries, again.is_final) == ((), (), True)


def test_a_look_replayed_after_a_crash_makes_the_same_ids() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    first = reconcile(LEASE, book.entries.values(), (), [charge(COMPUTE, "0.355")], NOW)
    again = reconcile(LEASE, book.entries.values(), (), [charge(COMPUTE, "0.355")], NOW + HOUR)
    assert [e.id for e in first.entries] == [e.id for e in again.entries]
    assert [line.id for line in first.lines] == [line.id for line in again.lines]


def test_more_accrual_after_a_settlement_is_corrected_again() -> None:
    """The market brought the instance back, we accrued, and it billed nothing for that."""
    book = Book({(COMPUTE, TODAY): "0.36"})
    book.look([charge(COMPUTE, "0.355")])
    book.accrue(COMPUTE, TODAY, "0.005")
    book.look([charge(COMPUTE, "0.355")])
    book.accrue(COMPUTE, TODAY, "0.005")
    book.look([charge(COMPUTE, "0.355")], 2 * HOUR)
    assert book.spent() == D("0.355")


def test_both_storages_are_compared_with_the_one_line_for_the_disk() -> None:
    book = Book({(DISK, TODAY): "0.02", (STOPPED, TODAY): "0.03"})
    book.look([charge(DISK, "0.045")])
    assert (book.spent(DISK), book.spent(STOPPED)) == (D("0.02"), D("0.025"))


def test_lines_of_one_kind_and_day_add_up_and_those_of_other_instances_do_not_count() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    book.look([charge(COMPUTE, "0.20"), charge(COMPUTE, "0.15"), charge(COMPUTE, "9", instance_id="7")])
    assert book.spent() == D("0.35")


@pytest.mark.parametrize(
    ("reason", "label", "booked"),
    [
        (Reason.TAKEN_OVER, "my-own-machine", "0.36"),
        (Reason.TAKEN_OVER, "", "0.36"),  # RunPod's bill names no label
        (Reason.TAKEN_OVER, LEASE.label, "5.36"),
        (Reason.COMPLETED, "my-own-machine", "5.36"),  # taken over later, or never: it was not seen
        (Reason.VANISHED, "", "5.36"),
        (Reason.VANISHED, LEASE.label, "5.36"),
    ],
)
def test_the_days_after_a_machine_was_seen_to_be_taken_over_are_no_job_s(
    reason: Reason, label: str, booked: str
) -> None:
    book = Book({(COMPUTE, TODAY): "0.30"}, replace(LEASE, reason=reason))
    bill = [charge(COMPUTE, "0.36"), charge(COMPUTE, "5", NEXT_DAY)]
    found = book.look_twice([replace(line, label=label) for line in bill], timedelta(days=2))
    assert book.spent() == D(booked)
    assert found.is_final
    found_again = Book({}, change_lease(book.lease, state=LeaseState.DESTROY_REQUESTED, gone_at=None))
    assert len(found_again.look([replace(line, label=label) for line in bill], timedelta(days=3)).lines) == 2


def test_fees_and_credits_that_our_clock_never_saw_are_taken_over() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    found = book.look([charge(COMPUTE, "0.36"), charge(CostKind.FEE, "0.05"), charge(CostKind.CREDIT, "-0.02")])
    assert (book.spent(CostKind.FEE), book.spent(CostKind.CREDIT)) == (D("0.05"), D("-0.02"))
    assert found.has_drifted


def test_less_traffic_than_was_allowed_for_is_no_drift_but_more_is() -> None:
    accrued = {(COMPUTE, TODAY): "0.36", (BANDWIDTH, TODAY): "0.20"}
    less = Book(accrued)
    assert not less.look([charge(COMPUTE, "0.36"), charge(BANDWIDTH, "0.02")]).has_drifted
    assert less.spent(BANDWIDTH) == D("0.02")
    assert Book(accrued).look([charge(COMPUTE, "0.36"), charge(BANDWIDTH, "0.22")]).has_drifted


def test_traffic_that_a_whole_bill_does_not_name_was_not_billed() -> None:
    book = Book({(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.01", (BANDWIDTH, TODAY): "0.20"})
    assert book.look([charge(COMPUTE, "0.36")]).waits_for is BillWait.LINES_MISSING
    assert book.spent(BANDWIDTH) == D("0.20"), "the disk is not there yet: the bill is unfinished"
    found = book.look([charge(COMPUTE, "0.36"), charge(DISK, "0.01")])
    assert (book.spent(BANDWIDTH), found.waits_for, found.has_drifted) == (D(0), BillWait.SECOND_LOOK, False)
    assert found.held == D("0.20"), "limits go by the higher of the two"
    book.look([charge(COMPUTE, "0.36"), charge(DISK, "0.01"), charge(BANDWIDTH, "0.02")], UNFINISHED_FOR)
    assert book.spent(BANDWIDTH) == D("0.02")


@pytest.mark.parametrize(
    ("accrued", "charges", "wait"),
    [
        ({(COMPUTE, TODAY): "0.36"}, (), BillWait.NO_BILL),
        (
            {(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.004"},
            (charge(COMPUTE, "0.36"),),
            BillWait.LINES_MISSING,
        ),
        (
            {(COMPUTE, TODAY): "0.36", (COMPUTE, NEXT_DAY): "0.10"},
            (charge(COMPUTE, "0.36"),),
            BillWait.LINES_MISSING,
        ),
        ({(COMPUTE, TODAY): "0.36"}, (charge(COMPUTE, "0.349"),), BillWait.TOO_LOW),
    ],
    ids=["no line", "a kind is missing", "a day is missing", "less than it ran up"],
)
def test_a_bill_that_lacks_something_lowers_nothing_until_a_second_look_shows_the_same(
    accrued: dict[tuple[CostKind, date], str], charges: tuple[Charge, ...], wait: BillWait
) -> None:
    book = Book(accrued)
    estimate = book.spent()
    found = book.look(charges)
    assert (found.waits_for, found.is_final, found.entries, book.spent()) == (wait, False, (), estimate)
    assert [line.amount for line in found.lines] == [each.amount for each in charges], "but it is kept as it was seen"
    soon = book.look(charges, HOUR + LOOKS_APART + JUST_BEFORE)
    assert (soon.waits_for, book.spent()) == (wait, estimate)
    found = book.look(charges, HOUR + LOOKS_APART)
    billed = sum((each.amount for each in charges), D(0))
    assert (found.is_final, book.spent()) == ((True, billed) if charges else (False, estimate))


def test_a_bill_in_parts_never_lowers_a_good_estimate() -> None:
    """By our clock $0.2630, in truth $0.2652, of which nine tenths are on the bill at first."""
    book = Book({(COMPUTE, TODAY): "0.2600", (DISK, TODAY): "0.0030"})
    for minutes, compute in ((10, "0.1200"), (40, "0.2371"), (55, "0.2371"), (80, "0.2622")):
        found = book.look([charge(COMPUTE, compute), charge(DISK, "0.0030")], timedelta(minutes=minutes))
        assert book.spent() >= D("0.2630")
        assert not found.is_final
    assert (book.spent(), found.waits_for) == (D("0.2652"), BillWait.SECOND_LOOK)
    found = book.look([charge(COMPUTE, "0.2622"), charge(DISK, "0.0030")], timedelta(minutes=140))
    assert (book.spent(), found.is_final) == (D("0.2652"), True)


def test_a_part_that_is_higher_than_our_figure_counts_at_once() -> None:
    book = Book({(COMPUTE, TODAY): "0.36", (COMPUTE, NEXT_DAY): "0.10"})
    assert book.look([charge(COMPUTE, "0.40")]).waits_for is BillWait.LINES_MISSING
    assert (book.spent(day=TODAY), book.spent(day=NEXT_DAY)) == (D("0.40"), D("0.10"))


def test_a_bill_whose_periods_do_not_reach_the_end_is_unfinished_however_often_it_is_shown() -> None:
    lease = change_lease(
        LEASE, spans=(Span(InstanceStatus.RUNNING, D("0.36"), D(0), START, at(3600)),), last_seen_at=at(3600)
    )
    book = Book({(COMPUTE, TODAY): "0.36"}, lease)

    def until(seconds: int) -> list[Charge]:
        return [replace(charge(COMPUTE, "0.352"), periods=((START, at(600)), (at(600), at(seconds))))]

    assert book.look_twice(until(1800)).waits_for is BillWait.PERIODS_MISSING
    assert book.spent() == D("0.36")
    holed = [replace(charge(COMPUTE, "0.352"), periods=((START, at(600)), (at(1800), at(3600))))]
    assert book.look(holed, 3 * HOUR).waits_for is BillWait.PERIODS_MISSING
    assert book.look(until(3600), 4 * HOUR).is_final, "the figure was seen before; now it is about the whole life"
    assert book.spent() == D("0.352")


def test_an_open_span_ends_with_its_machine_and_a_machine_that_no_list_showed_is_doubted_from_its_end() -> None:
    span = Span(InstanceStatus.RUNNING, D("0.36"), D(0), START, None)
    low = [charge(COMPUTE, "0.171")]
    seen = change_lease(LEASE, spans=(span,), last_seen_at=at(3600) + HOUR)
    assert Book({(COMPUTE, TODAY): "0.36"}, seen).look(low).waits_for is BillWait.TOO_LOW
    unseen = change_lease(LEASE, spans=(span,), last_seen_at=None)
    assert Book({(COMPUTE, TODAY): "0.36"}, unseen).look(low).waits_for is BillWait.TOO_LOW


def test_a_bill_that_leaves_out_the_time_in_which_a_machine_was_stopped_is_unfinished() -> None:
    running = Span(InstanceStatus.RUNNING, D("0.36"), D("0.04"), START, at(3600))
    stopped = Span(InstanceStatus.STOPPED, D(0), D("0.04"), at(3600), at(7200))
    lease = change_lease(LEASE, spans=(running, stopped), last_seen_at=at(7200) + HOUR, gone_at=at(7200))
    book = Book({(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.04", (STOPPED, TODAY): "0.04"}, lease)

    def until(seconds: int) -> list[Charge]:
        periods = ((START, at(seconds)),)
        return [replace(each, periods=periods) for each in (charge(COMPUTE, "0.36"), charge(DISK, "0.079"))]

    assert book.look(until(3600)).waits_for is BillWait.PERIODS_MISSING
    assert book.look(until(7109)).waits_for is BillWait.PERIODS_MISSING, "a little more than $0.001 of disk"
    assert book.look(until(7110)).waits_for is BillWait.SECOND_LOOK, "$0.001 may round to nothing"


def test_the_minute_before_a_machine_stopped_need_not_be_in_a_period_of_the_bill() -> None:
    running = Span(InstanceStatus.RUNNING, D("3.6"), D(0), START, at(600))
    stopped = Span(InstanceStatus.STOPPED, D(0), D(0), at(600), at(760))
    lease = change_lease(LEASE, spans=(running, stopped), last_seen_at=at(760) + HOUR, gone_at=at(760))

    def until(seconds: int) -> list[Charge]:
        return [replace(charge(COMPUTE, "0.60"), periods=((START, at(seconds)),))]

    assert Book({(COMPUTE, TODAY): "0.60"}, lease).look(until(540)).waits_for is BillWait.SECOND_LOOK
    assert Book({(COMPUTE, TODAY): "0.60"}, lease).look(until(530)).waits_for is BillWait.PERIODS_MISSING


def test_unobserved_time_is_on_the_bill_or_it_is_not() -> None:
    """Half an hour in sight, then the daemon was dead for an hour, and found the machine stopped since long."""
    seen = Span(InstanceStatus.RUNNING, D("0.36"), D("0.004"), START, at(1800))
    dead = replace(seen, started_at=at(1800), ended_at=at(5400), is_observed=False)
    stopped = Span(InstanceStatus.STOPPED, D(0), D("0.004"), at(5400), at(7200))
    lease = change_lease(LEASE, spans=(seen, dead, stopped), last_seen_at=at(7200), gone_at=at(7200))
    accrued = {(COMPUTE, TODAY): "0.54", (DISK, TODAY): "0.008"}
    book = Book(accrued, lease)
    bill = [charge(COMPUTE, "0.19"), charge(DISK, "0.008")]
    found = book.look(bill, timedelta(minutes=10))
    assert (book.spent(), found.waits_for, found.held) == (D("0.198"), BillWait.SECOND_LOOK, D("0.35"))
    found = book.look(bill, timedelta(minutes=70))
    assert (book.spent(), found.is_final, found.held) == (D("0.198"), True, D(0))
    watched = Book(accrued, replace(lease, spans=(seen, replace(dead, is_observed=True), stopped)))
    assert watched.look(bill, timedelta(minutes=10)).waits_for is BillWait.TOO_LOW
    assert watched.spent() == D("0.548")


def test_a_day_without_observations_needs_no_line() -> None:
    """$0.051 were billed; our clock had a machine computing through the night that had been stopped."""
    midnight = START.replace(hour=0) + timedelta(days=1)
    seen = Span(InstanceStatus.RUNNING, D("0.10"), D(0), START, START + timedelta(minutes=30))
    dead = replace(seen, started_at=seen.ended_at or START, ended_at=midnight + 2 * HOUR, is_observed=False)
    lease = change_lease(LEASE, spans=(seen, dead), last_seen_at=dead.ended_at, gone_at=dead.ended_at)
    book = Book({(COMPUTE, TODAY): "1.35", (COMPUTE, NEXT_DAY): "0.20"}, lease)
    found = book.look([charge(COMPUTE, "0.051")], timedelta(minutes=10))
    assert (book.spent(), book.spent(day=NEXT_DAY), found.waits_for) == (D("0.051"), D(0), BillWait.SECOND_LOOK)


def test_what_changed_since_is_not_yet_believed() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    book.look([charge(COMPUTE, "0.36")])
    assert not book.look([charge(COMPUTE, "0.361")], 3 * HOUR).is_final
    assert not book.look([], 4 * HOUR).is_final, "a line that is no longer shown is no agreement either"
    assert book.look([charge(COMPUTE, "0.361")], 5 * HOUR).is_final


def test_a_bill_is_held_against_what_the_machine_must_have_cost_not_against_what_it_may_have_cost() -> None:
    """Half an hour in sight, then half an hour in which it may have lived on, all of it accrued."""
    lease = replace(LEASE, spans=(Span(InstanceStatus.RUNNING, D("0.36"), D("0.004"), START, at(3600)),))
    accrued = {(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.004", (BANDWIDTH, TODAY): "0.20"}
    until_seen = [charge(COMPUTE, "0.171"), charge(DISK, "0.002")]
    in_sight = Book(accrued, change_lease(lease, last_seen_at=at(3600)))
    assert in_sight.look(until_seen).waits_for is BillWait.TOO_LOW
    lost = Book(accrued, change_lease(lease, last_seen_at=at(1800)))
    low = [charge(COMPUTE, "0.15"), charge(DISK, "0.002")]
    assert lost.look(low).waits_for is BillWait.TOO_LOW, "less than it was seen to cost"
    found = lost.look(until_seen)
    assert (lost.spent(), found.waits_for, found.has_drifted) == (D("0.173"), BillWait.SECOND_LOOK, True)


@pytest.mark.parametrize("after", [InstanceStatus.OFFLINE, InstanceStatus.STOPPED])
def test_the_minute_before_a_machine_was_seen_to_run_no_more_may_be_missing_on_the_bill(after: InstanceStatus) -> None:
    """Ten minutes at $3.60 an hour by our clock, the last of which the market may not have had it running."""
    running = Span(InstanceStatus.RUNNING, D("3.6"), D("0.004"), START, at(600))
    ended = Span(after, D(0), D(0), at(600), at(760))
    lease = change_lease(LEASE, spans=(running, ended), last_seen_at=at(760), gone_at=at(760))
    accrued = {(COMPUTE, TODAY): "0.60"}
    assert Book(accrued, lease).look([charge(COMPUTE, "0.54")]).waits_for is BillWait.SECOND_LOOK
    assert Book(accrued, lease).look([charge(COMPUTE, "0.52")]).waits_for is BillWait.TOO_LOW, "it surely ran"
    dearer = replace(running, billed_rate=D("4.0"), started_at=at(600), ended_at=at(760))
    raised = change_lease(lease, spans=(running, dearer), last_seen_at=at(820))
    accrued[COMPUTE, TODAY] = "0.777777778"
    assert Book(accrued, raised).look([charge(COMPUTE, "0.71")]).waits_for is BillWait.TOO_LOW, "it never stopped"


def test_no_bill_at_all_takes_nothing_back_from_a_machine_that_ran_for_less_than_a_minute() -> None:
    running = Span(InstanceStatus.RUNNING, D(2), D("0.004"), START, at(50))
    ended = Span(InstanceStatus.STOPPED, D(0), D("0.004"), at(50), at(200))
    lease = change_lease(LEASE, spans=(running, ended), last_seen_at=at(200), gone_at=at(200))
    book = Book({(COMPUTE, TODAY): "0.0278", (BANDWIDTH, TODAY): "0.30"}, lease)
    assert book.look_twice(()).waits_for is BillWait.NO_BILL
    assert book.spent() == D("0.3278")


def test_a_machine_that_no_list_showed_running_has_run_where_an_agent_reported_from_it() -> None:
    """Without its agent's report it is unknown whether it ever ran, and no bill shows that it did not."""
    unseen = Span(InstanceStatus.PROVISIONING, D("0.36"), D("0.004"), START, at(3600), is_observed=False)
    silent = replace(change_lease(LEASE, spans=(unseen,), last_seen_at=START), agent=AgentReport())
    accrued = {(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.004"}
    assert Book(accrued, silent).look_twice(()).is_final
    reported = replace(silent, agent=AgentReport(seen_at=at(1800)))
    book = Book(accrued, reported)
    found = book.look_twice(())
    assert (found.waits_for, found.held, book.spent()) == (BillWait.NO_BILL, D(0), D("0.364"))
    assert book.look([charge(DISK, "0.004")]).waits_for is BillWait.LINES_MISSING
    assert book.spent() == D("0.364")
    book.look_twice([charge(COMPUTE, "0.12"), charge(DISK, "0.004")], 3 * HOUR)
    assert book.spent() == D("0.124"), "it is not billed for unobserved hours"


def test_a_machine_that_lists_showed_running_has_run_although_each_saw_a_moment_of_it() -> None:
    """Each list fails in between, so nothing that it cost is certain; that it cost nothing is not true either."""
    spans = [
        Span(InstanceStatus.RUNNING, D("0.36"), D("0.004"), at(begins), at(ends), is_observed=begins == ends)
        for begins, ends in ((0, 0), (0, 1800), (1800, 1800), (1800, 3600))
    ]
    lease = change_lease(LEASE, spans=tuple(spans), last_seen_at=at(1800), gone_at=at(3600))
    silent = replace(lease, agent=AgentReport())
    accrued = {(COMPUTE, TODAY): "0.36", (DISK, TODAY): "0.004"}
    assert Book(accrued, silent).look_twice(()).waits_for is BillWait.NO_BILL
    in_parts = Book(accrued, silent)
    assert in_parts.look_twice([charge(DISK, "0.004")]).waits_for is BillWait.LINES_MISSING
    assert in_parts.spent() == D("0.364"), "its hours may be the part that is still to come"
    billed = [charge(COMPUTE, "0.12"), charge(DISK, "0.004")]
    assert Book(accrued, silent).look_twice(billed, 3 * HOUR).is_final


def test_traffic_is_given_back_where_all_that_is_due_rounds_to_nothing() -> None:
    book = Book({(DISK, TODAY): "0.001", (BANDWIDTH, TODAY): "0.20"})
    found = book.look_twice(())
    assert (book.spent(), found.is_final, found.has_drifted) == (D(0), True, False)
    small = Book({(COMPUTE, TODAY): "0.01", (BANDWIDTH, TODAY): "0.20"})
    assert small.look((), UNFINISHED_FOR + JUST_BEFORE).waits_for is BillWait.NO_BILL
    assert small.look((), UNFINISHED_FOR).is_final
    assert small.spent() == D(0)
    small.look([charge(COMPUTE, "0.01"), charge(BANDWIDTH, "0.05")], timedelta(days=20))
    assert small.spent() == D("0.06")


def test_what_setting_up_received_is_held_back_until_the_bill_is_believed() -> None:
    lease = change_lease(LEASE, acquired_at=START, download_price=D("0.01"), download_gb=D(10))
    book = Book({(COMPUTE, TODAY): "0.36"}, lease)
    assert book.look(()).held == D("0.10")
    assert book.look([charge(COMPUTE, "0.36"), charge(BANDWIDTH, "0.03")], 2 * HOUR).held == D("0.07")
    found = book.look([charge(COMPUTE, "0.36"), charge(BANDWIDTH, "0.03")], 3 * HOUR)
    assert (found.is_final, found.held, book.spent()) == (True, D(0), D("0.39"))


def test_a_small_line_that_does_not_come_was_not_billed_and_a_large_one_is_waited_for() -> None:
    """Where the bill does not cover the life: its periods end after the first hour."""
    span = Span(InstanceStatus.RUNNING, D("0.36"), D("0.04"), START, at(3600) + HOUR)
    lease = change_lease(LEASE, spans=(span,), last_seen_at=at(7200), gone_at=at(7200))
    part = [replace(charge(COMPUTE, "0.72"), periods=((START, at(3600)),))]
    small = Book({(COMPUTE, TODAY): "0.72", (DISK, TODAY): "0.004"}, lease)
    assert small.look(part, UNFINISHED_FOR).waits_for is BillWait.PERIODS_MISSING
    assert small.look(part, UNFINISHED_FOR + LOOKS_APART).is_final
    assert small.spent() == D("0.72")
    large = Book({(COMPUTE, TODAY): "0.72", (DISK, TODAY): "0.10"}, lease)
    assert not large.look_twice(part, GIVE_UP_AFTER - LOOKS_APART + JUST_BEFORE).is_final
    assert large.spent() == D("0.82")
    assert large.look(part, GIVE_UP_AFTER).is_final
    assert large.spent() == D("0.72")
    large.look([*part, charge(DISK, "0.10")], timedelta(days=40))
    assert large.spent() == D("0.82")


def test_silence_never_takes_back_what_was_accrued_or_billed() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    assert not book.look((), GIVE_UP_AFTER + JUST_BEFORE).is_final
    assert book.look((), GIVE_UP_AFTER) == Reconciled(is_final=True)
    book.look([charge(COMPUTE, "0.35")], timedelta(days=20))
    book.look((), timedelta(days=21))
    book.look([charge(COMPUTE, "0.01", NEXT_DAY)], timedelta(days=22))
    assert (book.spent(day=TODAY), book.spent(day=NEXT_DAY)) == (D("0.35"), D("0.01"))


def test_an_instance_that_lives_on_is_reconciled_for_days_that_are_over() -> None:
    living = change_lease(LEASE, state=LeaseState.ACTIVE, intended_at=START, gone_at=None)
    book = Book({(COMPUTE, TODAY): "5", (COMPUTE, NEXT_DAY): "1"}, living)
    until_midnight = timedelta(hours=14, minutes=30)
    assert book.look([charge(COMPUTE, "5.2")], until_midnight + JUST_BEFORE) == Reconciled()
    assert not book.look([charge(COMPUTE, "4")], until_midnight).entries, "a low bill of yesterday may be unfinished"
    found = book.look([charge(COMPUTE, "5.2")], until_midnight)
    assert (book.spent(), found.is_final, found.has_drifted) == (D("6.2"), False, True)
    book.look([charge(COMPUTE, "4")], until_midnight + UNFINISHED_FOR)
    assert book.spent() == D(5)


def test_what_was_billed_before_it_came_back_takes_nothing_from_the_hours_since() -> None:
    book = Book({(COMPUTE, TODAY): "0.36"})
    bill = [charge(COMPUTE, "0.36")]
    assert book.look_twice(bill).is_final
    book.lease = change_lease(book.lease, state=LeaseState.DESTROY_REQUESTED, gone_at=None)
    book.accrue(COMPUTE, TODAY, "2")
    for seen in (bill, []):
        assert book.look(seen, 4 * HOUR) == Reconciled()
    assert book.spent() == D("2.36")


def test_the_window_covers_every_life_in_full() -> None:
    leases = [a_lease(intended_at=START - timedelta(days=2)), a_lease("lease-2")]
    assert window(leases, NOW) == (TODAY - timedelta(days=2), TODAY)
    assert window([], NOW) == (TODAY, TODAY)


def test_bills_are_looked_at_soon_after_the_end_and_again_a_day_and_three_days_later() -> None:
    delay = timedelta(minutes=10)
    assert LEASE.ending.gone_at is not None
    looks: list[timedelta] = []
    lease = LEASE
    for minutes in range(0, 5 * 24 * 60, 5):
        since = timedelta(minutes=minutes)
        if is_due(lease, delay, LEASE.ending.gone_at + since):
            looks.append(since)
            lease = change_lease(
                lease, settled_at=LEASE.ending.gone_at + since, reconciled_at=LEASE.ending.gone_at + since
            )
    assert looks == [delay, timedelta(hours=24), timedelta(hours=72)]
    day_later = change_lease(LEASE, settled_at=NOW, reconciled_at=NOW + UNFINISHED_FOR)
    assert not is_due(day_later, delay, NOW + UNFINISHED_FOR + delay), "the last look counts, not the first"
    assert not is_due(change_lease(LEASE, state=LeaseState.ACTIVE, gone_at=None), delay, NOW + GIVE_UP_AFTER)
    unsettled = change_lease(LEASE, reconciled_at=NOW, bill_waits_for=BillWait.TOO_LOW)
    assert is_due(unsettled, delay, NOW + delay), "asked again and again"
    looked = change_lease(LEASE, reconciled_at=NOW, bill_waits_for=BillWait.SECOND_LOOK)
    assert not is_due(looked, delay, NOW + LOOKS_APART + JUST_BEFORE)
    assert is_due(looked, delay, NOW + LOOKS_APART)
