"""Settling: the ledger takes the market's figures, line by line, once they are there."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest

from autopilot.domain.instance import Charge, CostKind
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.ledger import EntryType, LedgerEntry
from autopilot.engine.settle import GIVE_UP_AFTER, PARTIAL_FOR, due, settlement, window
from tests.builders import HOUR, START, D, a_lease, at

COMPUTE, STORAGE, BANDWIDTH = CostKind.COMPUTE, CostKind.STORAGE, CostKind.BANDWIDTH
TODAY, NEXT_DAY = START.date(), START.date() + timedelta(days=1)
LEASE = a_lease(state=LeaseState.GONE, gone_at=at(3600), instance_id="77")
NOW = at(7200)


def charge(kind: CostKind, amount: str, day: date = TODAY, instance_id: str = "77") -> Charge:
    return Charge(instance_id, day, kind, D(amount))


def differences(
    posted: dict[tuple[CostKind, date], str], *charges: Charge
) -> dict[tuple[CostKind, date], Decimal] | None:
    entries = settlement(LEASE, {key: D(amount) for key, amount in posted.items()}, charges, NOW)
    if entries is None:
        return None
    assert all(entry.type is EntryType.SETTLE and entry.posted_at == NOW for entry in entries)
    return {(entry.kind, entry.day): entry.amount for entry in entries}


def test_the_difference_is_posted_into_the_day_it_belongs_to() -> None:
    posted = {(COMPUTE, TODAY): "0.36", (STORAGE, TODAY): "0.004", (COMPUTE, NEXT_DAY): "0.10"}
    charges = charge(COMPUTE, "0.355"), charge(STORAGE, "0.004"), charge(COMPUTE, "0.101", NEXT_DAY)
    assert differences(posted, *charges) == {(COMPUTE, TODAY): D("-0.005"), (COMPUTE, NEXT_DAY): D("0.001")}


def test_traffic_that_our_own_clock_never_saw_is_taken_over() -> None:
    posted = {(COMPUTE, TODAY): "0.36"}
    assert differences(posted, charge(COMPUTE, "0.36"), charge(BANDWIDTH, "0.02"), charge(BANDWIDTH, "0.01")) == {
        (BANDWIDTH, TODAY): D("0.03")
    }


def test_lines_of_one_kind_and_day_add_up() -> None:
    lines = charge(COMPUTE, "0.20"), charge(COMPUTE, "0.15")
    assert differences({(COMPUTE, TODAY): "0.36"}, *lines) == {(COMPUTE, TODAY): D("-0.01")}


def test_lines_of_other_instances_do_not_count() -> None:
    assert differences({(COMPUTE, TODAY): "0.36"}, charge(COMPUTE, "0.36"), charge(COMPUTE, "9", instance_id="7")) == {}


def test_a_bill_that_agrees_settles_without_an_entry() -> None:
    assert differences({(COMPUTE, TODAY): "0.36"}, charge(COMPUTE, "0.36")) == {}
    assert differences({}) == {}


@pytest.mark.parametrize(
    ("posted", "charges"),
    [
        ({(COMPUTE, TODAY): "0.36"}, ()),
        ({(COMPUTE, TODAY): "0.36", (STORAGE, TODAY): "0.004"}, (charge(COMPUTE, "0.36"),)),
        ({(COMPUTE, TODAY): "0.36", (COMPUTE, NEXT_DAY): "0.10"}, (charge(COMPUTE, "0.36"),)),
    ],
    ids=["no line", "a kind is missing", "a day is missing"],
)
def test_an_incomplete_bill_is_waited_for(
    posted: dict[tuple[CostKind, date], str], charges: tuple[Charge, ...]
) -> None:
    assert differences(posted, *charges) is None


def settled_after(wait: timedelta, *charges: Charge) -> Decimal | None:
    """Dollars that the settlement of $0.36 and a little disk takes back or adds, so long after the end."""
    posted = {(COMPUTE, TODAY): D("0.36"), (STORAGE, TODAY): D("0.004")}
    assert LEASE.gone_at is not None
    entries = settlement(LEASE, posted, charges, LEASE.gone_at + wait)
    return None if entries is None else sum((entry.amount for entry in entries), D(0))


JUST_BEFORE = timedelta(seconds=-1)


def test_a_line_that_never_comes_is_taken_for_nothing_in_the_end() -> None:
    assert settled_after(PARTIAL_FOR + JUST_BEFORE, charge(COMPUTE, "0.36")) is None
    assert settled_after(PARTIAL_FOR, charge(COMPUTE, "0.36")) == D("-0.004")


def test_a_bill_of_less_than_half_is_taken_to_be_unfinished_at_first() -> None:
    lines = charge(COMPUTE, "0.177"), charge(STORAGE, "0.004")
    assert settled_after(PARTIAL_FOR + JUST_BEFORE, *lines) is None
    assert settled_after(PARTIAL_FOR, *lines) == D("-0.183")
    assert settled_after(HOUR, charge(COMPUTE, "0.178"), charge(STORAGE, "0.004")) == D("-0.182")


def test_silence_never_wipes_out_what_was_accrued() -> None:
    assert settled_after(PARTIAL_FOR) is None
    assert settled_after(GIVE_UP_AFTER + JUST_BEFORE) is None
    assert settled_after(GIVE_UP_AFTER) == 0


def test_an_amount_too_small_for_the_bill_is_not_waited_for() -> None:
    posted = {(COMPUTE, TODAY): "0.36", (STORAGE, TODAY): "0.001"}
    assert differences(posted, charge(COMPUTE, "0.36")) == {(STORAGE, TODAY): D("-0.001")}


def ledger_after(*entries: LedgerEntry) -> dict[str, LedgerEntry]:
    """What an append-only ledger keeps: the first entry of each id."""
    kept: dict[str, LedgerEntry] = {}
    for entry in entries:
        kept.setdefault(entry.id, entry)
    return kept


def test_a_settlement_replayed_posts_nothing_twice() -> None:
    posted, charges = {(COMPUTE, TODAY): D("0.36")}, [charge(COMPUTE, "0.30")]
    first, again = settlement(LEASE, posted, charges, NOW), settlement(LEASE, posted, charges, NOW + HOUR)
    assert first is not None
    assert again is not None
    assert len(ledger_after(*first, *again)) == 1


def test_a_second_settlement_after_more_accrual_is_not_taken_for_the_first() -> None:
    """The market brought the instance back, we accrued, and it billed nothing for that."""
    charges = [charge(COMPUTE, "0.30")]
    first = settlement(LEASE, {(COMPUTE, TODAY): D("0.36")}, charges, NOW)
    assert first is not None
    accrued = D("0.05")
    second = settlement(LEASE, {(COMPUTE, TODAY): D("0.30") + accrued}, charges, NOW + HOUR)
    assert second is not None
    kept = ledger_after(*first, *second).values()
    assert D("0.36") + accrued + sum(entry.amount for entry in kept) == D("0.30")


def test_the_window_covers_every_life_in_full() -> None:
    leases = [a_lease(intended_at=START - timedelta(days=2)), a_lease("lease-2")]
    assert window(leases, NOW) == (TODAY - timedelta(days=2), TODAY)
    assert window([], NOW) == (TODAY, TODAY)


def test_bills_are_looked_for_once_they_may_be_complete() -> None:
    delay = timedelta(minutes=10)
    elsewhere = a_lease("lease-2", provider="elsewhere", state=LeaseState.GONE, gone_at=at(3600))
    living: Lease = a_lease("lease-3")
    assert due([LEASE, elsewhere, living], at(3600) + delay - timedelta(seconds=1), delay) == {}
    assert due([LEASE, elsewhere, living], at(3600) + delay, delay) == {"vastai": [LEASE], "elsewhere": [elsewhere]}
