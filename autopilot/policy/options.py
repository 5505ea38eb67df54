"""The options to go on from here, each with what the job is expected to cost from now to its end if it is taken.

With a table of costs to go (``value``) every option is priced under uncertainty, the deadline included:

    cost = on-demand $/h × hours of the table + (a held machine's $/h − the best offer's $/h) × hours expected on it

Without one (no deadline, or the table is not made yet) a option costs what it takes to finish there (``cost``). Waiting
has no price then, so on-demand capacity is not taken for want of spot, only when the deadline asks or spot is dearer.
A option that the deadline guard or the budget rules out keeps its price and says why it is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Outlook, Shape
from autopilot.domain.params import Params
from autopilot.policy import budget
from autopilot.pricing.availability.beliefs import Weights
from autopilot.pricing.availability.value import NOTHING, ON_DEMAND, SPOT, CostToGo, cost_to_go
from autopilot.pricing.pressure import Pressure, is_at_work
from autopilot.pricing.rule.cost import Candidate, best, lease_cost_to_finish

CENT_OF_A_CENT = Decimal("0.0001")
"""Prices of options are estimates: more digits would only look exact."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    """``wait`` (nothing runs), ``stay``, ``spot``, ``on_demand``."""
    cost: float | None
    """Expected dollars from now to the end; None where it cannot be said."""
    choice: Candidate | None = None
    refused: str = ""
    """Why it is not taken whatever it costs: ``deadline``, ``budget``, ``not_needed``; empty where it may be."""

    @property
    def is_open(self) -> bool:
        return not self.refused

    def note(self, *, chosen: bool) -> Note:
        choice = self.choice
        return option_note(
            self.name,
            self.cost,
            bid=choice.bid if choice else None,
            provider=choice.offer.provider if choice else None,
            machine=choice.offer.machine_id if choice else None,
            refused=self.refused,
            chosen=chosen,
        )


def option_note(
    name: str,
    cost: float | None,
    *,
    bid: Decimal | float | None,
    provider: str | None,
    machine: str | None,
    refused: str,
    chosen: bool,
) -> Note:
    """One option as a line of the decision's record: ``bid`` in $/h, ``cost`` to the job's end."""
    return Note(
        "option",
        (
            ("option", name),
            ("cost", None if cost is None else Decimal(cost).quantize(CENT_OF_A_CENT)),
            ("bid", Decimal(bid).quantize(CENT_OF_A_CENT) if isinstance(bid, float) else bid),
            ("provider", provider),
            ("machine_id", machine),
            ("refused", refused or None),
            ("chosen", int(chosen)),
        ),
    )


@dataclass(frozen=True, slots=True)
class Options:
    """From nothing: ``wait`` and the best offers. From a machine at work: ``stay`` and the best offers."""

    idle: Option
    """Wait or stay: no action."""
    spot: Option | None
    on_demand: Option | None
    by_table: bool

    def __iter__(self) -> Iterator[Option]:
        return (option for option in (self.idle, self.spot, self.on_demand) if option is not None)

    def notes(self, chosen: Option | None) -> tuple[Note, ...]:
        return tuple(option.note(chosen=option is chosen) for option in self)


def price_options(
    job: Job, candidates: list[Candidate], pressure: Pressure, market: Market, now: datetime, params: Params
) -> Options:
    main = job.main
    spot, on_demand = best(candidates, CapacityType.SPOT), best(candidates, CapacityType.ON_DEMAND)
    shape = _table_shape(pressure, market.outlook)
    if shape is None:
        return _by_cost_to_finish(job, main, spot, on_demand, pressure, market, now, params)
    return _Priced(job, main, spot, on_demand, pressure, market, shape, now, params).price()


def waits_for_spot(job: Job, pressure: Pressure, market: Market) -> bool:
    """Whether nothing asks for on-demand capacity: no table that weighs it, no deadline that presses, no job file.

    Where no market has spot at all there is nothing to wait for.
    """
    if job.spec.spot_policy is SpotPolicy.ON_DEMAND or _table_shape(pressure, market.outlook) is not None:
        return False
    return not _presses(job, pressure) and market.may_have_spot


def _table_shape(pressure: Pressure, outlook: Outlook) -> Shape | None:
    """Of the table that prices the options now, if one does."""
    return None if pressure.slack is None or pressure.is_past or not outlook.belief else outlook.shape


def _presses(job: Job, pressure: Pressure) -> bool:
    return pressure.needs_on_demand and job.spec.fall_back


def _by_cost_to_finish(
    job: Job,
    main: Lease | None,
    spot: Candidate | None,
    on_demand: Candidate | None,
    pressure: Pressure,
    market: Market,
    now: datetime,
    params: Params,
) -> Options:
    def option(choice: Candidate | None, name: str, refused: str) -> Option | None:
        if choice is None:
            return None
        return Option(name, float(choice.cost), choice, refused if is_affordable(job, choice, params) else "budget")

    presses = "deadline" if _presses(job, pressure) else ""
    idle = Option("wait", None, refused=presses)
    if main is not None:
        cost = lease_cost_to_finish(job, main, main.bid, 0, market.outlook, now, params)
        idle = Option("stay", float(cost), refused=presses if main.is_spot else "")
    bid = option(spot, "spot", presses)
    least = min((other.cost for other in (idle, bid) if other is not None and other.cost is not None), default=0.0)
    is_needed = on_demand is None or float(on_demand.cost) <= least or not waits_for_spot(job, pressure, market)
    return Options(idle, bid, option(on_demand, "on_demand", "" if is_needed else "not_needed"), by_table=False)


def is_affordable(job: Job, choice: Candidate, params: Params) -> bool:
    """Whether the budget covers a safe start and stop of it."""
    left = budget.left(job, params)
    return left is None or reserve(job, choice, params) <= left


def reserve(job: Job, choice: Candidate, params: Params) -> Decimal:
    storage, traffic = choice.offer.storage_rate(job.spec.disk_gb), budget.traffic_cost(choice.offer, job, params)
    return budget.create_reserve(choice.bid, storage, params, traffic)


@dataclass(slots=True)
class _Priced:
    """The pricing of one decision by a table."""

    job: Job
    main: Lease | None
    spot: Candidate | None
    on_demand: Candidate | None
    pressure: Pressure
    market: Market
    shape: Shape
    now: datetime
    params: Params
    belief: Weights = ()

    def price(self) -> Options:
        table = cost_to_go(self.shape)
        is_on = self.spot is not None or (self.main is not None and self.main.is_spot)
        self.belief = table.clusters.weights(self.market.outlook.belief, is_on=is_on)
        main, pressure = self.main, self.pressure
        slack_s = pressure.left_s - pressure.work_s
        dollars = self._on_demand_burn()
        if main is None:
            cost = self._hours(table, NOTHING, slack_s) * dollars
            idle = Option("wait", cost, None, self._unsafe(0.0))
        else:
            pending_s = 0.0 if is_at_work(main) else self._pending_s(main)
            cost = self._hours(table, SPOT if main.is_spot else ON_DEMAND, slack_s - pending_s) * dollars
            if main.is_spot:
                cost += self._premium(float(main.burn_upper))
            refused = self._unsafe(max(pressure.step_s - pending_s, 0.0)) if main.is_spot else ""
            idle = Option("stay", cost, None, refused)
        slack_s -= self.shape.restart_s
        spot = on_demand = None
        if self.spot is not None:
            cost = self._hours(table, SPOT, slack_s) * dollars
            refused = self._unsafe(max(pressure.step_s - self.shape.restart_s, 0.0))
            spot = Option("spot", cost, self.spot, self._over_budget(self.spot) or refused)
        if self.on_demand is not None:
            cost = self._hours(table, ON_DEMAND, slack_s) * dollars
            on_demand = Option("on_demand", cost, self.on_demand, self._over_budget(self.on_demand))
        return Options(idle, spot, on_demand, by_table=True)

    def _hours(self, table: CostToGo, mode: int, slack_s: float) -> float:
        return table.hours(mode, self.pressure.left_s, slack_s, self.belief)

    def _pending_s(self, main: Lease) -> float:
        """What a machine that loads still has to serve, as far as one can tell."""
        since = main.acquired_at or main.intended_at
        return max(self.shape.restart_s - (self.now - since).total_seconds(), 0.0)

    def _on_demand_burn(self) -> float:
        """$/h of on-demand capacity, disk included; where none is offered, as the table's ratio implies."""
        if self.on_demand is not None:
            return self._burn(self.on_demand)
        if self.main is not None:
            if not self.main.is_spot:
                return float(self.main.burn_upper)
            if self.main.on_demand_price is not None:
                return float(self.main.on_demand_price + self.main.storage_rate)
        return self._burn(self.spot) / self.shape.spot_ratio if self.spot is not None else 1.0

    def _burn(self, choice: Candidate) -> float:
        return float(choice.expected_rate + choice.offer.storage_rate(self.job.spec.disk_gb))

    def _premium(self, burn: float) -> float:
        """What this spot machine costs beyond the best that is offered now, while the job is on it.

        Not beyond the table's price: that is rounded, and what it is off by would make waiting look better or worse.
        """
        if self.spot is None:
            return 0.0
        hazard = self.shape.hazard_per_h
        hours = self.pressure.work_s / 3600
        stay_h = min(hours, 1 / hazard) if hazard > 0 else hours
        return (burn - self._burn(self.spot)) * stay_h

    def _unsafe(self, progress_s: float) -> str:
        """The guard's word, where on-demand capacity for all the rest could be paid."""
        if self.pressure.leaves_time(progress_s):
            return ""
        left = budget.left(self.job, self.params)
        if left is None:
            return "deadline"
        needed_h = (self.pressure.work_s + self.pressure.to_on_demand_s) / 3600
        return "" if float(left) < needed_h * self._on_demand_burn() else "deadline"

    def _over_budget(self, choice: Candidate) -> str:
        """A option that leaves too little to finish even at spot prices is no option."""
        left = budget.left(self.job, self.params)
        if left is None:
            return ""
        if reserve(self.job, choice, self.params) > left:
            return "budget"
        if choice.capacity_type is CapacityType.SPOT:
            return ""
        dollars = self._on_demand_burn()
        step_h = self.pressure.step_s / 3600
        rest_h = max(self.pressure.work_s / 3600 - step_h, 0.0)
        needed = dollars * step_h + dollars * self.shape.spot_ratio * rest_h
        return "budget" if float(left) < needed else ""
