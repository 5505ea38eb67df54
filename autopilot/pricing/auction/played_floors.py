"""Many auctions played through at once, by what was recorded of the cheapest floor: arrays have one element a market.

    path    from a moment of the record whose floor was near that of now on, step by step; after about half a day
            on from any other moment (a block bootstrap: Künsch, Annals of Statistics 17, 1989)
    level   one factor a market: a week of record is not all that a market does
    dearth  now and then there is nothing below the ceiling for hours, whether the record has such a stretch or not

The policy is played in short. It bids on the cheapest, stays until it is outbid or another is much cheaper, waits with
slack to spare while the floor is dearer than hours that the record promises, and goes on demand when the guard of the
real one would; from there it comes back with much slack alone. The numbers were chosen on made-up markets:
``docs/research/2026-11-calibration.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from autopilot.pricing.arrays import Flags, Floats, Indices
from autopilot.pricing.availability.value import NOTHING, ON_DEMAND, SPOT

RECORD_STEP_S = 600.0
"""Between two floors of the record."""
MOST_STEPS = 700
"""That are played; before a deadline further away they are longer."""
NEAREST = 0.2
"""Share of the record, nearest to the floor of now, from which paths begin."""
BLOCK_H = 12.0
"""After so many hours at the mean a path goes on elsewhere."""
LEVEL_SPREAD = 0.11
"""Standard deviation of the logarithm of a market's level, where a week or so was recorded."""
DEARTH_EVERY_H, DEARTH_H = 120.0, 8.0
LOST_PER_H = 0.07
"""Chance, an hour, of losing a machine to others than bidders, or to a bidder while others are no dearer."""
OUTBID_ABOVE = 1.6
"""If the cheapest exceeds the bid by this factor, the bid is outbid."""
WAIT_MARGIN, WAIT_SLACK_S = 0.03, 5400.0
"""Waiting must save such a share, and takes more slack than this."""
MOVE_MARGIN = 0.15
ENOUGH_S = 1e-6
ROUNDING = 1e-9
CENT_FRACTION = 1e-9


@dataclass(frozen=True, slots=True)
class FloorsQuestion:
    """What a job is, and what it may do. Seconds, $/h, $."""

    floors: tuple[float, ...]
    """The cheapest floor by the record, a step apart, oldest first; the last is that of now."""
    level_spread: float
    """Standard deviation of the logarithm of a market's level."""
    ceiling: float
    """No bid is above it."""
    markup: float
    """A bid over its floor, as a factor."""
    on_demand_price: float | None
    """None: the job does not fall back, and holds no such machine."""
    storage_rate: float
    left_s: float
    work_s: float
    estimate_error: float
    """The true work lies evenly within this share of the estimate, above or below."""
    held_s: float
    """The time that is held for such an error."""
    setup_s: float
    lost_s: float
    """Work that a loss throws back, at the mean."""
    guard_s: float
    """Beside the work, what must be left for on-demand capacity to be started in time."""
    waits: bool
    """Whether it waits for cheaper hours."""
    budget: float | None = None
    mode: int = NOTHING
    """What works already."""
    bid: float = 0.0
    """For a spot machine that works already."""


