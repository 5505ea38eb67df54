"""What must hold between one host and all others: permits, room in the store, limits, and that work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal

from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease, LeaseState, Role
from autopilot.domain.reasons import Reason
from autopilot.domain.token import Token, is_of_token
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, Host
from tests.simulation.ground.scenario import HOUR_S
from tests.simulation.markets.market import SimulatedMarket
from tests.simulation.product.blobs import Objects
from tests.simulation.virtual.clock import at

POOLED = ("runpod", "mithril", "nebius")
"""Markets whose machines stand for many."""
BOUNDED_BY_JOB = ("mithril", "nebius")
"""Markets without a price on demand: a job that does not say what it pays at most bids nothing there."""
CHECKED_EVERY_S = 60.0
AVOIDED_S = 7 * 3600.0
"""A job may keep away from a machine that it has had."""
PROBED_S = 25 * 3600.0
"""Once a day RunPod is asked whether it has spot."""
CHEAP = Decimal("0.6")
"""Share of the on-demand price: a floor below it is worth renting."""
PERMIT_S = 900.0
SLOW_S = 420.0
"""What ticks, heartbeats and lists may take on top."""
FIT_S = 300.0
"""Of daemon and store, for orders and admissions to be written."""
GENEROUS = Decimal(50)
HARDLY_USED = Decimal("0.25")
STARTS_WITH = Decimal(3)
"""Dollars that a limit must leave for a job that waits to be idle: a new machine's reserve, and those of others."""
MOST_OF_DISK = 12
"""Times the disk of a machine: no lease has so much in a store with a gate."""
BYTES_PER_GB = 10**9
LIMITED = frozenset({Reason.OVER_DAY_LIMIT, Reason.OVER_MONTH_LIMIT})


