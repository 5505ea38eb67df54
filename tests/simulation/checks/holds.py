"""What must hold of a machine that stays after its job is over: it is paid for to its end, and ends then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal

from autopilot.domain.lease import Lease
from autopilot.engine.engine import CALLS_WAIT_REAL_S
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.checks.conduct import CHECKED_EVERY_S
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box
from tests.simulation.markets.market import SimulatedMarket
from tests.simulation.virtual.clock import at

CLOCK_S = 240.0
"""Between two daemons: the clock of each may be two minutes off, either way."""
READING_S = 60.0
"""What a tick's look at markets and mailboxes may take until it decides."""
LONGEST_PROOF = timedelta(minutes=25)
"""On a market without a certificate: a permit, the time in which its machine must go, and that until the decision."""


class Holds:
    """Reads leases as they are committed, and what their machines bill at their markets."""

    def __init__(
        self, ground: Ground, markets: Mapping[str, SimulatedMarket], add_violation: Callable[[str, str], None]
    ) -> None:
        self._ground = ground
        self._markets = markets
        self._add_violation = add_violation
        self._over_s: dict[str, float] = {}
        """By machine: for how long a daemon that could act has kept it beyond its hold."""

    def change(self, before: Lease | None, after: Lease, tables: MemoryTables) -> None:
        until = None if before is None else before.held_until
        if after.held_until == until:
            return
        if until is not None or after.held_until is None:
            self._add_violation("S26", f"the hold of lease {after.id} is moved from {until} to {after.held_until}")
            return
        self._check_length(after, tables)
        self._check_room(after)

    def _check_length(self, lease: Lease, tables: MemoryTables) -> None:
        job, hold = tables.jobs.get(lease.job_id or ""), self._ground.spec_of(lease.job_id or "").hold
        assert lease.held_until is not None, "called for one that is held"
        if lease.is_proving and lease.provider in self._ground.scenario.uncertified:
            hold = LONGEST_PROOF
        if job is None or job.finished_at is None or hold is None:
            self._add_violation("S26", f"lease {lease.id} is held, and its job has not failed or asks for no hold")
        elif lease.held_until > min(job.finished_at + hold, lease.not_after):
            self._add_violation(
                "S26", f"lease {lease.id} is held until {lease.held_until}, beyond its hold or its life"
            )

    def _check_room(self, lease: Lease) -> None:
        """What is left of each limit, by the market's books, pays for the rest of all holds that draw on it."""
        ground, books, now_s = self._ground, self._ground.books, self._ground.now_s
        books.settle_all(now_s)
        costs = {held.job_id: self._rest(held, box) for held, box in self._held()}
        box = self._box_of(lease)
        if box is not None:
            costs[lease.job_id] = self._rest(lease, box)
        job_id, limits, today = lease.job_id or "", ground.scenario.limits, at(now_s).date()
        of_all = sum(costs.values(), Decimal(0))
        allowance, of_token, for_token = self._token_of(job_id, costs)
        for what, limit, spent, cost in (
            ("the job's budget", ground.spec_of(job_id).budget, books.by_job[job_id], costs.get(job_id)),
            ("the token's allowance", allowance, of_token, for_token),
            ("the day's limit", limits.day, books.by_day[today], of_all),
            ("the month's limit", limits.month, books.by_month[today.year, today.month], of_all),
        ):
            if limit is not None and cost is not None and dollars(spent) + cost > limit:
                self._add_violation(
                    "S26", f"lease {lease.id} is held: {dollars(spent):.4f} spent, {cost:.4f} for holds, {what} {limit}"
                )

    def _token_of(self, job_id: str, costs: Mapping[str | None, Decimal]) -> tuple[Decimal | None, int, Decimal | None]:
        """Its allowance, when that is one for life, what its jobs have cost, and what their holds will."""
        jobs, tokens = self._ground.committed["jobs"], self._ground.committed.get("tokens", {})
        owner = jobs[job_id].owner
        token = tokens.get(-owner)
        if token is None or token.is_monthly:
            return None, 0, None
        ids = [job.id for job in jobs.values() if job.owner == owner]
        spent = sum(self._ground.books.by_job[each] for each in ids)
        return token.allowance, spent, sum((costs.get(each, Decimal(0)) for each in ids), Decimal(0))

    def _rest(self, lease: Lease, box: Box) -> Decimal:
        """Dollars that the machine bills until its hold is over."""
        assert lease.held_until is not None, "called for one that is held"
        left_s = max((lease.held_until - at(self._ground.now_s)).total_seconds() - self._clock_s, 0.0)
        return (box.rate + box.storage_rate) * Decimal(left_s) / 3600

    @property
    def _clock_s(self) -> float:
        return CLOCK_S if self._ground.faults.strength["H1"] else 0.0

    def _held(self) -> Iterator[tuple[Lease, Box]]:
        """Those that the ledger holds, and that are there."""
        committed = self._ground.committed
        for id_ in committed.get("live_leases", {}):
            lease: Lease = committed["leases"][id_]
            box = self._box_of(lease) if lease.held_until is not None and lease.is_wanted else None
            if box is not None:
                yield lease, box

    def _box_of(self, lease: Lease) -> Box | None:
        box = self._markets[lease.provider].boxes.get(lease.instance_id or "")
        return box if box is not None and box.label == lease.label and box.lease_id == lease.id else None

    def look(self) -> None:
        """Machines that are kept although their hold is over: the next tick of a daemon that can act ends it."""
        ground, over_s = self._ground, self._over_s
        self._over_s = {}
        bound_s = 2 * (ground.scenario.tick_s + CALLS_WAIT_REAL_S + READING_S) + self._clock_s
        for lease, box in self._held():
            if lease.held_until is None or at(ground.now_s) <= lease.held_until:
                continue
            passed_s = CHECKED_EVERY_S if ground.was_fit(CHECKED_EVERY_S) else 0.0
            self._over_s[box.key] = over_s.get(box.key, 0.0) + passed_s
            if self._over_s[box.key] > bound_s:
                self._add_violation("S26", f"{box.key} is held for {self._over_s[box.key]:.0f} s beyond its hold")
                self._over_s[box.key] = 0.0
