"""One start of a suite of bids, and the job that the daemon is given for it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from math import floor, isinf, log10

from autopilot.domain.params import Params, Timing, TrafficSizes
from autopilot.domain.prices import PriceObservation
from autopilot.policy.guard import Limits
from autopilot_lab.backtest.live import Live, recorded_since
from autopilot_lab.backtest.play import Conditions, estimated_job
from autopilot_lab.backtest.suite import BidJob, BidRun, BidSuite
from tests.simulation.ground.scenario import GPU, Scenario, Submit, a_spec
from tests.simulation.virtual.clock import at

JOB = "01JOB000000000000000000000"
DISK_GB = 20
GB_MONTH_H = 720
FIRST_MACHINE, FIRST_HOST = 101, 201
"""Ids of the market: those of the suite's machine and host 0."""
ON_DEMAND_MACHINE = "99"
NO_LIMITS = Limits(None, None, None, 8, 10**6, 10**6)
MILLI = Decimal("0.001")


@dataclass(frozen=True)
class Start:
    """``suite`` as searches show it (``as_searched``)."""

    suite: BidSuite
    run: BidRun
    live: Live

    @cached_property
    def conditions(self) -> Conditions:
        return Conditions(live=self.live)

    @cached_property
    def job(self) -> BidJob:
        """What the user says of it."""
        job = estimated_job(self.suite, self.run, self.conditions)
        assert isinstance(job, BidJob)
        return job

    @cached_property
    def scale(self) -> Decimal:
        """Dollars of the market for a dollar of the suite: bids go in steps of $0.001, and some floors are near that.

        On-demand costs from $2 to $20 an hour then.
        """
        return Decimal(10) ** -floor(log10(self.suite.config.on_demand_price / 2))

    def price(self, dollars: float) -> Decimal:
        """Of the suite, on the market; $/h."""
        return (Decimal(dollars) * self.scale).quantize(Decimal("1e-9"))

    @property
    def storage_price(self) -> Decimal:
        """$/GB-month."""
        return self.price(self.suite.config.storage_rate) * GB_MONTH_H / DISK_GB

    def scenario(self, tick_s: float) -> Scenario:
        spec = a_spec(
            timedelta(seconds=round(self.run.work_s)),
            work_estimate=timedelta(seconds=self.job.work_s),
            deadline=at(self.run.deadline_s),
            checkpoint_interval=timedelta(seconds=self.suite.config.checkpoint_s),
            disk_gb=Decimal(DISK_GB),
            # No machine of a suite tells an on-demand price of its own.
            max_bid=(self.price(self.suite.config.on_demand_price) * Params().bids.ceiling_of_on_demand).quantize(
                MILLI
            ),
        )
        return Scenario(((0.0, Submit(JOB, spec)),), NO_LIMITS, tick_s, idle_s=float("inf"), script={})

    def params(self) -> Params:
        """The daemon's own, with what the suite says of how long a machine takes."""
        own, config = Params(), self.suite.config
        timing = Timing(own.timing.tick_lag_s, config.migrate_s, config.migrate_s, config.resume_s)
        return Params(timing=timing, traffic=TrafficSizes(Decimal(0), Decimal(0)))

    def recorded(self) -> list[PriceObservation]:
        """What the daemon wrote down before the start."""
        first = recorded_since(self.run.start, self.live, self.suite.config.tick_s)
        return [
            self._observation(machine, tick, shown[tick])
            for tick in range(first, self.run.start)
            for machine, shown in enumerate(self.shown)
            if not isinf(shown[tick])
        ]

    @property
    def shown(self) -> tuple[array[float], ...]:
        """Of each machine the floor that a search tells, by tick; infinite where it does not list it."""
        assert self.suite.listing is not None
        return self.suite.listing.shown

    @property
    def hosts(self) -> tuple[int, ...]:
        assert self.suite.listing is not None
        return self.suite.listing.hosts

    def _observation(self, machine: int, tick: int, floor_shown: float) -> PriceObservation:
        return PriceObservation(
            provider="vastai",
            machine_id=str(FIRST_MACHINE + machine),
            gpu=GPU,
            num_gpus=1,
            floor=self.price(floor_shown),
            on_demand_price=None,
            observed_at=at((tick - self.run.start) * self.suite.config.tick_s),
            host_id=str(FIRST_HOST + self.hosts[machine]),
            verified=True,
        )