class PlayedFloors:
    """What a job did and paid in each market; complete after ``play``. Fields as in ``PlayedMarkets``."""

    def __init__(self, asked: FloorsQuestion, runs: int, seed: int) -> None:
        import numpy as np

        self._asked = asked
        self._rng = rng = np.random.default_rng(seed)
        self._step_s = RECORD_STEP_S * max(ceil(asked.left_s / RECORD_STEP_S / MOST_STEPS), 1)
        self._left_s = asked.left_s
        self._floors = np.array(asked.floors)
        self._by_price = np.sort(self._floors)
        near = np.argsort(np.abs(np.log(self._floors / self._floors[-1])), kind="stable")
        self._at: Indices = rng.choice(near[: max(int(NEAREST * len(near)), 1)], runs)
        self._level = np.exp(asked.level_spread * rng.standard_normal(runs))
        self._has_dearth = np.zeros(runs, bool)
        self._mode = np.full(runs, asked.mode)
        self._bid = np.full(runs, asked.bid)
        self._pending_s = np.zeros(runs)
        self.true_s = asked.work_s * (1.0 + asked.estimate_error * rng.uniform(-1.0, 1.0, runs))
        self.done_s, self.spent, self.preempted = np.zeros(runs), np.zeros(runs), np.zeros(runs)
        self.money = np.full(runs, np.inf if asked.budget is None else asked.budget)
        self.going = np.ones(runs, bool)
        self.on_time, self.parked = np.zeros(runs, bool), np.zeros(runs, bool)
        self.ended_s = np.full(runs, np.nan)
        self.rest_burn = self._hourly(ON_DEMAND if asked.on_demand_price is not None else SPOT)

    def play(self) -> None:
        price: Floats = self._floors[self._at] * self._level
        while self._left_s > ENOUGH_S and self.going.any():
            self._choose(price)
            self._go_on()
            price = self._next_price()
            self._lose(price)

    def _hourly(self, mode: int) -> float:
        """$/h with its disk; of spot at the floor of now."""
        price = self._floors[-1] if mode == SPOT else self._asked.on_demand_price
        return float(price or 0.0) + self._asked.storage_rate

    def _next_price(self) -> Floats:
        """$/h of the cheapest a step later; infinite in a dearth."""
        import numpy as np

        rng, runs, step_h = self._rng, len(self._at), self._step_s / 3600
        ahead = (self._at + round(self._step_s / RECORD_STEP_S)) % len(self._floors)
        elsewhere = rng.random(runs) < 1.0 - np.exp(-step_h / BLOCK_H)
        self._at = np.where(elsewhere, rng.integers(0, len(self._floors), runs), ahead)
        chance = rng.random(runs)
        self._has_dearth = np.where(self._has_dearth, chance > step_h / DEARTH_H, chance < step_h / DEARTH_EVERY_H)
        price: Floats = np.where(self._has_dearth, np.inf, self._floors[self._at] * self._level)
        return price

    def _lose(self, price: Floats) -> None:
        import numpy as np

        taken = self._rng.random(len(price)) < -np.expm1(-LOST_PER_H * self._step_s / 3600)
        lost = self.going & (self._mode == SPOT) & ((price > OUTBID_ABOVE * self._bid) | taken)
        self.preempted += lost
        self.done_s = np.where(lost, np.maximum(self.done_s - self._asked.lost_s, 0.0), self.done_s)
        self._mode = np.where(lost, NOTHING, self._mode)
        self._pending_s = np.where(lost, 0.0, self._pending_s)

    def _choose(self, price: Floats) -> None:
        """What each market answers with now; where what is left does not pay another step, the job is parked."""
        import numpy as np

        asked, money = self._asked, self.money - self.spent
        on_spot = self._mode == SPOT
        presses = self._presses(money)
        slack_s = self._left_s - self._estimated_left_s()
        can_bid = price <= asked.ceiling
        has_slack = slack_s > WAIT_SLACK_S
        is_cheaper = on_spot & can_bid & has_slack & (self._pending_s <= 0.0)
        is_cheaper &= price * asked.markup < self._bid * (1.0 - MOVE_MARGIN)
        waits = has_slack & self._is_dear(price) if asked.waits else np.zeros(len(price), bool)
        wanted = np.where(can_bid & ~waits, SPOT, NOTHING)
        wanted = np.where(on_spot, SPOT, wanted)
        is_back = can_bid & ~waits & (slack_s > asked.guard_s + WAIT_SLACK_S)
        wanted = np.where(presses | ((self._mode == ON_DEMAND) & ~is_back), ON_DEMAND, wanted)
        begins = (wanted != self._mode) | (is_cheaper & ~presses)
        self._bid = np.where(begins & (wanted == SPOT), np.minimum(price * asked.markup, asked.ceiling), self._bid)
        self._pending_s = np.where(begins, asked.setup_s, self._pending_s)
        self._mode = wanted
        step_s = np.minimum(self._estimated_left_s() + self._pending_s, self._step_s)
        out = self.going & (money < self._burn() * step_s / 3600 - CENT_FRACTION)
        self.parked |= out
        self.going &= ~out

    def _estimated_left_s(self) -> Floats:
        """Work left by the estimate: half of what it may yet be once the estimate is used up."""
        import numpy as np

        remaining = np.maximum(self._asked.work_s - self.done_s, 0.0)
        return np.maximum(remaining, (remaining + self._asked.held_s) / 2)

    def _presses(self, money: Floats) -> Flags:
        """Where on-demand capacity must be begun now, and can be paid to the end."""
        import numpy as np

        asked, step_s = self._asked, self._step_s
        if asked.on_demand_price is None:
            return np.zeros(len(money), bool)
        progress_s = np.where(self._mode == SPOT, np.maximum(step_s - self._pending_s, 0.0), -asked.setup_s)
        upper = np.maximum(asked.work_s - self.done_s, 0.0) + asked.held_s
        is_late = (upper - progress_s + asked.guard_s > self._left_s + ROUNDING) & (upper > progress_s)
        needed = (self._estimated_left_s() + asked.setup_s) / 3600 * self._hourly(ON_DEMAND)
        presses: Flags = is_late & (money >= needed)
        return presses

    def _is_dear(self, price: Floats) -> Flags:
        """Dearer than as many hours as are needed of those that are left, by the record."""
        import numpy as np

        share = np.clip(self._estimated_left_s() / max(self._left_s - 3600.0, 1.0), 0.0, 1.0)
        at = np.minimum((share * len(self._by_price)).astype(int), len(self._by_price) - 1)
        is_dear: Flags = price * (1.0 - WAIT_MARGIN) > self._by_price[at] * self._level
        return is_dear

    def _burn(self) -> Floats:
        """$/h of what runs."""
        import numpy as np

        wanted = np.where(self._mode == ON_DEMAND, self._asked.on_demand_price or 0.0, self._bid)
        burn: Floats = np.where(self._mode == NOTHING, 0.0, wanted + self._asked.storage_rate)
        return burn

    def _go_on(self) -> None:
        import numpy as np

        runs = self.going & (self._mode != NOTHING)
        served = np.minimum(self._pending_s, self._step_s)
        worked = np.minimum(np.maximum(self.true_s - self.done_s, 0.0), self._step_s - served)
        worked = np.minimum(worked, max(self._left_s, 0.0))
        self.spent += np.where(runs, self._burn() * (served + worked) / 3600, 0.0)
        self._pending_s = np.where(runs, self._pending_s - served, self._pending_s)
        self.done_s = np.where(runs, self.done_s + worked, self.done_s)
        done = self.going & (self.done_s >= self.true_s - ENOUGH_S)
        self.on_time |= done
        self.ended_s = np.where(done, self._asked.left_s - self._left_s + served + worked, self.ended_s)
        self.going &= ~done
        self._left_s -= self._step_s
