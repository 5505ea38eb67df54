"""Many spot markets played through at once under the policy, for ``forecast``: arrays have one element a market."""

from __future__ import annotations

from typing import Literal

from autopilot.domain.outlook import Belief, Shape
from autopilot.pricing.arrays import Flags, Floats, Indices
from autopilot.pricing.availability.beliefs import NEAREST, PER_SIGN, TINY
from autopilot.pricing.availability.phases import stationary, transition
from autopilot.pricing.availability.value import LATE, NOTHING, ON_DEMAND, SPOT, CostToGo, table_step_s
from autopilot.pricing.pressure import ROUNDING

Rule = Literal["table", "spot", "deadline", "on_demand"]
"""By the table of costs to go; whenever spot can be had; the same until the deadline presses; on demand alone."""

ENOUGH_S = 1e-6
NO_OPTION = 1e9
"""The cost of what may not be taken."""
CENT_FRACTION = 1e-9


class PlayedMarkets:
    """What a job did and paid in each of them; complete after ``play``.

    ``ended_s``: from now until the work was done in time; not a number where it was not.
    """

    def __init__(
        self,
        shape: Shape,
        table: CostToGo | None,
        rule: Rule,
        left_s: float,
        work_s: float,
        burn: tuple[float, float, float],
        budget: float | None,
        belief: Belief,
        estimate_error: float,
        held_s: float,
        mode: int,
        runs: int,
        seed: int,
    ) -> None:
        import numpy as np

        model = shape.phases
        self._rng = np.random.default_rng(seed)
        self._shape, self._rule = shape, rule
        self._step_s = table.step_s if table is not None else table_step_s(left_s)
        self._costs = None if table is None else _Costs(table)
        self._long_s, self._left_s, self._work_s, self._held_s = left_s, left_s, work_s, held_s
        self.burn = np.array(burn)
        self._phase_on = np.array(model.on)
        self._moves = np.array(transition(model, self._step_s))
        self._reached = np.cumsum(self._moves, axis=1)
        first = np.array(belief)
        self._phase = self._draw(np.tile(np.cumsum(first), (runs, 1)))
        self._belief = np.tile(first, (runs, 1))
        self._usual = np.array(stationary(model))
        self.true_s = work_s * (1.0 + estimate_error * self._rng.uniform(-1.0, 1.0, runs))
        self.done_s, self._pending_s, self.spent = np.zeros(runs), np.zeros(runs), np.zeros(runs)
        self.money = np.full(runs, np.inf if budget is None else budget)
        self._mode = np.full(runs, mode)
        self.preempted = np.zeros(runs)
        self.going = np.ones(runs, bool)
        self.on_time, self.parked = np.zeros(runs, bool), np.zeros(runs, bool)
        self.ended_s = np.full(runs, np.nan)

    @property
    def rest_burn(self) -> float:
        """$/h of work that is done after the deadline."""
        return float(self.burn[ON_DEMAND])

    def play(self) -> None:
        first = True
        while self._left_s > ENOUGH_S and self.going.any():
            if not first:
                self._next_look()
            first = False
            self._choose()
            self._go_on()

    def _draw(self, reached: Floats) -> Indices:
        """A phase for each market. ``reached``: [market, phase] → chance of that phase or one before it."""
        import numpy as np

        drawn = self._rng.random(len(reached))[:, None] > reached
        phases: Indices = np.minimum(drawn.sum(axis=1), len(self._phase_on) - 1)
        return phases

    def _next_look(self) -> None:
        """A step later: where the phases went, who was preempted, and the belief now."""
        import numpy as np

        self._phase = self._draw(self._reached[self._phase])
        on = self._phase_on[self._phase]
        on_spot = self.going & (self._mode == SPOT)
        lost = on_spot & ~on
        if self._shape.hazard_per_h:
            chance = -np.expm1(-self._shape.hazard_per_h * self._step_s / 3600)
            lost |= on_spot & (self._rng.random(len(on)) < chance)
        self.preempted += lost
        saved_s = np.maximum(self.done_s - self._shape.lost_s, 0.0)
        self.done_s = np.where(lost, saved_s, self.done_s)
        self._mode = np.where(lost, NOTHING, self._mode)
        self._pending_s = np.where(lost, 0.0, self._pending_s)
        if self._costs is None:
            return
        agrees = self._phase_on == on[:, None]
        belief = np.where(agrees, np.einsum("rp,pq->rq", self._belief, self._moves), 0.0)
        usual = np.where(agrees, self._usual, 0.0)
        is_possible = belief.sum(axis=1, keepdims=True) > 0.0
        belief = np.where(is_possible, belief, usual)
        self._belief = belief / belief.sum(axis=1, keepdims=True)

    def _choose(self) -> None:
        """What each market answers with now; where what is left does not pay another step, the job is parked."""
        import numpy as np

        left_s = self._estimated_left_s()
        chosen = self._simple() if self._costs is None else self._cheapest(self._costs, left_s)
        self._pending_s = np.where(chosen != self._mode, self._shape.restart_s, self._pending_s)
        self._mode = chosen
        money = self.money - self.spent
        wanted = np.where(chosen == NOTHING, SPOT, chosen)
        step_s = np.minimum(left_s + self._pending_s, self._step_s)
        price = self.burn[wanted] * step_s / 3600
        out = self.going & (money < price - CENT_FRACTION)
        self.parked |= out
        self.going &= ~out

    def _estimated_left_s(self) -> Floats:
        """Work left by the estimate: half of what it may yet be once the estimate is used up."""
        import numpy as np

        remaining = np.maximum(self._work_s - self.done_s, 0.0)
        return np.maximum(remaining, (remaining + self._held_s) / 2)

    def _simple(self) -> Indices:
        """What the rules without a table take."""
        import numpy as np

        if self._rule == "on_demand":
            return np.full(len(self._phase), ON_DEMAND)
        chosen = np.where(self._phase_on[self._phase], SPOT, NOTHING)
        if self._rule == "spot":
            return chosen
        return np.where(self._is_unsafe(0.0), ON_DEMAND, chosen)

    def _is_unsafe(self, progress_s: Floats | float) -> Flags:
        """``Pressure.leaves_time`` denied: on-demand could not finish after a step that brings so much."""
        import numpy as np

        upper = np.maximum(self._work_s - self.done_s, 0.0) + self._held_s
        needed_s = upper - progress_s + self._shape.lost_s + self._shape.restart_s
        needed = np.ceil(needed_s / self._step_s - ROUNDING)
        steps = np.floor(self._left_s / self._step_s + ROUNDING) - 1
        unsafe: Flags = (needed > steps) & (upper > progress_s)
        return unsafe

    def _cheapest(self, costs: _Costs, work_left_s: Floats) -> Indices:
        """The cheapest safe option that the money allows."""
        import numpy as np

        step_s, left_s, mode, restart_s = self._step_s, self._left_s, self._mode, self._shape.restart_s
        on, money = self._phase_on[self._phase], self.money - self.spent
        holds_nothing, on_spot, on_demand_runs = mode == NOTHING, mode == SPOT, mode == ON_DEMAND
        # Where the deadline asks for on-demand capacity, if all of the rest can be paid on it.
        can_pay = money >= (work_left_s + restart_s) / 3600 * self.burn[ON_DEMAND]
        progress_s = np.where(on_spot, np.maximum(step_s - self._pending_s, 0.0), 0.0)
        presses = self._is_unsafe(progress_s) & can_pay & ~on_demand_runs
        # What may be begun now.
        may_move = holds_nothing | (self._pending_s <= 0.0) | presses
        rest_s = np.maximum(work_left_s - step_s, 0.0)
        needed = (self.burn[ON_DEMAND] * np.minimum(work_left_s, step_s) + self.burn[SPOT] * rest_s) / 3600
        may_buy = may_move & ~on_demand_runs & (money >= needed)
        may_bid = may_move & on & ~on_spot & (holds_nothing | ~presses)
        is_bid_unsafe = self._is_unsafe(max(step_s - restart_s, 0.0)) & can_pay
        # What each option costs.
        weights = costs.weights(self._belief, on)
        slack_s = left_s - work_left_s
        idle = np.where(presses, NO_OPTION, costs.hours(mode, left_s, slack_s - self._pending_s, weights))
        begun_on_spot = costs.hours(SPOT, left_s, slack_s - restart_s, weights)
        spot = np.where(may_bid & ~is_bid_unsafe, begun_on_spot, NO_OPTION)
        begun_on_demand = costs.hours(ON_DEMAND, left_s, slack_s - restart_s, weights)
        on_demand = np.where(may_buy, begun_on_demand, NO_OPTION)
        # Late is worse than risky.
        has_no_option = (idle >= NO_OPTION) & (on_demand >= NO_OPTION)
        spot = np.where(has_no_option & may_bid & holds_nothing, 0.0, spot)
        best = np.argmin(np.stack((idle, spot, on_demand)), axis=0)
        return np.where(best == 0, mode, best)

    def _go_on(self) -> None:
        import numpy as np

        runs = self.going & (self._mode != NOTHING)
        served = np.minimum(self._pending_s, self._step_s)
        worked = np.minimum(np.maximum(self.true_s - self.done_s, 0.0), self._step_s - served)
        worked = np.minimum(worked, max(self._left_s, 0.0))
        price = self.burn[self._mode] * (served + worked) / 3600
        self.spent += np.where(runs, price, 0.0)
        self._pending_s = np.where(runs, self._pending_s - served, self._pending_s)
        self.done_s = np.where(runs, self.done_s + worked, self.done_s)
        done = self.going & (self.done_s >= self.true_s - ENOUGH_S)
        self.on_time |= done
        self.ended_s = np.where(done, self._long_s - self._left_s + served + worked, self.ended_s)
        self.going &= ~done
        self._left_s -= self._step_s


