"""The daemon's figures for Prometheus, as they are at the moment of each scrape.

They are read from the ledger and from what the engine saw last; only the ticks are counted beside it. Labels are
bounded: markets, states and kinds by their nature, jobs to those that are open.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from autopilot import __version__
from autopilot.answers.money import Budget
from autopilot.books.budget import budget, burning, credits_of
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.job_forecast import GOES_ON
from autopilot.domain.lease import OVER, Lease, LeaseState
from autopilot.domain.money import ZERO
from autopilot.domain.offer import CapacityType
from autopilot.domain.reconciliation import ReconciliationRow
from autopilot.domain.spend import SpendSource
from autopilot.engine.engine import Engine
from autopilot.engine.outstanding import read_moment
from autopilot.ports.clock import Clock
from autopilot.ports.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_JOBS = 500
"""Open jobs with figures of their own, the newest."""
TICK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120)

Labels = tuple[str, ...]


class Metrics:
    def __init__(self, engine: Engine, store: Store, clock: Clock) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._ticks = CollectorRegistry()
        self._tick_seconds = Histogram(
            "autopilot_tick_seconds", "How long ticks took", registry=self._ticks, buckets=TICK_BUCKETS
        )
        self._failed = Counter("autopilot_ticks_failed", "Ticks that did not complete", registry=self._ticks)

    def note_tick(self, seconds: float, *, is_good: bool) -> None:
        """``seconds``: real ones."""
        self._tick_seconds.observe(seconds)
        if not is_good:
            self._failed.inc()

    async def render(self) -> bytes:
        """The text that Prometheus reads. Raises ``StoreUnavailable``."""
        snapshot = await self._read()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(self._engine, snapshot))
        return generate_latest(registry) + generate_latest(self._ticks)

    async def _read(self) -> _Snapshot:
        now = self._clock.now()
        today = now.astimezone(UTC).date()
        async with self._store.snapshot() as uow:
            config = self._engine.config
            moment = await read_moment(uow, now, config.params)
            foretold = await uow.forecasts.of_jobs([job.id for job in moment.jobs if job.status in GOES_ON])
            return _Snapshot(
                now,
                moment.jobs,
                await uow.leases.list_orphans(),
                await budget(uow, moment, config.limits, credits_of(self._engine), settled=config.settled),
                await uow.reports.sum_spend(today.replace(day=1)),
                await uow.reports.reconcile(f"{today:%Y-%m}"),
                {job_id: known.on_time for job_id, known in foretold.items() if known.on_time is not None},
            )


@dataclass(frozen=True, slots=True)
class _Snapshot:
    now: datetime
    jobs: Sequence[Job]
    orphans: Sequence[Lease]
    budget: Budget
    spend: SpendSource
    """Spend in this UTC month."""
    bills: Sequence[ReconciliationRow]
    """The same."""
    odds: Mapping[str, float]
    """By job id: of being done in time, by the newest forecast."""

    @property
    def leases(self) -> list[Lease]:
        return [*(lease for job in self.jobs for lease in job.leases), *self.orphans]


class _Collector:
    def __init__(self, engine: Engine, snapshot: _Snapshot) -> None:
        self._engine = engine
        self._seen = snapshot

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge("build_info", "The version that runs", ("version",), {(__version__,): 1})
        yield from self._markets()
        yield from self._work()
        yield from self._money()
        yield from self._jobs()

    def _markets(self) -> Iterator[GaugeMetricFamily]:
        watches = self._engine.watches
        ticked = {} if self._engine.last_tick_at is None else {(): _epoch(self._engine.last_tick_at)}
        yield _gauge("tick_last_success_timestamp_seconds", "When a tick last completed", (), ticked)
        read = {(name,): _epoch(watch.known_at) for name, watch in watches.items() if watch.known_at is not None}
        help_of_read = "When the market was last read in full"
        yield _gauge("market_last_good_read_timestamp_seconds", help_of_read, ("provider",), read)
        known = {(name,): int(watch.last.known) for name, watch in watches.items()}
        yield _gauge("market_known", "Whether the market could be read at the last tick", ("provider",), known)
        credit = {(name,): watch.last.credit for name, watch in watches.items() if watch.last.credit is not None}
        yield _gauge("credit_dollars", "What the account has at the market", ("provider",), credit)
        yield from self._certificates()

    def _certificates(self) -> Iterator[GaugeMetricFamily]:
        """Certificates of the markets that need one."""
        held, rules = self._engine.certification, self._engine.certification.rules
        needed = sorted(name for name in self._engine.watches if name in rules.needed_on)
        in_force = {(name,): int(held.lack_of(name, self._seen.now) is None) for name in needed}
        help_of_force = "Whether new machines may be rented there by its certificate"
        yield _gauge("certificate_in_force", help_of_force, ("provider",), in_force)
        found = {name: held.statuses[name].certificate for name in needed if name in held.statuses}
        ends = {(name,): _epoch(each.ends_at) for name, each in found.items() if each is not None}
        help_of_end = "When the newest certificate ends, in force or not"
        yield _gauge("certificate_ends_timestamp_seconds", help_of_end, ("provider",), ends)

    def _work(self) -> Iterator[GaugeMetricFamily]:
        statuses = Tally(job.status for job in self._seen.jobs)
        yield _gauge(
            "jobs", "Open jobs", ("status",), {(each,): statuses[each] for each in JobStatus if not each.is_final}
        )
        live = [lease for lease in self._seen.leases if not lease.is_over]
        states = Tally((lease.provider, lease.state) for lease in live)
        kinds = [state for state in LeaseState if state not in OVER]
        rows = {(name, state): states[name, state] for name in self._engine.watches for state in kinds}
        yield _gauge("leases", "Machines that are rented, or about to be", ("provider", "state"), rows)
        orphans = sum(not lease.is_over for lease in self._seen.orphans)
        yield _gauge("orphans", "Machines of ours that no job wants", (), {(): orphans})
        groups: dict[Labels, list[Lease]] = {(name, kind): [] for name in self._engine.watches for kind in CapacityType}
        for lease in live:
            groups.setdefault((lease.provider, lease.capacity_type), []).append(lease)
        rates = {key: burning(leases) for key, leases in groups.items()}
        yield _gauge("burn_dollars_per_hour", "What machines cost now", ("provider", "capacity"), rates)

    def _money(self) -> Iterator[GaugeMetricFamily]:
        account, tokens = self._seen.budget.account, self._seen.budget.tokens
        assert account is not None, "it was asked for as a whole"
        periods = {("day",): account.day, ("month",): account.month}
        spent = {key: each.posted + each.accrued for key, each in periods.items()}
        help_of_spent = "Posted and accrued in this UTC day or month. A late bill can lower it"
        yield _gauge("spend_dollars", help_of_spent, ("period",), spent)
        left = {key: each.left for key, each in periods.items() if each.left is not None}
        yield _gauge("budget_remaining_dollars", "What the account's limits leave", ("scope",), left)
        sums: dict[Labels, Decimal] = {}
        for cell in self._seen.spend.cells:
            key = (self._seen.spend.leases[cell.lease_id].provider, cell.kind)
            sums[key] = sums.get(key, ZERO) + cell.amount
        help_of_month = "Posted to the ledger in this UTC month. A late bill can lower it"
        yield _gauge("spend_month_dollars", help_of_month, ("provider", "kind"), sums)
        of_tokens = [each for each in tokens if each.number > 0]  # others are users
        allowed = {(each.name,): each.left for each in of_tokens if each.left is not None}
        yield _gauge("token_allowance_remaining_dollars", "What a token's jobs may still cost", ("token",), allowed)
        billed = [row for row in self._seen.bills if row.invoiced is not None]
        invoiced = _sum((row.provider, row.invoiced or ZERO) for row in billed)
        yield _gauge("ledger_invoiced_dollars", "What the market has billed for this month", ("provider",), invoiced)
        differs = _sum((row.provider, row.drift or ZERO) for row in billed)
        help_of_bill = "The market's bill for this month less our own estimate of the same"
        yield _gauge("ledger_invoice_difference_dollars", help_of_bill, ("provider",), differs)

    def _jobs(self) -> Iterator[GaugeMetricFamily]:
        """Figures of each open job, by its id and its name."""
        jobs, now, names = self._seen.jobs[-MOST_JOBS:], self._seen.now, ("job", "name")
        money = {each.id: each for each in self._seen.budget.jobs}
        keys = {job.id: (job.id, job.spec.name) for job in jobs}
        known = {keys[job.id]: money[job.id] for job in jobs if job.id in money}
        spent = {key: each.posted + each.accrued for key, each in known.items()}
        rest = {key: each.left for key, each in known.items() if each.left is not None}
        burns = {key: each.burn for key, each in known.items()}
        yield _gauge("job_spend_dollars", "Posted and accrued for the job so far", names, spent)
        yield _gauge("job_budget_remaining_dollars", "What the job's budget leaves", names, rest)
        yield _gauge("job_burn_dollars_per_hour", "What the job's machines cost now", names, burns)
        progress = {keys[job.id]: job.progress for job in jobs if job.progress is not None}
        yield _gauge("job_progress_ratio", "How far the job says it is, 0 to 1", names, progress)
        work = {keys[job.id]: left.total_seconds() for job in jobs if (left := job.remaining_work) is not None}
        yield _gauge("job_work_left_seconds", "Work that is left, by estimate and progress", names, work)
        ends = {keys[job.id]: job.spec.deadline for job in jobs if job.spec.deadline is not None}
        slack = {key: (at - now).total_seconds() - work.get(key, 0.0) for key, at in ends.items()}
        yield _gauge("job_deadline_slack_seconds", "Time to the deadline beyond the work left", names, slack)
        odds = {keys[job.id]: self._seen.odds[job.id] for job in jobs if job.id in self._seen.odds}
        yield _gauge("job_deadline_odds", "Share of likely markets in which the job is done in time", names, odds)
        ages = {keys[job.id]: age.total_seconds() for job in jobs if (age := _measure_unsaved(job, now)) is not None}
        yield _gauge("job_checkpoint_age_seconds", "Since when a running job has no new checkpoint", names, ages)
        intervals = {
            keys[job.id]: job.spec.checkpoint_interval.total_seconds() for job in jobs if job.spec.checkpoint_path
        }
        yield _gauge("job_checkpoint_interval_seconds", "How often the job file asks for one", names, intervals)
        bids = {
            (lease.provider, job.id, lease.machine_id): lease.bid
            for job in jobs
            for lease in job.leases
            if lease.is_spot and not lease.is_over
        }
        yield _gauge("bid_dollars_per_hour", "The bid on each machine held", ("provider", "job", "machine"), bids)


def _measure_unsaved(job: Job, now: datetime) -> timedelta | None:
    """How long it has run without a checkpoint; None if none is due."""
    main = job.main
    if main is None or main.observed.running_since is None or not job.spec.checkpoint_path:
        return None
    since = main.observed.running_since
    return now - (since if job.checkpoint is None else max(since, job.checkpoint.verified_at))


def _sum(amounts: Iterable[tuple[str, Decimal]]) -> dict[Labels, Decimal]:
    sums: dict[Labels, Decimal] = {}
    for name, amount in amounts:
        sums[name,] = sums.get((name,), ZERO) + amount
    return sums


def _gauge(name: str, meaning: str, labels: Sequence[str], values: Mapping[Any, float | Decimal]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"autopilot_{name}", meaning, labels=labels)
    for key, value in values.items():
        family.add_metric([str(label) for label in key], float(value))
    return family


def _epoch(at: datetime) -> float:
    return at.timestamp()
