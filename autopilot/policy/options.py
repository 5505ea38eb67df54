"""The options to go on from here, each with what the job is expected to cost from now to its end if it is taken.

With a table of costs to go (``value``) every option is priced under uncertainty, the deadline included:

    cost = on-demand $/h × hours of the table + (a held machine's $/h − the best offer's $/h) × hours expected on it

Without one (no deadline, or the table is not made yet) an option costs what it takes to finish there (``cost``).
Waiting has no price then, so on-demand capacity is not taken for want of spot, only when the deadline asks or spot is
dearer.
An option that the deadline guard or the budget rules out keeps its price and says why it is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from autopilot.domain.actions import Note
from autopilot.domain.job import Job, SpotPolicy
from autopilot.domain.lease import Lease
from autopilot.domain.offer import CapacityType
from autopilot.domain.outlook import Shape
from autopilot.domain.params import Params
from autopilot.policy import budget
from autopilot.policy.situation import Situation
from autopilot.pricing.availability.beliefs import Weights
from autopilot.pricing.availability.value import NOTHING, ON_DEMAND, SPOT, CostToGo, cost_to_go
from autopilot.pricing.pressure import is_at_work
from autopilot.pricing.rule.cost import Candidate, lease_cost_to_finish

CENT_OF_A_CENT = Decimal("0.0001")
"""Prices of options are estimates: more digits would only look exact."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    """``wait`` (nothing runs), ``stay``, ``spot``, ``on_demand``."""
    cost: float | None
    """Expected dollars from now to the end; None if it cannot be said."""
    choice: Candidate | None = None
    refused: str = ""
    """Why it is not taken at any cost: ``deadline``, ``budget``, ``not_needed``; empty if it may be.

    In the record of a decision also why it is not taken although it is cheaper: see ``why_not_cheaper``.
    """

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


def why_not_cheaper(cost: float | None, chosen: float | None, because: str) -> str:
    """``because`` for an option that is cheaper than the chosen one; empty for any other.

    ``small_saving``, ``little_slack``, ``just_started``, ``not_ready``, ``no_estimate``, ``deadline``.
    """
    return because if cost is not None and chosen is not None and cost < chosen else ""


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

    def notes(self, chosen: Option | None, because: str = "deadline") -> tuple[Note, ...]:
        """``because``: why those that are open and cheaper than the chosen one are not taken."""
        least = None if chosen is None else chosen.cost
        return tuple(
            replace(option, refused=option.refused or why_not_cheaper(option.cost, least, because)).note(
                chosen=option is chosen
            )
            for option in self
        )


def price_options(situation: Situation) -> Options:
    shape = _table_shape(situation)
    return _by_cost_to_finish(situation) if shape is None else _Priced.of(situation, shape).price()


def waits_for_spot(situation: Situation) -> bool:
    """Whether nothing asks for on-demand capacity: no table that weighs it, no deadline that presses, no job file.

    Where no market has spot at all there is nothing to wait for.
    """
    is_on_demand_only = situation.job.spec.spot_policy is SpotPolicy.ON_DEMAND
    if is_on_demand_only or _table_shape(situation) is not None:
        return False
    return not _presses(situation) and situation.market.may_have_spot


def _table_shape(situation: Situation) -> Shape | None:
    """The shape of the table that prices the options now, if there is one."""
    pressure, outlook = situation.pressure, situation.market.outlook
    if pressure.slack is None or pressure.is_past or not outlook.belief:
        return None
    if not situation.market.may_have_spot:
        return None  # Its tables price what waiting for spot brings, and there is none to wait for.
    return outlook.shape


def _presses(situation: Situation) -> bool:
    return situation.pressure.needs_on_demand and situation.job.spec.fall_back


def _by_cost_to_finish(situation: Situation) -> Options:
    job, params, main = situation.job, situation.params, situation.job.main
    presses = "deadline" if _presses(situation) else ""
    idle = Option("wait", None, refused=presses)
    if main is not None:
        cost = lease_cost_to_finish(job, main, main.computes_at, 0, situation.market.outlook, situation.now, params)
        idle = Option("stay", float(cost), refused=presses if main.is_spot else "")

    def option(choice: Candidate | None, name: str, refused: str) -> Option | None:
        if choice is None:
            return None
        if not is_affordable(job, choice, params):
            refused = "budget"
        return Option(name, float(choice.cost), choice, refused)

    spot = option(situation.candidates.best(CapacityType.SPOT), "spot", presses)
    on_demand = option(situation.candidates.best(CapacityType.ON_DEMAND), "on_demand", "")
    if on_demand is not None and on_demand.is_open and waits_for_spot(situation):
        least = min((other.cost for other in (idle, spot) if other and other.cost is not None), default=0.0)
        is_dearer = on_demand.cost is not None and on_demand.cost > least
        on_demand = replace(on_demand, refused="not_needed") if is_dearer else on_demand
    return Options(idle, spot, on_demand, by_table=False)


def is_affordable(job: Job, choice: Candidate, params: Params) -> bool:
    """Whether the budget covers a safe start and stop of it."""
    left = budget.left(job, params)
    return left is None or reserve(job, choice, params) <= left


def reserve(job: Job, choice: Candidate, params: Params) -> Decimal:
    return budget.start_reserve(job, choice.offer, choice.bid, params)


@dataclass(frozen=True, slots=True)
class _Priced:
    """The pricing of one decision by a table."""

    situation: Situation
    shape: Shape
    table: CostToGo
    belief: Weights
    spot: Candidate | None
    on_demand: Candidate | None

    @classmethod
    def of(cls, situation: Situation, shape: Shape) -> _Priced:
        spot = situation.candidates.best(CapacityType.SPOT)
        on_demand = situation.candidates.best(CapacityType.ON_DEMAND)
        table, main = cost_to_go(shape), situation.job.main
        is_on = spot is not None or (main is not None and main.is_spot)
        belief = table.clusters.weights(situation.market.outlook.belief, is_on=is_on)
        return cls(situation, shape, table, belief, spot, on_demand)

    def price(self) -> Options:
        main, pressure = self.situation.job.main, self.situation.pressure
        slack_s = pressure.left_s - pressure.work_s
        if main is None:
            idle = Option("wait", self._cost(NOTHING, slack_s), None, self._unsafe(0.0))
        else:
            idle = self._stay(main, slack_s)
        slack_s -= self.shape.restart_s
        spot = on_demand = None
        if self.spot is not None:
            unsafe = self._unsafe(max(pressure.step_s - self.shape.restart_s, 0.0))
            spot = Option("spot", self._cost(SPOT, slack_s), self.spot, self._over_budget(self.spot) or unsafe)
        if self.on_demand is not None:
            refused = self._over_budget(self.on_demand)
            on_demand = Option("on_demand", self._cost(ON_DEMAND, slack_s), self.on_demand, refused)
        return Options(idle, spot, on_demand, by_table=True)

    def _stay(self, main: Lease, slack_s: float) -> Option:
        pending_s = 0.0 if is_at_work(main) else self._pending_s(main)
        if not main.is_spot:
            return Option("stay", self._cost(ON_DEMAND, slack_s - pending_s))
        cost = self._cost(SPOT, slack_s - pending_s) + self._premium(float(main.computes_at + main.storage_rate))
        progress_s = max(self.situation.pressure.step_s - pending_s, 0.0)
        return Option("stay", cost, None, self._unsafe(progress_s))

    def _cost(self, mode: int, slack_s: float) -> float:
        """Expected dollars to the end if ``mode`` runs from now on."""
        hours = self.table.hours(mode, self.situation.pressure.left_s, slack_s, self.belief)
        return hours * self._on_demand_burn()

    def _pending_s(self, main: Lease) -> float:
        """What a machine that loads still has to serve, as far as one can tell."""
        since = main.acquired_at or main.intended_at
        return max(self.shape.restart_s - (self.situation.now - since).total_seconds(), 0.0)

    def _on_demand_burn(self) -> float:
        """$/h of on-demand capacity, disk included; where none is offered, as the table's ratio implies."""
        main = self.situation.job.main
        if self.on_demand is not None:
            return self._burn(self.on_demand)
        if main is not None:
            if not main.is_spot:
                return float(main.burn_upper)
            if main.on_demand_price is not None:
                return float(main.on_demand_price + main.storage_rate)
        return self._burn(self.spot) / self.shape.spot_ratio if self.spot is not None else 1.0

    def _burn(self, choice: Candidate) -> float:
        return float(choice.expected_price + choice.offer.storage_rate(self.situation.job.spec.disk_gb))

    def _premium(self, burn: float) -> float:
        """What this spot machine costs beyond the best that is offered now, while the job is on it.

        Not beyond the table's price: that is rounded, and what it is off by would make waiting look better or worse.
        """
        if self.spot is None:
            return 0.0
        hazard = self.shape.hazard_per_h
        hours = self.situation.pressure.work_s / 3600
        stay_h = min(hours, 1 / hazard) if hazard > 0 else hours
        return (burn - self._burn(self.spot)) * stay_h

    def _unsafe(self, progress_s: float) -> str:
        """The guard's word, where on-demand capacity for all the rest could be paid."""
        pressure = self.situation.pressure
        if pressure.leaves_time(progress_s):
            return ""
        left = budget.left(self.situation.job, self.situation.params)
        if left is None:
            return "deadline"
        needed_h = (pressure.work_s + pressure.to_on_demand_s) / 3600
        can_pay = float(left) >= needed_h * self._on_demand_burn()
        return "deadline" if can_pay else ""

    def _over_budget(self, choice: Candidate) -> str:
        """An option that leaves too little to finish even at spot prices is no option."""
        job, params = self.situation.job, self.situation.params
        left = budget.left(job, params)
        if left is None:
            return ""
        if reserve(job, choice, params) > left:
            return "budget"
        if choice.capacity_type is CapacityType.SPOT:
            return ""
        step_h = self.situation.pressure.step_s / 3600
        rest_h = max(self.situation.pressure.work_s / 3600 - step_h, 0.0)
        dollars = self._on_demand_burn()
        needed = dollars * step_h + dollars * self.shape.spot_ratio * rest_h
        return "budget" if float(left) < needed else ""
