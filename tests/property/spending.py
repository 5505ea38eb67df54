"""Adversarial scenarios for the caps: a market that does its worst, machines with agents, a daemon that gets killed.

``Books`` keep what the market really bills, second by second, not what the daemon believes. *Excused* is what a
machine costs after the market was asked to destroy it and did not, and while nothing could act: the daemon was dead and
the machine's permit would have run out, had the market not stopped it, or the market billed more than was asked for.
All else must stay below every limit.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal

from autopilot.domain import events as e
from autopilot.domain.actions import Acquire, ChangeBid
from autopilot.domain.agent_state import AgentState
from autopilot.domain.certificate import Lack, UseProof
from autopilot.domain.evolve import evolve
from autopilot.domain.instance import Instance, InstanceStatus
from autopilot.domain.job import Checkpoint, Job, JobStatus, SpotPolicy
from autopilot.domain.lease import Lease, LeaseState, Role, cost_by_day, keep_watched
from autopilot.domain.market import Market, ProviderView, UncertifiedRoom
from autopilot.domain.money import ZERO, ceil_nano
from autopilot.domain.offer import Offer
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.engine.actions import action_events, intended_lease
from autopilot.engine.observe import VISIBLE_AFTER, Reading
from autopilot.engine.reconcile import find_unaccounted, lease_events
from autopilot.engine.sweep import Sweep
from autopilot.policy.budget import PERMIT_TAIL_S, SAVES_ALONE, burn, commitment, create_reserve, left, unobserved_cost
from autopilot.policy.decide import decide
from autopilot.policy.guard import Exposure, Limits, allowance, guard
from autopilot.policy.permits import PermitBound, give_permit_s
from autopilot.policy.purse import MarketPurse, Purse
from tests.builders import START, D, a_job, a_spec, an_offer, capabilities, lease_of

TICK = timedelta(seconds=30)
STEP = timedelta(seconds=10)
"""The market's and the agents' own time."""
CHECKPOINTS_APART = timedelta(minutes=5)
PARAMS = Params()
PERMIT_S = 900
LONG_PERMIT_S = 2 * 3600
PROVISIONING, RUNNING, STOPPED, OFFLINE = InstanceStatus


@dataclass(slots=True)
class Machine:
    """A rented machine with its agent, as it really is."""

    instance: Instance
    job_id: str
    lease_id: str
    upload_price: Decimal
    shown: Instance
    """As the list shows it: up to a tick old."""
    asked: Decimal
    """$/h of the create or the last raise that the market took."""
    destroy_sent: bool = False
    permit_until: datetime | None = None
    """None: the agent does not run."""
    last_permit_until: datetime | None = None
    """Until when the newest permit would have lasted, had the market not stopped the machine."""
    looked_at: datetime | None = None
    """When it last read its orders."""
    slots: int = SAVES_ALONE
    """For so many checkpoints it has addresses."""
    seq: int = -1
    sent_bytes: int = 0
    boot: int = 0
    beats: int = 0
    saved_at: datetime | None = None
    leaves_at: datetime | None = None
    stays: bool = False
    uploaded_at: datetime | None = None


@dataclass(slots=True)
class Books:
    """Dollars by job and day."""

    spent: dict[tuple[str, date], Decimal] = field(default_factory=dict)
    excused: dict[tuple[str, date], Decimal] = field(default_factory=dict)

    def charge(self, job_id: str, day: date, amount: Decimal, *, is_excused: bool) -> None:
        book = self.excused if is_excused else self.spent
        book[job_id, day] = book.get((job_id, day), ZERO) + amount

    def total(self, job_id: str | None = None, day: date | None = None) -> Decimal:
        """Without what is excused."""
        return _sum(self.spent, job_id, day)

    def total_of_month(self, day: date) -> Decimal:
        """Of the month with that day in it."""
        month = day.year, day.month
        return sum((spent for (_, on), spent in self.spent.items() if (on.year, on.month) == month), ZERO)

    def total_excused(self) -> Decimal:
        return _sum(self.excused, None, None)


def _sum(book: dict[tuple[str, date], Decimal], job_id: str | None, day: date | None) -> Decimal:
    return sum((v for (j, d), v in book.items() if job_id in (None, j) and day in (None, d)), ZERO)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Probabilities per opportunity."""

    outbid: float = 0.0
    resume: float = 0.0
    list_fails: float = 0.0
    list_lags: float = 0.0
    create_lost: float = 0.0
    wrong_terms: float = 0.0
    destroy_refused: float = 0.0
    destroy_ignored: float = 0.0
    destroyed_returns: float = 0.0
    bid_lost: float = 0.0
    killed: float = 0.0
    killed_at_a_limit: float = 0.0
    """While what a limit leaves beyond all commitments lasts for no more than five minutes."""
    agent_mute: float = 0.0
    host_lost: float = 0.0
    ends_well: float = 0.0
    """The run does, so that its machine may prove the market; then the job begins again."""
    stays: float = 0.0
    """A machine that is to prove its market does not destroy itself."""