class _Costs:
    """A table read for all markets at once."""

    def __init__(self, table: CostToGo) -> None:
        import numpy as np

        self._table = table
        self._values = table.values
        self._promises = np.array(table.clusters.promises)
        self._centres = np.array(table.clusters.centres).reshape(2, PER_SIGN, -1)

    def weights(self, belief: Floats, on: Flags) -> tuple[Indices, Floats]:
        """``Clusters.weights``: the clusters that stand for each market's belief, and their weights.

        ``belief``: [market, phase], ``on``: [market]; both of the answer: [market, one of the nearest].
        """
        import numpy as np

        features = np.einsum("rp,hp->rh", belief, self._promises)
        sign = np.where(on, 0, 1)
        distance = ((features[:, None] - self._centres[sign]) ** 2).sum(axis=2)
        nearest = np.argpartition(distance, NEAREST, axis=1)[:, :NEAREST]
        nearness = 1.0 / (np.take_along_axis(distance, nearest, axis=1) + TINY)
        first = (sign * PER_SIGN)[:, None]
        return nearest + first, nearness / nearness.sum(axis=1, keepdims=True)

    def hours(self, mode: Indices | int, left_s: float, slack_s: Floats, weights: tuple[Indices, Floats]) -> Floats:
        """``CostToGo.hours``: [market]. ``mode``: of each market, or of all."""
        import numpy as np

        steps, slacks = self._values.shape[:2]
        at = min(int(left_s / self._table.step_s + 0.5), steps - 1)
        late = np.maximum(-slack_s, 0.0) / 3600 * LATE
        position = np.clip(slack_s / self._table.slack_step_s, 0.0, slacks - 1)
        low = np.minimum(position.astype(int), slacks - 2)[:, None]
        share = position[:, None] - low
        numbers, weight = weights
        what = np.broadcast_to(np.asarray(mode), position.shape)[:, None]
        below = self._values[at, low, what, numbers]
        above = self._values[at, low + 1, what, numbers]
        between = below * (1.0 - share) + above * share
        total: Floats = late + (weight * between).sum(axis=1)
        return total
