"""A market in which everything goes wrong by the draw of a number, and a daemon made of the pure core alone.

Truth lives in ``World.machines``; the daemon sees it only through lists, single reads and the outcomes of its calls.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, ChangeBid
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Job, JobSpec
from autopilot.domain.lease import Lease, LeaseState, Role, cost_by_day
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType, Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import action_events, intended_lease
from autopilot.engine.observe import VISIBLE_AFTER, Reading
from autopilot.engine.reconcile import find_unaccounted, lease_events
from autopilot.engine.sweep import Sweep
from autopilot.policy import budget
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, guard
from autopilot.pricing.rule.bidding import ceiling
from tests.builders import START, D, a_checkpoint, a_job, a_market, an_offer, heartbeat, lease_of, play

TICK = timedelta(seconds=30)
LIMITS = Limits(None, None, None, 6, 20, 1000)
STATUSES = InstanceStatus
RECOVERS = {STATUSES.PROVISIONING: 0.3, STATUSES.RUNNING: 1, STATUSES.STOPPED: 0.1, STATUSES.OFFLINE: 0.1}
"""Probability per tick that a machine in this status runs at the next."""


@dataclass(slots=True)
class World:
    rng: random.Random
    trouble: float
    """Probability of each thing that can go wrong."""
    spec: JobSpec
    now: datetime = START
    job: Job = field(init=False)
    machines: dict[str, Instance] = field(default_factory=dict)
    late: list[tuple[datetime, Instance]] = field(default_factory=list)
    """Creates whose effect comes after the caller gave up."""
    past: dict[str, Lease] = field(default_factory=dict)
    """Leases that are over: a store loads a job without them."""
    sweep: Sweep = field(default_factory=Sweep)
    created: int = 0
    given_ids: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job = a_job(spec=self.spec)

    def new(self) -> str:
        self.given_ids += 1
        return f"lease-{self.given_ids}"

    def tick(self) -> None:
        self.now += TICK
        self._drift()
        reading = self._reading()
        for lease in self.job.leases:
            self._apply(*lease_events(lease, reading, (), self.now))
        self._sweep(reading)
        self._mail()
        self._decide(known=reading.known)
        self._destroys()
        self.past |= {lease.id: lease for lease in self.job.leases if lease.is_over}
        self.job = replace(self.job, leases=tuple(lease for lease in self.job.leases if not lease.is_over))

    def _goes_wrong(self, what: str) -> bool:
        wrong = self.rng.random() < self.trouble
        if wrong:
            self.seen[what] = self.seen.get(what, 0) + 1
        return wrong

    def _apply(self, *events: e.Event) -> None:
        self.job = play(self.job, *events)

    def _drift(self) -> None:
        """Machines load and run; some are outbid, lose their host or vanish; late creates land."""
        for id_, machine in list(self.machines.items()):
            if self.rng.random() < RECOVERS[machine.status]:
                machine = replace(machine, status=STATUSES.RUNNING, price_to_win=None)
            if self._goes_wrong("outbid"):
                machine = replace(machine, status=STATUSES.STOPPED, price_to_win=machine.bid * Decimal("1.05"))
            if self._goes_wrong("host lost"):
                machine = replace(machine, status=STATUSES.OFFLINE)
            self.machines[id_] = machine
            if self._goes_wrong("vanished") and self._goes_wrong("vanished at all"):
                del self.machines[id_]
        for due, machine in list(self.late):
            if self.now >= due:
                self.late.remove((due, machine))
                self.machines[machine.instance_id] = machine

    def _reading(self) -> Reading:
        if self._goes_wrong("market unknown"):
            return Reading("vastai", self.now, None, "unreadable")
        missing = [
            lease
            for lease in self.job.leases
            if lease.instance_id is not None
            and lease.instance_id not in self.machines
            and not lease.is_over
            and lease.acquired_at is not None
            and self.now - lease.acquired_at >= VISIBLE_AFTER
        ]
        absent = frozenset(lease.instance_id for lease in missing if lease.instance_id)
        proved = frozenset(lease.instance_id for lease in missing if lease.instance_id and lease.observed.absences)
        return Reading("vastai", self.now, tuple(self.machines.values()), absent=absent, confirmed_gone=proved)

    def _sweep(self, reading: Reading) -> None:
        if reading.instances is None:
            return
        named: dict[str, list[Lease]] = {}
        for lease in (*self.job.leases, *self.past.values()):
            named.setdefault(lease.label, []).append(lease)
        for instance, holder in self.sweep.look(
            len(reading.instances), find_unaccounted(reading.instances, named), self.now
        ):
            assert holder is not None, "an instance that no lease ever asked for"
            if holder.id in self.past:
                self.job = replace(self.job, leases=(*self.job.leases, self.past.pop(holder.id)))
            self._apply(e.InstanceFound(holder.id, instance.instance_id, self.now))

    def _mail(self) -> None:
        for held in self.job.leases:
            lease = lease_of(self.job, held.id)
            machine = self.machines.get(lease.instance_id or "")
            if not lease.is_wanted or machine is None or machine.status is not STATUSES.RUNNING:
                continue
            if self._goes_wrong("agent silent"):
                continue
            state = {Role.RUN: "running", Role.WAIT: "waiting", Role.SAVE_AND_STOP: "saving"}.get(lease.orders.role, "")
            saved = lease.orders.role is Role.SAVE_AND_STOP
            self._apply(heartbeat(lease, self.now, state, saved=saved))
            if lease.orders.run_epoch == self.job.run_epoch and self.rng.random() < 0.1:
                number = 0 if self.job.checkpoint is None else self.job.checkpoint.number + 1
                done = self.job.work_done
                self._apply(e.CheckpointVerified(a_checkpoint(lease, number, work_done=done), self.now))
            if lease.orders.run_epoch == self.job.run_epoch and self._goes_wrong("command failed"):
                self._apply(e.RunExited(lease.id, lease.orders.run_epoch, 1, self.now))

    def market(self, *, known: bool = True) -> Market:
        return a_market(*self._offers(), known=known)

    def _offers(self) -> Iterator[Offer]:
        for n in range(5):
            floor = D(self.rng.randint(50, 500)) / 1000
            yield an_offer(f"m{n}", floor=floor, on_demand_price=floor * self.rng.randint(1, 4))

    def spent(self) -> Decimal:
        leases = (*self.job.leases, *self.past.values())
        return sum((sum(cost_by_day(lease, self.now).values(), ZERO) for lease in leases), ZERO)

    def _decide(self, *, known: bool) -> None:
        params = Params()
        self.job = replace(self.job, spent=self.spent())
        market = self.market(known=known)
        decision = decide(self.job, market, self.now, params)
        live = tuple(lease for lease in self.job.leases if not lease.is_over)
        allowed, _ = guard(self.job, decision, market, Exposure(live, ZERO, ZERO), LIMITS, self.now, params)
        bids = {
            action.lease_id: lease_of(self.job, action.lease_id) for action in allowed if isinstance(action, ChangeBid)
        }
        self._apply(*action_events(allowed, self.now))
        grows = bool(bids)
        for action in allowed:
            if isinstance(action, Acquire):
                assert known, "a launch on a market that is not known"
                lease = intended_lease(self.job, action, "d", "install1", self, self.now, params)
                self._apply(e.LeaseIntended(lease, self.now))
                grows = True
        if grows and self.spec.budget is not None:
            assert budget.sum_committed(self.job, params) <= self.spec.budget
        for action in allowed:
            if isinstance(action, Acquire):
                self._create(lease_of(self.job, f"lease-{self.given_ids}"))
            elif isinstance(action, ChangeBid):
                limit = ceiling(self.spec, bids[action.lease_id].on_demand_price, params)
                assert limit is not None
                assert action.bid <= limit
                self._change_bid(bids[action.lease_id], action.bid)

    def _create(self, lease: Lease) -> None:
        self.created += 1
        machine = self._machine(lease)
        if self._goes_wrong("create refused"):
            self._apply(e.LeaseRefused(lease.id, Reason.REFUSED, "gone", None, self.now))
        elif self._goes_wrong("create refused with a contract"):
            self.machines[machine.instance_id] = replace(machine, status=STATUSES.STOPPED)
            self._apply(e.LeaseRefused(lease.id, Reason.OUTBID, "too low", machine.instance_id, self.now))
        elif self._goes_wrong("create without effect or answer"):
            self._apply(e.LeaseUncertain(lease.id, "timeout", self.now))
        elif self._goes_wrong("create answered by silence"):
            self.late.append((self.now + TICK * self.rng.randint(0, 20), machine))
            self._apply(e.LeaseUncertain(lease.id, "timeout", self.now))
        else:
            self.machines[machine.instance_id] = machine
            self._apply(e.LeaseAcquired(lease.id, machine.instance_id, self.now))

    def _machine(self, lease: Lease) -> Instance:
        wrong = lease.capacity_type is CapacityType.ON_DEMAND and self._goes_wrong("wrong terms")
        return Instance(
            provider="vastai",
            instance_id=str(1000 + self.created),
            label=lease.label,
            machine_id=lease.machine_id,
            host_id="h",
            capacity_type=CapacityType.SPOT if wrong else lease.capacity_type,
            status=STATUSES.PROVISIONING,
            intended_running=True,
            bid=lease.bid,
            storage_rate=lease.storage_rate,
            gpu=lease.gpu,
            num_gpus=1,
            ends_at=None,
            message="",
        )

    def _change_bid(self, before: Lease, bid: Decimal) -> None:
        if self._goes_wrong("bid refused"):
            self._apply(e.BidRefused(before.id, before.bid, self.now))
            return
        machine = self.machines.get(before.instance_id or "")
        if machine is not None:
            self.machines[machine.instance_id] = replace(machine, bid=bid, status=STATUSES.PROVISIONING)
        if not self._goes_wrong("bid answered by silence"):
            self._apply(e.BidChanged(before.id, bid, self.now))

    def _destroys(self) -> None:
        for lease in self.job.leases:
            if lease.state is not LeaseState.DESTROY_REQUESTED or lease.instance_id is None:
                continue
            accepted = not self._goes_wrong("destroy not accepted")
            if accepted and not self._goes_wrong("destroy ignored"):
                self.machines.pop(lease.instance_id, None)
            self._apply(e.DestroySent(lease.id, accepted, self.now))