@dataclass(slots=True)
class Spending:
    rng: random.Random
    trouble: Trouble
    jobs: dict[str, Job]
    limits: Limits
    now: datetime = START
    books: Books = field(default_factory=Books)
    machines: dict[str, Machine] = field(default_factory=dict)
    late: list[tuple[datetime, Machine]] = field(default_factory=list)
    past: dict[str, Lease] = field(default_factory=dict)
    past_cost: dict[tuple[str, date], Decimal] = field(default_factory=dict)
    orders: dict[str, tuple[int, int, Role]] = field(default_factory=dict)
    sweep: Sweep = field(default_factory=Sweep)
    dead_until: datetime | None = None
    dark_until: datetime | None = None
    known_at: datetime = START
    is_at_a_limit: bool = False
    token_jobs: frozenset[str] = frozenset()
    """Ids of jobs of one token, whose allowance bounds them together."""
    token_allowance: Decimal | None = None
    uncertified: Decimal | None = None
    """What may be spent on the market, which has no certificate; None: it has one."""
    is_proved: bool = False
    """By use: a machine has destroyed itself at the end of its last permit."""
    permit_s: int = PERMIT_S
    """The longest permit, as the settings say."""
    given_ids: int = 0
    created: int = 0
    floor: Decimal = ZERO
    disk_price: Decimal = ZERO
    """$/GB a month."""
    traffic_prices: tuple[Decimal, Decimal] = (ZERO, ZERO)
    """Up and down, $/GB."""

    def new(self) -> str:
        self.given_ids += 1
        return f"lease-{self.given_ids}"

    def tick(self) -> None:
        for _ in range(TICK // STEP):
            self.now += STEP
            self._market_moves()
            self._agents_move()
            self.check()
        if self.dead_until is not None and self.now < self.dead_until:
            return
        self.dead_until = None
        self._daemon()
        self.check()
        self.check_held()

    def check_held(self) -> None:
        """For each machine under a long permit is held back what it can bill from now on, should it never be heard."""
        for machine in self.machines.values():
            lease, until = self._lease(machine), machine.last_permit_until
            is_long = until is not None and until - self.now > timedelta(seconds=PERMIT_S)
            if until is None or not is_long or lease.is_over or machine.destroy_sent or self.dead_until is not None:
                continue
            hours = Decimal((until - self.now + timedelta(seconds=PERMIT_TAIL_S)).total_seconds()) / 3600
            sent = machine.upload_price * machine.slots * PARAMS.traffic.upload_gb
            most = (machine.asked + lease.storage_rate) * hours + sent
            held = commitment(lease, PARAMS)
            assert most <= held, f"{lease.id} may bill {most} unheard by {until}, and {held} is held at {self.now}"

    def check(self) -> None:
        """Every limit, at every instant."""
        today = self.now.date()
        for job in self.jobs.values():
            if job.spec.budget is not None:
                spent = self.books.total(job.id)
                assert spent <= job.spec.budget, f"{job.id} spent {spent} of {job.spec.budget} by {self.now}"
        if self.token_allowance is not None:
            spent = sum((self.books.total(job_id) for job_id in self.token_jobs), ZERO)
            assert spent <= self.token_allowance, f"the token spent {spent} of {self.token_allowance} by {self.now}"
        if self.uncertified is not None:
            spent = self.books.total()
            assert spent <= self.uncertified, f"without a certificate {spent} of {self.uncertified} by {self.now}"
        if self.limits.day is not None:
            assert self.books.total(day=today) <= self.limits.day, f"the day's limit is broken by {self.now}"
        if self.limits.month is not None:
            spent = self.books.total_of_month(today)
            assert spent <= self.limits.month, f"the month's limit is broken by {self.now}"

    # The market, as it really is

    def _is(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    def _market_moves(self) -> None:
        hours = Decimal(STEP // timedelta(seconds=1)) / 3600
        for machine in self.machines.values():
            shown = machine.instance
            cost = (shown.bid if shown.status is RUNNING else ZERO) + (
                shown.storage_rate if shown.status is not OFFLINE else ZERO
            )
            unasked = max(shown.bid - machine.asked, ZERO) if shown.status is RUNNING and self.dead_until else ZERO
            self._charge(machine, (cost - unasked) * hours)
            self.books.charge(machine.job_id, self.now.date(), unasked * hours, is_excused=True)
        for machine in self.machines.values():
            if not self._is(self.trouble.list_lags):
                machine.shown = machine.instance
            self._drift(machine)
        if self.rng.random() < 0.05:
            self.floor = (self.floor * self.rng.choice([D("0.5"), D("0.9"), D("1.1"), D("1.8")])).quantize(D("0.001"))
            self.floor = min(max(self.floor, D("0.02")), D(3))
        for due, machine in list(self.late):
            if self.now >= due:
                self.late.remove((due, machine))
                self._land(machine)

    def _drift(self, machine: Machine) -> None:
        status = machine.instance.status
        if status is PROVISIONING and self.rng.random() < 0.15:
            status = RUNNING
        elif status is RUNNING and self._is(self.trouble.outbid):
            status = STOPPED
        elif status is RUNNING and self._is(self.trouble.host_lost):
            status = OFFLINE
        elif status in (STOPPED, OFFLINE) and self._is(self.trouble.resume):
            status = RUNNING
        if status is not machine.instance.status:
            machine.instance = replace(machine.instance, status=status)
            machine.permit_until = machine.saved_at = machine.leaves_at = None

    def _charge(self, machine: Machine, amount: Decimal) -> None:
        no_one_acts = (
            self.dead_until is not None
            and machine.last_permit_until is not None
            and self.now > machine.last_permit_until + timedelta(seconds=PERMIT_TAIL_S)
        )
        self.books.charge(machine.job_id, self.now.date(), amount, is_excused=machine.destroy_sent or no_one_acts)

    def _land(self, machine: Machine) -> None:
        self.machines[machine.instance.instance_id] = machine
        lease = self._lease(machine)
        self._charge(machine, lease.traffic.download_price * lease.traffic.download_gb * self.rng.randint(0, 10) / 10)

    # The agents

    def _agents_move(self) -> None:
        for id_, machine in list(self.machines.items()):
            if machine.instance.status is not RUNNING:
                continue
            seq, ttl_s, role = self.orders.get(machine.lease_id, (0, PERMIT_S, Role.WAIT))
            if machine.permit_until is None:
                machine.boot, machine.beats, machine.sent_bytes = machine.boot + 1, 0, 0
                machine.permit_until = self._permit_of_boot(machine, ttl_s)
                machine.last_permit_until = machine.last_permit_until or machine.permit_until
            if not self._is(self.trouble.agent_mute):
                self._look(machine, seq, ttl_s)
            stays = machine.stays and self._lease(machine).is_proving
            leaving = role is Role.LEAVE or (self.now >= machine.permit_until and not stays)
            if leaving and machine.leaves_at is None:
                machine.leaves_at = self.now + timedelta(seconds=self.rng.randint(0, PERMIT_TAIL_S - 20))
            if machine.leaves_at is not None and self.now >= machine.leaves_at:
                del self.machines[id_]
                continue
            if role is Role.SAVE_AND_STOP and machine.saved_at is None:
                machine.saved_at = self.now + timedelta(seconds=self.rng.randint(10, 400))
                self._upload(machine)
            elif role is Role.RUN and self.rng.random() < 0.02 and self._may_upload(machine):
                self._upload(machine)

    def _permit_of_boot(self, machine: Machine, ttl_s: int) -> datetime:
        """A short one begins again; of a long one what is left, or the time to find newer orders."""
        if ttl_s <= PERMIT_S or machine.last_permit_until is None:
            return self.now + timedelta(seconds=min(ttl_s, PERMIT_S))
        return max(machine.last_permit_until, self.now + timedelta(seconds=120))

    def _look(self, machine: Machine, seq: int, ttl_s: int) -> None:
        """As an agent reads its orders: a long permit counts from the look before."""
        looked_at, machine.looked_at = machine.looked_at, self.now
        if seq <= machine.seq:
            return
        machine.seq, machine.slots = seq, SAVES_ALONE
        until = self.now + timedelta(seconds=min(ttl_s, PERMIT_S))
        if ttl_s > PERMIT_S and looked_at is not None:
            until = max(until, looked_at + timedelta(seconds=ttl_s))
        machine.permit_until = machine.last_permit_until = until

    def _may_upload(self, machine: Machine) -> bool:
        if self.permit_s > PERMIT_S and not machine.slots:
            return False
        return machine.uploaded_at is None or self.now - machine.uploaded_at >= CHECKPOINTS_APART

    def _upload(self, machine: Machine) -> None:
        machine.uploaded_at, machine.slots = self.now, machine.slots - 1
        size = self.rng.randint(0, int(PARAMS.traffic.upload_gb * 10**9))
        machine.sent_bytes += size
        self._charge(machine, machine.upload_price * size / 10**9)

    # The daemon: what the engine does, with the store and the calls left out

    def _daemon(self) -> None:
        kept = dict(self.jobs), dict(self.past), dict(self.past_cost)
        self.is_at_a_limit = False
        reading = self._reading()
        self._read(reading)
        self._mail()
        today = self._accrued()
        calls = list(self._decide(reading, today))
        if self._is_killed():
            self.jobs, self.past, self.past_cost = kept
            self._die()
            return
        dies = self._is_killed()
        for job in self.jobs.values():
            for lease in job.leases:
                self.orders[lease.id] = (lease.permit.seq, lease.permit.ttl_s or PERMIT_S, lease.orders.role)
        for job_id, call, lease_id, bid in calls:
            if dies and self._is(0.5):
                break
            if call == "create":
                self._create(job_id, lease_id, is_recorded=not dies)
            else:
                self._change_bid(job_id, lease_id, bid, is_recorded=not dies)
        if not dies:
            self._destroys()
        self._bury_all()
        if dies:
            self._die()

    def _read(self, reading: Reading) -> None:
        if reading.known:
            self.known_at = self.now
        for job in list(self.jobs.values()):
            for lease in job.leases:
                self._apply(job.id, *lease_events(lease, reading, (), self.now))
                after = lease_of(self.jobs[job.id], lease.id)
                self.is_proved |= lease.is_proving and after.state is LeaseState.GONE and not after.ending.attempts
            if self.jobs[job.id].status is JobStatus.SUCCEEDED and not self.jobs[job.id].main:
                self.jobs[job.id] = replace(
                    self.jobs[job.id],
                    status=JobStatus.PENDING,
                    reason=Reason.SUBMITTED,
                    finished_at=None,
                    exit_code=None,
                )
        self._swept(reading)

    def _is_killed(self) -> bool:
        return self._is(self.trouble.killed_at_a_limit if self.is_at_a_limit else self.trouble.killed)

    def _die(self) -> None:
        if self.permit_s > PERMIT_S:
            self.dead_until = self.now + timedelta(hours=self.rng.choice([1, 2, 3]))
            return
        self.dead_until = self.now + timedelta(
            seconds=self.rng.choice([1800, 3600] if self.is_at_a_limit else [60, 300, 1200, 3600])
        )

    def _apply(self, job_id: str, *events: e.Event) -> None:
        for event in events:
            self.jobs[job_id] = evolve(self.jobs[job_id], event)

    def _bury_all(self) -> None:
        for job in list(self.jobs.values()):
            for lease in job.leases:
                if lease.is_over:
                    self._bury(lease)
            self.jobs[job.id] = replace(job, leases=tuple(lease for lease in job.leases if not lease.is_over))

    def _bury(self, lease: Lease) -> None:
        self.past[lease.id] = lease
        assert lease.job_id is not None
        for (_, day), amount in cost_by_day(lease, self.now).items():
            key = lease.job_id, day
            self.past_cost[key] = self.past_cost.get(key, ZERO) + amount

    def _held(self, job_id: str | None = None) -> Decimal:
        """For machines that are gone: no bill comes here."""
        past = (lease for lease in self.past.values() if job_id in (None, lease.job_id))
        return sum((commitment(lease, PARAMS) for lease in past), ZERO)

    def _reading(self) -> Reading:
        if self.dark_until is None and self._is(self.trouble.list_fails):
            self.dark_until = self.now + timedelta(seconds=self.rng.choice([30, 120, 900, 5400]))
        if self.dark_until is not None:
            if self.now < self.dark_until:
                return Reading("vastai", self.now, None, "dark")
            self.dark_until = None
        missing = [
            lease
            for job in self.jobs.values()
            for lease in job.leases
            if lease.instance_id is not None
            and lease.instance_id not in self.machines
            and not lease.is_over
            and lease.acquired_at is not None
            and self.now - lease.acquired_at >= VISIBLE_AFTER
        ]
        absent = frozenset(lease.instance_id for lease in missing if lease.instance_id)
        proved = frozenset(lease.instance_id for lease in missing if lease.instance_id and lease.observed.absences)
        shown = tuple(machine.shown for machine in self.machines.values())
        return Reading("vastai", self.now, shown, absent=absent, confirmed_gone=proved)

    def _swept(self, reading: Reading) -> None:
        if reading.instances is None:
            return
        named: dict[str, list[Lease]] = {}
        for lease in (*(lease for job in self.jobs.values() for lease in job.leases), *self.past.values()):
            named.setdefault(lease.label, []).append(lease)
        found = self.sweep.look(len(reading.instances), find_unaccounted(reading.instances, named), self.now)
        for instance, holder in found:
            assert holder is not None, "an instance that no lease ever asked for"
            assert holder.job_id is not None
            if holder.id in self.past:
                self._dig_up(self.past.pop(holder.id))
            self._apply(holder.job_id, e.InstanceFound(holder.id, instance.instance_id, self.now))

    def _dig_up(self, lease: Lease) -> None:
        assert lease.job_id is not None
        for (_, day), amount in cost_by_day(lease, self.now).items():
            self.past_cost[lease.job_id, day] -= amount
        job = self.jobs[lease.job_id]
        self.jobs[job.id] = replace(job, leases=(*job.leases, lease))

    def _mail(self) -> None:
        for machine in self.machines.values():
            job = self.jobs[machine.job_id]
            lease = next((lease for lease in job.leases if lease.id == machine.lease_id), None)
            if lease is None or not lease.is_wanted or machine.permit_until is None:
                continue
            if self._is(self.trouble.agent_mute):
                continue
            machine.beats += 1
            saved = machine.saved_at is not None and self.now >= machine.saved_at
            state = "saving" if saved else "waiting" if lease.orders.role is Role.WAIT else "running"
            if lease.orders.run_epoch == job.run_epoch and self._is(self.trouble.ends_well):
                self._apply(job.id, e.RunExited(lease.id, job.run_epoch, 0, self.now))
                job = self.jobs[job.id]
            beat = e.HeartbeatSeen(
                *(lease.id, machine.boot, machine.beats, AgentState(state), None, None, None, 0, saved, self.now),
                sent_bytes=machine.sent_bytes,
                most_bytes=10**15,
            )
            self._apply(job.id, beat)
            if lease.orders.run_epoch == job.run_epoch and self.rng.random() < 0.05:
                number = 0 if job.checkpoint is None else job.checkpoint.number + 1
                size = self.rng.randint(1, int(PARAMS.traffic.upload_gb * 10**9))
                newest = Checkpoint(
                    job.id, lease.id, number, lease.orders.run_epoch, 1, job.work_done, size, 1, self.now
                )
                self._apply(job.id, e.CheckpointVerified(newest, self.now))

    def _accrued(self) -> tuple[Decimal, Decimal]:
        """Give each job what it has spent by our own clock; the account's spend today and in all."""
        today, whole = ZERO, ZERO
        for job in list(self.jobs.values()):
            spent = ZERO
            costs = [(day, amount) for (job_id, day), amount in self.past_cost.items() if job_id == job.id]
            for lease in job.leases:
                booked = cost_by_day(keep_watched(lease, self.now), self.now)
                costs += [(day, amount) for (_, day), amount in booked.items()]
                costs.append((self.now.date(), unobserved_cost(lease, self.now, PARAMS)))
            for day, amount in costs:
                spent += amount
                today += amount if day == self.now.date() else ZERO
            whole += spent
            self.jobs[job.id] = replace(job, spent=spent, held=self._held(job.id))
        return today, whole

    def _decide(self, reading: Reading, spent: tuple[Decimal, Decimal]) -> Iterator[tuple[str, str, str, Decimal]]:
        live = tuple(lease for job in self.jobs.values() for lease in job.leases if not lease.is_over)
        exposure = Exposure(live, *spent, held=self._held() + self._going(), purses=self._purses())
        exposure = replace(exposure, market_purses=self._market_purses(spent[1]))
        offers = tuple(self._offers())
        for job in list(self.jobs.values()):
            views = {"vastai": self._view(job, exposure, is_known=reading.known)}
            market = Market(views, offers, self.now, allowance=allowance(exposure, self.limits, PARAMS, job))
            decision = decide(job, market, self.now, PARAMS)
            allowed, _ = guard(job, decision, market, exposure, self.limits, self.now, PARAMS)
            self._apply(job.id, *action_events(allowed, self.now))
            for action in allowed:
                if isinstance(action, Acquire):
                    lease = intended_lease(self.jobs[job.id], action, "d", "install1", self, self.now, PARAMS)
                    self._apply(job.id, e.LeaseIntended(lease, self.now))
                    yield job.id, "create", lease.id, ZERO
                elif isinstance(action, ChangeBid):
                    yield job.id, "bid", action.lease_id, action.bid
            others = tuple(lease for lease in exposure.leases if lease.job_id != job.id)
            exposure = replace(exposure, leases=(*others, *self.jobs[job.id].leases))
            if self.now - self.known_at < timedelta(minutes=30):
                exposure = self._renew(job.id, exposure)

    def _going(self) -> Decimal:
        """For machines that go in this very tick."""
        over = (lease for job in self.jobs.values() for lease in job.leases if lease.is_over)
        return sum((commitment(lease, PARAMS) for lease in over), ZERO)

    def _purses(self) -> dict[str, tuple[Purse, ...]]:
        if self.token_allowance is None:
            return {}
        spent = sum((self.jobs[job_id].spent + self._held(job_id) for job_id in self.token_jobs), self._going())
        purse = Purse(self.token_allowance, spent, self.token_jobs, has_ended=False)
        return dict.fromkeys(self.token_jobs, (purse,))

    def _market_purses(self, spent: Decimal) -> dict[str, MarketPurse]:
        if self.uncertified is None:
            return {}
        purse = MarketPurse(self.uncertified, spent + self._held() + self._going(), "vastai")
        return {"vastai": replace(purse, proof=self._proof())}

    def _proof(self) -> UseProof:
        return UseProof(self.now + timedelta(days=30)) if self.is_proved else UseProof(is_due=True)

    def _view(self, job: Job, exposure: Exposure, *, is_known: bool) -> ProviderView:
        purse = exposure.market_purses.get("vastai")
        if purse is None or self.uncertified is None:
            return ProviderView(capabilities(), is_known, None)
        left = purse.left(exposure.leases, PARAMS)
        assert left is not None, "it has a bound"
        is_taken = purse.is_full(exposure.leases, besides=job.id)
        room = UncertifiedRoom(self.uncertified, left, is_taken, proof=purse.proof)
        return ProviderView(capabilities(), is_known, None, lack=Lack.MISSING, uncertified=room)

    def _renew(self, job_id: str, exposure: Exposure) -> Exposure:
        """As the engine renews permits."""
        for lease in self.jobs[job_id].leases:
            told_to_stop = lease.orders.stop_ordered_at is not None and lease.orders.stop_seq == 0
            since = lease.permit.renewed_at
            may_go_on = lease.was_listed and lease.orders.role is not Role.SAVE_AND_STOP and not lease.is_proving
            is_due = since is None or (may_go_on and self.now - since >= timedelta(seconds=60))
            if not lease.is_wanted:
                continue
            bounds = self._bounds(job_id, exposure)
            self.is_at_a_limit |= any(
                bound.left is not None and bound.left < burn(bound.leases) / 12 for bound in bounds
            )
            if is_due or told_to_stop:
                is_at_work = lease.agent.boot > 0 and lease.was_listed and lease.orders.role is Role.RUN
                may_be_long = is_at_work and (self.uncertified is None or self.is_proved)
                ttl_s = give_permit_s(lease, bounds, self.permit_s, self.now, PARAMS, may_be_long=may_be_long)
                self._apply(job_id, e.PermitRenewed(lease.id, lease.permit.seq + 1, self.now, ttl_s))
                exposure = exposure.with_changed(lease_of(self.jobs[job_id], lease.id))
        return exposure

    def _bounds(self, job_id: str, exposure: Exposure) -> list[PermitBound]:
        job = self.jobs[job_id]
        over_all, leases = allowance(exposure, self.limits, PARAMS, job), exposure.leases
        purses = *exposure.purses.get(job_id, ()), *exposure.market_purses.values()
        lefts = [
            purse.left_for(job, leases, PARAMS) if isinstance(purse, Purse) else purse.left(leases, PARAMS)
            for purse in purses
        ]
        shared = [
            PermitBound(left_over, tuple(purse.drawing(leases))) for left_over, purse in zip(lefts, purses, strict=True)
        ]
        return [
            PermitBound(left(job, PARAMS), job.leases),
            PermitBound(over_all.day, leases),
            PermitBound(over_all.month, leases),
            *shared,
        ]

    def _offers(self) -> Iterator[Offer]:
        for n in range(3):
            floor = (self.floor * self.rng.randint(8, 12) / 10).quantize(D("0.001"))
            yield an_offer(
                f"m{n}",
                floor=floor,
                on_demand_price=floor * 3,
                storage_price=self.disk_price,
                upload_price=self.traffic_prices[0],
                download_price=self.traffic_prices[1],
            )

    # What the market makes of our calls

    def _create(self, job_id: str, lease_id: str, *, is_recorded: bool) -> None:
        self.created += 1
        lease = lease_of(self.jobs[job_id], lease_id)
        rate = lease.bid * 2 if self._is(self.trouble.wrong_terms) else lease.bid
        instance = Instance(
            provider="vastai",
            instance_id=str(1000 + self.created),
            label=lease.label,
            machine_id=lease.machine_id,
            host_id="h",
            capacity_type=lease.capacity_type,
            status=PROVISIONING,
            intended_running=True,
            bid=rate,
            storage_rate=lease.storage_rate,
            gpu=lease.gpu,
            num_gpus=1,
            ends_at=None,
            message="",
        )
        machine = Machine(instance, job_id, lease_id, lease.traffic.upload_price, instance, lease.bid)
        machine.stays = self._is(self.trouble.stays)
        if self._is(self.trouble.create_lost):
            self.late.append((self.now + timedelta(seconds=self.rng.randint(0, 180)), machine))
            is_answered = False
        else:
            self._land(machine)
            is_answered = True
        if is_recorded and is_answered:
            self._apply(job_id, e.LeaseAcquired(lease_id, instance.instance_id, self.now))
        elif is_recorded:
            self._apply(job_id, e.LeaseUncertain(lease_id, "timeout", self.now))

    def _change_bid(self, job_id: str, lease_id: str, bid: Decimal, *, is_recorded: bool) -> None:
        lease = lease_of(self.jobs[job_id], lease_id)
        machine = self.machines.get(lease.instance_id or "")
        if machine is None or self._is(0.1):
            if is_recorded and machine is not None:
                self._apply(job_id, e.BidRefused(lease_id, machine.instance.bid, self.now))
            return
        machine.instance = replace(machine.instance, bid=bid, status=PROVISIONING)
        machine.permit_until, machine.asked = None, bid
        if is_recorded and not self._is(self.trouble.bid_lost):
            self._apply(job_id, e.BidChanged(lease_id, bid, self.now))

    def _destroys(self) -> None:
        for job in list(self.jobs.values()):
            for lease in job.leases:
                if lease.state is not LeaseState.DESTROY_REQUESTED or lease.instance_id is None:
                    continue
                machine = self.machines.get(lease.instance_id)
                if machine is not None:
                    machine.destroy_sent = True
                accepted = not self._is(self.trouble.destroy_refused)
                if accepted and machine is not None and not self._is(self.trouble.destroy_ignored):
                    del self.machines[lease.instance_id]
                    if self._is(self.trouble.destroyed_returns):
                        self.late.append((self.now + timedelta(seconds=self.rng.randint(60, 600)), machine))
                self._apply(job.id, e.DestroySent(lease.id, accepted, self.now))

    def leases(self) -> tuple[Lease, ...]:
        """All that there ever were."""
        return (*self.past.values(), *(lease for job in self.jobs.values() for lease in job.leases))

    def _lease(self, machine: Machine) -> Lease:
        held = self.jobs[machine.job_id].leases
        return next((lease for lease in held if lease.id == machine.lease_id), None) or self.past[machine.lease_id]


def with_long_permits(scenario: Spending) -> Spending:
    """The daemon sleeps for hours, and its machines may work on for two; limits hold more than a first machine."""
    rng = scenario.rng
    scenario.permit_s = LONG_PERMIT_S
    scenario.trouble = replace(scenario.trouble, killed=0.02, killed_at_a_limit=0.1, agent_mute=0.1)
    times = D(str(rng.choice([1, 2, 4, 8])))
    for job_id, job in scenario.jobs.items():
        if job.spec.budget is not None:
            scenario.jobs[job_id] = replace(job, spec=replace(job.spec, budget=job.spec.budget * times))
    limits = scenario.limits
    day, month = (None if limit is None else limit * times for limit in (limits.day, limits.month))
    scenario.limits = replace(limits, day=day, month=month)
    return scenario


def with_ends(scenario: Spending) -> Spending:
    """Runs end well again and again: the first prove the market, or their machines stay at the end of their permits."""
    stays = scenario.rng.choice([0.0, 0.3])
    scenario.trouble = replace(scenario.trouble, ends_well=0.03, stays=stays)
    assert scenario.uncertified is not None
    scenario.uncertified *= scenario.rng.choice([1, 2, 4])
    return scenario


def a_scenario(seed: int, *, has_token: bool = False, is_uncertified: bool = False) -> Spending:
    """Half of all seeds have a market that destroys what it is told to and a daemon that lives.

    ``has_token``: the jobs are a token's, whose allowance bounds them together. ``is_uncertified``: the market has no
    certificate, and an allowance.
    """
    rng = random.Random(seed)

    def chance(most: float) -> float:
        return rng.random() * most if rng.random() < 0.5 else 0.0

    is_fair = seed % 2 == 0
    trouble = Trouble(
        outbid=chance(0.02),
        resume=chance(0.05),
        list_fails=chance(0.05),
        list_lags=chance(0.5),
        create_lost=chance(0.3),
        wrong_terms=chance(0.2),
        bid_lost=chance(0.5),
        agent_mute=chance(0.3),
        host_lost=chance(0.01),
        destroy_refused=0 if is_fair else chance(0.3),
        destroy_ignored=0 if is_fair else chance(0.3),
        destroyed_returns=0 if is_fair else chance(0.1),
        killed=0 if is_fair else chance(0.02),
        killed_at_a_limit=0 if is_fair else chance(0.3),
    )
    floor = D(rng.randint(50, 1500)) / 1000
    disk_price = rng.choice([D("0.01"), D("0.01"), D("0.15")])
    up, down = rng.choice([ZERO, ZERO, D("0.004"), D("0.02")]), rng.choice([ZERO, ZERO, D("0.002"), D("0.01")])
    start_and_stop = (
        create_reserve(floor * 3, disk_price * 20 / 720, PARAMS)
        + up * 2 * PARAMS.traffic.upload_gb
        + down * PARAMS.traffic.image_gb
    )

    def limit(likely: float, rng: random.Random = rng) -> Decimal | None:
        """Little more than the first machine needs, or several times as much."""
        times = D(str(rng.choice([1.01, 1.1, 1.5, 3, 6])))
        return ceil_nano(start_and_stop * times) if rng.random() < likely else None

    jobs: dict[str, Job] = {}
    for n in range(rng.choice([1, 1, 2])):
        spec = a_spec(
            work_estimate=rng.choice([None, timedelta(hours=2)]),
            budget=limit(0.7),
            max_bid=rng.choice([None, floor * 2]),
            spot_policy=rng.choice([SpotPolicy.AUTO, SpotPolicy.AUTO, SpotPolicy.SPOT]),
        )
        jobs[f"job-{n}"] = replace(a_job(spec=spec), id=f"job-{n}")
    is_bound = all(job.spec.budget is not None for job in jobs.values())
    day = limit(0.4 if is_bound else 1)
    limits = Limits(day, limit(0.3), None, 6, 20, 1000)
    start = rng.choice([START, datetime(2028, 2, 29, 23, 40, tzinfo=START.tzinfo)])
    scenario = Spending(
        *(rng, trouble, jobs, limits),
        now=start,
        floor=floor,
        disk_price=disk_price,
        traffic_prices=(up, down),
        token_jobs=frozenset(jobs),
        token_allowance=limit(1, random.Random(-seed)) if has_token else None,
    )
    return (
        _without_certificate(scenario, create_reserve(floor * 2, disk_price * 20 / 720, PARAMS))
        if is_uncertified
        else scenario
    )


def _without_certificate(scenario: Spending, start: Decimal) -> Spending:
    """Its allowance is what ends the machines: no other limit is near. ``start``: the reserve of a first machine, $."""
    for job_id, job in scenario.jobs.items():
        scenario.jobs[job_id] = replace(job, spec=replace(job.spec, budget=None))
    up, down = scenario.traffic_prices
    traffic = up * 2 * PARAMS.traffic.upload_gb + down * PARAMS.traffic.image_gb
    times = D(str(scenario.rng.choice([1.01, 1.1, 1.5])))
    scenario.uncertified = ceil_nano((start + traffic + scenario.floor / 2) * times)
    scenario.limits = replace(scenario.limits, day=None, month=None)
    return scenario