class Conduct:
    def __init__(
        self,
        ground: Ground,
        markets: Mapping[str, SimulatedMarket],
        objects: Objects,
        add_violation: Callable[[str, str], None],
        is_held_up: Callable[[Job], bool],
    ) -> None:
        """``is_held_up``: whether a job waits for another that goes on."""
        self._is_held_up = is_held_up
        self._ground = ground
        self._markets = markets
        self._objects = objects
        self._add_violation = add_violation
        self._over_s: dict[str, float] = {}
        """By lease: since when it is over."""
        self._idle_s: dict[str, float] = {}
        """By job: for how long it has had no machine."""

    # --- in the ledger

    def change_lease(self, before: Lease | None, after: Lease, tables: MemoryTables) -> None:
        if before is None and after.state is LeaseState.INTENT:
            self._check_pace(tables)
        if before is not None and self._is_stopping(before) and after.permit.seq > before.permit.seq:
            self._add_violation("S21", f"lease {after.id} gets permit {after.permit.seq} after it was told to stop")
        if not after.is_over:
            self._over_s.pop(after.id, None)
        elif before is None or not before.is_over:
            self._over_s[after.id] = self._ground.now_s

    def _is_stopping(self, lease: Lease) -> bool:
        """It has a permit whose orders say to save and stop."""
        return lease.orders.stop_seq > 0 and lease.orders.role is Role.SAVE_AND_STOP

    def _check_pace(self, tables: MemoryTables) -> None:
        limit, since_s = self._ground.scenario.limits.launches_per_hour, self._ground.now_s - 3300
        known = {**self._ground.committed.get("leases", {}), **tables.leases.changes}
        rented = _count_rented((each for each in known.values() if each is not None), at(since_s))
        if rented > limit:
            self._add_violation("S24", f"{rented} machines within the hour, {limit} are allowed")

    def change_job(self, before: Job | None, after: Job) -> None:
        was_cancelled = before is not None and before.status is JobStatus.CANCELLING
        if was_cancelled and after.status is not JobStatus.CANCELLING and not after.status.is_final:
            self._add_violation("S25", f"job {after.id[-1]} was cancelled and is {after.status} again")
        is_parked = after.status is JobStatus.PARKED and (before is None or before.status is not JobStatus.PARKED)
        if not is_parked or after.reason not in LIMITED:
            return
        ground, today = self._ground, at(self._ground.now_s).date()
        ground.books.settle_all(ground.now_s)
        if after.reason is Reason.OVER_DAY_LIMIT:
            limit, spent = ground.scenario.limits.day, ground.books.by_day[today]
        else:
            limit, spent = ground.scenario.limits.month, ground.books.by_month[today.year, today.month]
        if limit is not None and limit >= GENEROUS and dollars(spent) < limit * HARDLY_USED:
            self._add_violation(
                "S22", f"job {after.id[-1]} is {after.reason}: {dollars(spent):.2f} of {limit} is spent"
            )

    # --- in the object store

    def take_object(self, box: Box) -> None:
        ground, lease_id = self._ground, box.lease_id
        if not self._objects.keeps_gate or lease_id is None or not box.hostile:
            return
        over_s = self._over_s.get(lease_id)
        if over_s is not None and ground.now_s - over_s > FIT_S and ground.was_fit(FIT_S):
            self._add_violation("S23", f"{box.key} has written {ground.now_s - over_s:.0f} s after its lease was over")
        if self._objects.size_of(f"jobs/{box.job_id}/{lease_id}") > MOST_OF_DISK * box.disk_gb * BYTES_PER_GB:
            self._add_violation("S23", f"{box.key} has more in the store than any machine can have to send")

    def refuse_object(self, box: Box) -> None:
        lease, ground = self._lease_of(box), self._ground
        if box.hostile or lease is None or not lease.is_wanted or not ground.was_fit(FIT_S):
            return
        # What it sends for a task may arrive after the machine has gone to the next one.
        since = max((use.ordered_at for use in lease.uses), default=lease.intended_at)
        if (at(ground.now_s) - since).total_seconds() > FIT_S:
            self._add_violation("S23", f"{box.key} may not write, and its lease is {lease.state}")

    # --- on the machines

    def end_permit(self, box: Box) -> None:
        """It ends itself, because nothing renews its permit: one that proves its market so is to do that."""
        lease, ground, since_s = self._lease_of(box), self._ground, self._ground.now_s - PERMIT_S - SLOW_S
        if lease is None or not lease.is_wanted or lease.orders.role is not Role.RUN or not lease.was_listed:
            return
        if lease.is_proving:
            return
        is_box_fit = box.troubled_s < since_s and not ground.faults.has_struck("K1", box.id, since_s, ground.now_s)
        if box.hostile or not is_box_fit or not ground.was_fit(PERMIT_S + SLOW_S):
            return
        is_limited = lease.permit.ttl_s is not None and lease.permit.ttl_s < PERMIT_S
        if not is_limited:
            self._add_violation("S20", f"{box.key} ends itself although {lease.id} is wanted and all do their part")

    def _lease_of(self, box: Box) -> Lease | None:
        """None for the second machine of a create, and for one without a lease."""
        lease: Lease | None = self._ground.committed.get("leases", {}).get(box.lease_id)
        return lease if lease is not None and lease.instance_id == box.id and lease.label == box.label else None

    # --- everywhere

    def look(self) -> None:
        """Jobs that want a machine, have none, and could have one."""
        ground, idle_s = self._ground, self._idle_s
        leases = ground.committed.get("leases", {})
        held = {leases[id_].job_id for id_ in ground.committed.get("live_leases", {})}
        self._idle_s = {}
        jobs = [ground.committed["jobs"][id_] for id_ in ground.committed.get("open_jobs", {})]
        for job in jobs:
            has_task = job.is_array and any(each.array_id == job.id for each in jobs)
            if not job.status.wants_capacity or job.id in held or has_task or self._is_held_up(job):
                continue
            passed_s = CHECKED_EVERY_S if self._could_rent(job) else 0.0
            self._idle_s[job.id] = idle_s.get(job.id, 0.0) + passed_s
            if self._idle_s[job.id] > ground.scenario.idle_s:
                self._add_violation("S19", f"job {job.id[-1]} waits for {self._idle_s[job.id]:.0f} s beside machines")
                self._idle_s[job.id] = 0.0

    def _could_rent(self, job: Job) -> bool:
        ground = self._ground
        if not ground.was_fit(FIT_S) or not all(ground.is_able(name) for name in self._markets):
            return False
        if not (self._is_within_limits() and self._is_within_pace() and self._is_within_allowance(job)):
            return False
        since = at(ground.now_s - AVOIDED_S)
        had = {
            (lease.provider, lease.machine_id)
            for lease in ground.committed["leases"].values()
            if lease.job_id == job.id and lease.intended_at >= since
        }
        return any(
            self._is_worth_renting(market, host)
            and (name not in BOUNDED_BY_JOB or job.spec.max_bid is not None or job.spec.max_hourly is not None)
            for name, market in self._markets.items()
            if not market.is_dry and name not in ground.scenario.uncertified  # others may have the one machine there
            for host in market.hosts.values()
            if name in POOLED or (name, host.machine_id) not in had
        )

    def _is_within_pace(self) -> bool:
        """Others may take all launches of each hour, where there are two of them."""
        since = at(self._ground.now_s - HOUR_S)
        limits = self._ground.scenario.limits
        leases = self._ground.committed["leases"].values()
        return _count_rented(leases, since) < limits.launches_per_hour - limits.kept_back_per_hour

    def _is_within_limits(self) -> bool:
        ground, today = self._ground, at(self._ground.now_s).date()
        limits, books = ground.scenario.limits, ground.books
        spent = ((limits.day, books.by_day[today]), (limits.month, books.by_month[today.year, today.month]))
        return all(limit is None or dollars(nano) + STARTS_WITH <= limit for limit, nano in spent)

    def _is_within_allowance(self, job: Job) -> bool:
        """Of the job's token and of its schedule, where it has them."""
        committed, books = self._ground.committed, self._ground.books
        if job.schedule_id is not None and (budget := committed["schedules"][job.schedule_id].budget) is not None:
            firings = (each.id for each in committed["jobs"].values() if each.schedule_id == job.schedule_id)
            if dollars(sum(books.by_job[job_id] for job_id in firings)) + STARTS_WITH > budget:
                return False
        if not is_of_token(job.owner):
            return True
        token: Token = committed["tokens"][-job.owner]
        spent = sum(books.by_job[each.id] for each in committed["jobs"].values() if each.owner == job.owner)
        has_room = token.allowance is None or dollars(spent) + STARTS_WITH <= token.allowance
        return has_room and token.is_in_force(at(self._ground.now_s))

    def _is_spot_doubted(self, host: Host) -> bool:
        """Spot that was gone, or refused repeatedly, is not requested again for long."""
        ground, since_s = self._ground, self._ground.now_s - PROBED_S
        was_refused = any(at_s > since_s for at_s, _ in host.beaten_bids)
        return was_refused or ground.faults.has_struck("E14", "runpod", since_s, ground.now_s)

    def _is_worth_renting(self, market: SimulatedMarket, host: Host) -> bool:
        if market.provider in POOLED and self._is_spot_doubted(host):
            return False
        is_honest = host.shown_floor is None and host.rival is None and not host.is_dear
        return is_honest and host.floor <= host.on_demand * CHEAP and market.has_room(host)


def _count_rented(leases: Iterable[Lease], since: datetime) -> int:
    """Of machines that may have been rented since then."""
    return sum(each.intended_at >= since and (not each.is_over or each.instance_id is not None) for each in leases)
