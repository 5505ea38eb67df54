"""The ledger against a plain reference: any order of events, crash, replay, late or corrected bill gives its totals."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from autopilot.domain import events as e
from autopilot.domain.evolve_lease import evolve_lease
from autopilot.domain.instance import Charge, CostKind, InstanceStatus
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.ledger import RESERVE_TYPES, EntryType
from autopilot.domain.money import from_nano, to_nano
from autopilot.domain.params import Params
from autopilot.domain.spend import report, total_row
from autopilot.engine.accrue import accruals, hold_reserves, post_accruals
from autopilot.engine.invoices import UNFINISHED_FOR, import_invoice
from autopilot.ports.store import CommitUnknown, Store, UnitOfWork
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import an_instance, an_intent, heartbeat
from tests.property.reference_ledger import MICROSECONDS_PER_DAY, Line, Machine

KINDS = {"compute": CostKind.COMPUTE, "disk": CostKind.STORAGE_RUNNING, "traffic": CostKind.BANDWIDTH}
NAMES = {kind: name for name, kind in KINDS.items()} | {CostKind.FEE: "fee"}
STARTS = (
    datetime(2028, 2, 28, 22, 30, tzinfo=UTC),  # before a leap day
    datetime(2026, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2027, 1, 30, 12, tzinfo=UTC),  # 31 days, then 28
    datetime(2026, 3, 28, 23, 45, tzinfo=UTC),  # clocks go forward in Europe
    datetime(2026, 10, 31, 20, tzinfo=UTC),  # and back in America
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Kiritimati")
UPLOAD_PRICE = 12_345_678
"""Nano-dollars per gigabyte."""
SPOKEN_LASTS = timedelta(minutes=3)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

rates = st.integers(0, 5_000_000_000)
fee_comes: st.SearchStrategy[Any] = st.booleans()
crashes = st.sampled_from([None, None, "before", "kept", "lost"])


class Crash(Exception):
    pass


class LedgerMachine(RuleBasedStateMachine):
    live = Bundle("live")
    gone = Bundle("gone")

    @initialize(start=st.sampled_from(STARTS))
    def open(self, start: datetime) -> None:
        self.runner = asyncio.Runner()
        self.store: Any = self.new_store()
        self.now = start
        self.machines: dict[str, Machine] = {}
        self.heard_at: defaultdict[str, datetime] = defaultdict(lambda: datetime.min.replace(tzinfo=UTC))
        self.sent: dict[str, int] = {}
        self.sent_by_day: dict[tuple[str, date], int] = {}
        self.market: dict[tuple[str, CostKind, date], int] = {}
        self.most: dict[str, Decimal] = {}
        """By lease: the most that it has cost, as it was before the last look at its bill."""
        self.believed: defaultdict[str, set[Line]] = defaultdict(set)
        """By lease: lines that counted while it lived, and it lived on until its end."""
        self.came_back: set[str] = set()
        self.noted: dict[str, dict[Line, tuple[int, datetime]]] = {}
        """By lease: the newest figure of each line, and when it was first seen."""

    def new_store(self) -> Store:
        return MemoryStore()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.run(self.store.close())
            self.runner.close()

    @property
    def micros(self) -> int:
        return (self.now - EPOCH) // timedelta(microseconds=1)

    def counted(self, lease_id: str) -> int:
        """Until when its hours are booked: what has not been observed since waits until it is."""
        if self.machines[lease_id].stretches[-1].end is not None:
            return self.micros
        seen_at = self.lease(lease_id).shown_at
        return min(self.micros, (seen_at - EPOCH) // timedelta(microseconds=1))

    def clock(self, lease_id: str) -> dict[Line, int]:
        return self.machines[lease_id].clock(self.counted(lease_id))

    # What happens

    @rule(seconds=st.one_of(st.integers(1, 10_000), st.sampled_from([1, 3600, 86_400, 129_600, 12 * 86_400])))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(short_us=st.integers(0, 1))
    def midnight_comes(self, short_us: int) -> None:
        left = MICROSECONDS_PER_DAY - self.micros % MICROSECONDS_PER_DAY
        self.now += timedelta(microseconds=left - short_us)

    @rule(target=live, rate=rates, disk=rates)
    def rent(self, rate: int, disk: int) -> str:
        lease_id = f"lease-{len(self.machines) + 1}"
        lease = an_intent(
            lease_id,
            job_id=None,
            state=LeaseState.INTENT,
            storage_rate=from_nano(disk),
            upload_price=from_nano(UPLOAD_PRICE),
            intended_at=self.now,
        )
        self.machines[lease_id] = Machine()
        self.machines[lease_id].change(self.micros, "provisioning", 0, disk)
        self.save(evolve_lease(lease, e.LeaseAcquired(lease_id, f"i-{lease_id}", self.now)))
        self.now += timedelta(seconds=100)
        self.see(lease_id, InstanceStatus.RUNNING, rate, disk)
        self.now += timedelta(hours=1)
        return lease_id

    @rule(
        lease_id=live,
        status=st.sampled_from([*InstanceStatus, InstanceStatus.STOPPED]),
        rate=rates,
        disk=rates,
        ended=st.sampled_from([None, 0, 37, 100]),
    )
    def see(self, lease_id: str, status: InstanceStatus, rate: int, disk: int, ended: int | None = None) -> None:
        """``ended``: after so many hundredths of its unobserved time, if it is found stopped."""
        lease, ran_until = self.lease(lease_id), None
        shown = an_instance(lease, status=status, bid=from_nano(rate), storage_rate=from_nano(disk))
        compute = rate if status is InstanceStatus.RUNNING else 0
        # A machine that is shown as loading has loaded where its agent has just reported: the list is late.
        has_loaded = status is InstanceStatus.PROVISIONING and self.now - self.heard_at[lease_id] <= SPOKEN_LASTS
        at_most = rate if has_loaded else compute
        kept = 0 if status is InstanceStatus.OFFLINE else disk
        unseen_since = max((lease.observed_at - EPOCH) // timedelta(microseconds=1), self.began(lease_id))
        if self.now - lease.observed_at > timedelta(seconds=90):
            last = self.machines[lease_id].stretches[-1]
            before = max(to_nano(lease.bid), last.compute), max(to_nano(lease.storage_rate), last.disk)
            at = max(unseen_since, self.began(lease_id))
            self.machines[lease_id].change(at, lease.spans[-1].status, *before, is_seen=False)
            if status is InstanceStatus.STOPPED and ended is not None:
                ran_until = lease.observed_at + (self.now - lease.observed_at) * ended / 100
                ended_us = max((ran_until - EPOCH) // timedelta(microseconds=1), self.began(lease_id))
                if ran_until < self.now:
                    self.machines[lease_id].change(ended_us, "stopped", 0, before[1], is_seen=False)
        last = self.machines[lease_id].stretches[-1]
        if at_most > last.compute:
            at = max(unseen_since, last.start)
            self.machines[lease_id].change(at, last.status, at_most, last.disk, is_seen=False)
        last = self.machines[lease_id].stretches[-1]
        if not has_loaded or (last.status, last.compute, last.disk) != (status, at_most, kept):
            self.machines[lease_id].change(self.micros, status, compute, kept)
        self.save(evolve_lease(lease, e.LeaseObserved(lease_id, shown, self.now, ran_until=ran_until)))

    @rule(lease_id=live, sent=st.integers(0, 10**9))
    def hear(self, lease_id: str, sent: int) -> None:
        self.now += timedelta(seconds=1)
        self.sent[lease_id] = self.sent.get(lease_id, 0) + sent
        self.heard_at[lease_id] = self.now
        lease = self.lease(lease_id)
        beat = heartbeat(lease, self.now, seq=lease.agent.seq + 1, sent_bytes=self.sent[lease_id])
        day = self.now.date()
        self.sent_by_day[lease_id, day] = self.sent_by_day.get((lease_id, day), 0) + sent
        self.machines[lease_id].traffic[day] = -(-self.sent_by_day[lease_id, day] * UPLOAD_PRICE // 10**9)
        self.save(evolve_lease(lease, beat))

    @rule(target=gone, lease_id=consumes(live), crash=crashes)
    def end(self, lease_id: str, crash: str | None) -> str:
        lease = evolve_lease(self.lease(lease_id), e.LeaseGone(lease_id, self.now))
        self.machines[lease_id].stop(self.micros)

        async def over(work: UnitOfWork) -> None:
            await work.leases.save(lease)
            await post_accruals(work, [lease], self.now)
            await hold_reserves(work, [lease], Params(), self.now)

        self.commit(over, crash)
        return lease_id

    @rule(target=live, lease_id=consumes(gone))
    def come_back(self, lease_id: str) -> str:
        lease = self.lease(lease_id)
        self.now += timedelta(microseconds=1)
        self.came_back.add(lease_id)
        self.machines[lease_id].change(self.micros, "stopped", 0, to_nano(lease.storage_rate))
        self.save(evolve_lease(lease, e.InstanceFound(lease_id, f"i-{lease_id}", self.now)))
        return lease_id

    @rule(lease_id=live, crash=crashes)
    def tick(self, lease_id: str, crash: str | None) -> None:
        lease = self.lease(lease_id)

        async def tick(work: UnitOfWork) -> None:
            await post_accruals(work, [lease], self.now)
            await hold_reserves(work, [lease], Params(), self.now)

        self.commit(tick, crash)

    # What the market bills

    @rule(lease_id=st.one_of(live, gone), data=st.data(), crash=crashes, again=st.booleans())
    def bill_comes(self, lease_id: str, data: st.DataObject, crash: str | None, again: bool) -> None:
        lease = self.lease(lease_id)
        if not lease.is_over:
            self.tick(lease_id, None)
        clock = {line: nano for line, nano in self.clock(lease.id).items() if self.is_billable(lease, line[1])}
        figures: dict[Line, int] = {}
        for (what, day), nano in sorted(clock.items()):
            is_free = self.is_certain(lease, day) or (what == "compute" and self.is_doubted(lease, day))
            lowest = 0 if is_free else -(-nano // 10**6) * 10**6
            figures[what, day] = data.draw(st.integers(lowest // 10**6, nano // 10**6 + 50)) * 10**6
        if clock and data.draw(fee_comes, label="fee"):
            figures["fee", max(day for _, day in clock)] = data.draw(st.integers(1, 10**9))
        if not figures:
            return
        for (what, day), nano in figures.items():
            self.market[lease_id, KINDS.get(what, CostKind.FEE), day] = nano
        self.look(lease, crash)
        if again:
            self.look(lease, None)

    @rule(lease_id=gone, minutes=st.sampled_from([10, 59, 60, 90, 1440, 4320]), crash=crashes)
    def bill_is_looked_at_again(self, lease_id: str, minutes: int, crash: str | None) -> None:
        """It shows what it showed before."""
        self.now += timedelta(minutes=minutes)
        self.look(self.lease(lease_id), crash)

    @rule(lease_id=gone, crash=crashes)
    def half_a_bill_comes(self, lease_id: str, crash: str | None) -> None:
        """Its dearest line is not there yet."""
        metered = {line: nano for line, nano in self.clock(lease_id).items() if line[0] != "traffic"}
        dearest = max(metered, key=lambda line: (metered[line], line), default=None)
        for (what, day), nano in metered.items():
            if (what, day) != dearest:
                self.market[lease_id, KINDS[what], day] = nano
        self.look(self.lease(lease_id), crash)

    def expect(self, lease: Lease) -> None:
        """What the ledger must take from the bill that the market shows now."""
        machine, noted = self.machines[lease.id], self.noted.setdefault(lease.id, {})
        shown = {(NAMES[kind], day): nano for (id_, kind, day), nano in self.market.items() if id_ == lease.id}
        if lease.ending.gone_at is None:
            certain = {line: nano for line, nano in shown.items() if self.counts(lease, line, nano)}
            stopped, steady = self.doubted(lease, shown)
            self.note(lease, stopped | certain)
            counted = certain | {line: stopped[line] for line in steady}
            owed = machine.owed(self.counted(lease.id))
            self.believed[lease.id] |= {line for line, nano in counted.items() if nano != owed.get(line, 0)}
            machine.bill(counted, self.counted(lease.id))
            return
        waited = self.now - lease.ending.gone_at
        due = self.surely(lease)
        changed = any(noted.get(line, (None, None))[0] != nano for line, nano in shown.items())
        withdrawn = any(nano and line not in shown for line, (nano, _) in noted.items())
        since = max((at for _, at in noted.values()), default=lease.ending.gone_at)
        is_same = not changed and not withdrawn and self.now - since >= timedelta(hours=1)
        ours = sum(due.values())
        theirs = sum(nano for (what, _), nano in shown.items() if what in ("compute", "disk"))
        lacks_line = any(nano > 10**6 and line not in shown for line, nano in due.items())
        lacks_hours = machine.lacks_hours(shown, self.counted(lease.id))
        is_near = ours - theirs <= max(10**7, ours // 1000) if shown else ours <= 10**6
        is_whole = is_near and not lacks_line and not lacks_hours
        self.note(lease, shown)
        missing = {line: nano for line, nano in self.clock(lease.id).items() if line not in noted}
        if is_whole or (shown and is_same and not lacks_hours):
            self.note(lease, dict.fromkeys(missing, 0))
        elif waited >= timedelta(hours=24) and (shown or ours <= 10**7):
            late = waited >= timedelta(hours=72)
            silent = [line for line, nano in missing.items() if late or line[0] == "traffic" or nano <= 10**7]
            self.note(lease, dict.fromkeys(silent, 0))
        else:
            owed = machine.owed(self.counted(lease.id))
            higher = {line: nano for line, (nano, _) in noted.items() if nano > owed.get(line, 0)}
            machine.bill(higher, self.counted(lease.id))
            return
        machine.bill({line: nano for line, (nano, _) in noted.items()}, self.counted(lease.id))

    def doubted(self, lease: Lease, shown: dict[Line, int]) -> tuple[dict[Line, int], set[Line]]:
        """Of a machine that was found stopped after unobserved hours: what its bill states for computing on those days,
        and which of that has been there for an hour by now."""
        machine, noted = self.machines[lease.id], self.noted[lease.id]
        doubt = machine.doubt() if lease.state is LeaseState.PAUSED else None
        if doubt is None:
            return {}, set()
        found_us, days = doubt
        found_at = EPOCH + timedelta(microseconds=found_us)
        seen = machine.seen_computing(found_us)
        stopped: dict[Line, int] = {}
        for day in days:
            is_shown = any(on == day for _, on in shown) or (shown and not lease.storage_rate)
            nano, least = shown.get(("compute", day), 0), seen.get(day, 0)
            if is_shown and least - nano <= max(Fraction(10**7), Fraction(least, 1000)):
                stopped["compute", day] = nano
        before = {line: noted.get(line, (None, self.now)) for line in stopped}
        hour = timedelta(hours=1)
        steady = {
            line for line, (nano, at) in before.items() if nano == stopped[line] and found_at <= at <= self.now - hour
        }
        return stopped, steady

    def note(self, lease: Lease, figures: dict[Line, int]) -> None:
        for line, nano in figures.items():
            if self.noted[lease.id].get(line, (None, None))[0] != nano:
                self.noted[lease.id][line] = nano, self.now

    def counts(self, lease: Lease, line: Line, nano: int) -> bool:
        """Of a machine that lives on: a day that is over, at once where the bill is not lower than our clock."""
        over = datetime.combine(line[1] + timedelta(days=1), datetime.min.time(), UTC)
        is_low = nano < self.clock(lease.id).get(line, 0)
        return self.now - over >= (UNFINISHED_FOR if is_low else timedelta(0))

    def surely(self, lease: Lease) -> dict[Line, int]:
        """What it has cost, as far as somebody saw it, until a minute before it was last seen."""
        assert lease.observed.seen_at is not None
        last_us = (lease.observed.seen_at - EPOCH) // timedelta(microseconds=1)
        return self.machines[lease.id].surely(last_us - 60_000_000)

    def is_billable(self, lease: Lease, day: date) -> bool:
        return lease.is_over or day < self.now.date() or self.is_doubted(lease, day)

    def is_doubted(self, lease: Lease, day: date) -> bool:
        doubt = self.machines[lease.id].doubt() if lease.state is LeaseState.PAUSED else None
        return doubt is not None and day in doubt[1]

    def is_certain(self, lease: Lease, day: date) -> bool:
        ended = lease.ending.gone_at or datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
        return self.now - ended >= UNFINISHED_FOR

    def look(self, lease: Lease, crash: str | None) -> None:
        if lease.ending.gone_at == self.now:
            self.now += timedelta(microseconds=1)  # the engine reads no bill in the moment of the end
        bill = [self.charge(*key, nano) for key, nano in sorted(self.market.items())]
        posted, accrued = self.sums_of(lease.id)
        believed = set() if lease.id in self.came_back else self.believed[lease.id]
        self.most[lease.id] = sum(
            (posted[line] if line in believed else accrued.get(line, Decimal(0)) for line in posted), Decimal(0)
        )
        self.expect(lease)

        async def look(work: UnitOfWork) -> None:
            await import_invoice(work, lease, bill, self.now)

        self.commit(look, crash)

    def sums_of(self, lease_id: str) -> tuple[dict[Line, Decimal], dict[Line, Decimal]]:
        """All spend that is posted, and of it what our own clock has."""
        posted: dict[Line, Decimal] = {}
        accrued: dict[Line, Decimal] = {}
        for entry in self.ask("ledger.list_entries", lease_id):
            line = NAMES[entry.kind.as_billed], entry.day
            if entry.is_spend:
                posted[line] = posted.get(line, Decimal(0)) + entry.amount
            if entry.type is EntryType.ACCRUE:
                accrued[line] = accrued.get(line, Decimal(0)) + entry.amount
        return posted, accrued

    def charge(self, lease_id: str, kind: CostKind, day: date, nano: int) -> Charge:
        return Charge(f"i-{lease_id}", day, kind, from_nano(nano))

    # What must hold

    @invariant()
    def the_ledger_says_what_the_reference_says(self) -> None:
        if not hasattr(self, "machines"):
            return
        for lease_id, machine in self.machines.items():
            owed = machine.owed(self.counted(lease_id))
            expected = {line: nano for line, nano in owed.items() if nano}
            assert self.ledger_of(lease_id) == expected, lease_id

    @invariant()
    def reserves_are_what_is_committed(self) -> None:
        if not hasattr(self, "machines"):
            return
        for lease_id in self.machines:
            lease, books = self.lease(lease_id), self.ask("ledger.sum_books", [lease_id])[lease_id]
            entries = self.ask("ledger.list_entries", lease_id)
            reserves = sum((entry.amount for entry in entries if entry.type in RESERVE_TYPES), Decimal(0))
            assert reserves == books.reserved >= 0
            if lease.is_over:
                posted = sum((entry.amount for entry in entries if entry.is_spend), Decimal(0))
                is_waited_for = lease.billing.settled_at is None and lease.billing.waits_for is not None
                most = self.most[lease_id] if is_waited_for else posted
                assert books.reserved == max(most - posted, Decimal(0)), "limits count the higher of the two"

    @rule(zone=st.sampled_from(ZONES))
    def reports_agree(self, zone: str) -> None:
        """Months, reconciliation and every time zone add up to the same nano-dollar."""
        whole = self.ask("reports.sum_spend", per="day", with_spans=True)
        by_zone = report(whole, "day", now=self.now, zone=ZoneInfo(zone))
        posted = self.ask("ledger.sum_by_day", list(self.machines))
        spent = sum((amount for sums in posted.values() for amount in sums.values()), Decimal(0))
        assert total_row(by_zone).posted == spent
        months = {day.replace(day=1) for sums in posted.values() for _, day in sums}
        of_months = [self.ask("ledger.sum_totals", month).month for month in sorted(months)]
        assert sum(of_months, Decimal(0)) == spent
        for month, total in zip(sorted(months), of_months, strict=True):
            rows = self.ask("reports.reconcile", f"{month:%Y-%m}")
            assert sum((row.posted for row in rows), Decimal(0)) == total
            for row in rows:
                lines = self.noted.get(row.lease_id, {})
                bills = [nano for (_, day), (nano, _) in lines.items() if day.replace(day=1) == month]
                assert row.invoiced == (from_nano(sum(bills)) if bills else None)

    # How it is looked up and written

    def began(self, lease_id: str) -> int:
        return self.machines[lease_id].stretches[-1].start

    def ledger_of(self, lease_id: str) -> dict[Line, int]:
        lease = self.lease(lease_id)
        posted = self.ask("ledger.sum_by_day", [lease_id])[lease_id]
        accrued = self.ask("ledger.sum_books", [lease_id])[lease_id].accrued
        due, _ = accruals(lease, accrued, self.now)
        totals: dict[Line, int] = {}
        for kind, day, amount in (
            *((kind, day, amount) for (kind, day), amount in posted.items()),
            *((entry.kind, entry.day, entry.amount) for entry in due),
            *self.below_a_cent(lease, accrued),
        ):
            line = NAMES[kind.as_billed], day
            totals[line] = totals.get(line, 0) + to_nano(amount)
        return {line: nano for line, nano in totals.items() if nano}

    def below_a_cent(self, lease: Lease, accrued: Any) -> list[tuple[CostKind, date, Decimal]]:
        """As if the lease were over: every nano-dollar is due."""
        due, _ = accruals(lease, accrued, self.now)
        shown = {(entry.kind, entry.day) for entry in due}
        whole, _ = accruals(replace(lease, state=LeaseState.GONE), accrued, self.now)
        return [(entry.kind, entry.day, entry.amount) for entry in whole if (entry.kind, entry.day) not in shown]

    def lease(self, lease_id: str) -> Lease:
        found = self.ask("leases.get", lease_id)
        assert isinstance(found, Lease)
        return found

    def save(self, lease: Lease) -> None:
        self.commit(lambda work: work.leases.save(lease), None)

    def ask(self, what: str, *of: Any, **how: Any) -> Any:
        async def reading() -> Any:
            async with self.store.snapshot() as work:
                return await attrgetter(what)(work)(*of, **how)

        return self.runner.run(reading())

    def commit(self, write: Callable[[UnitOfWork], Awaitable[None]], crash: str | None) -> None:
        """Write; after a crash, or a commit whose outcome is not known, the same is done once more."""

        async def writing(fails: bool) -> None:
            async with self.store.transaction() as work:
                await write(work)
                if fails:
                    raise Crash

        if crash == "before":
            with suppress(Crash):
                self.runner.run(writing(fails=True))
        elif crash is not None:
            self.break_commit(crash)
            with suppress(CommitUnknown):
                self.runner.run(writing(fails=False))
        self.runner.run(writing(fails=False))

    def break_commit(self, crash: str) -> None:
        self.store.break_next_commit(is_kept=crash == "kept")


def _examples(count: int) -> settings:
    every = list(HealthCheck)
    return settings(
        max_examples=count, stateful_step_count=40, phases=[Phase.generate], deadline=None, suppress_health_check=every
    )


LedgerMachine.TestCase.settings = _examples(20)
test_the_ledger_agrees_with_the_reference = LedgerMachine.TestCase


@pytest.mark.slow
def test_the_ledger_agrees_with_the_reference_in_many_lives() -> None:
    run_state_machine_as_test(LedgerMachine, settings=_examples(200))
