"""Shadow bidders on a bid suite: they see each tick once, at first all that is on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import inf

from autopilot.pricing.auction.shadows import MARKUPS, UNPAID_MARKUPS, FloorLook, Shadowing, Shadows
from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, Params

TUNABLE = tuple(field.name for field in fields(Shadowing))


class Looks:
    def __init__(self, config: BidConfig, job: BidJob, limit: float, given: Params) -> None:
        """``limit``: $/h, no bid is as high."""
        how = replace(Shadowing(), **{name: value for name, value in given.items() if name in TUNABLE})
        self._config, self._limit, self._pays_bid = config, limit, job.pays == "bid"
        self.shadows = Shadows(how, MARKUPS if self._pays_bid else UNPAID_MARKUPS)
        self._tick = -1
        self._before: tuple[int | None, Choice] = (None, Choice.NONE)

    def see(self, view: BidView) -> None:
        is_first, is_new = self._tick < 0, view.tick > self._tick
        self._tick = max(view.tick, self._tick)
        if is_first:
            rows = [view.history(number, view.ticks_seen) for number in range(len(view.floors))]
            for floors in zip(*rows, strict=True):
                self._look(floors, ())
        elif is_new:
            self._look(view.floors, () if view.machine is None else (self._config.machines[view.machine],))
            self._learn_own(view)

    def _learn_own(self, view: BidView) -> None:
        """As the daemon learns from its own machines: their hours, and losses that no bidder caused."""
        before, self._before = self._before, (view.machine, view.running)
        if view.running is Choice.SPOT:
            self.shadows.add_own(self._config.tick_s / HOUR_S)
        elif view.running is Choice.KEEP and before == (view.machine, Choice.SPOT):
            assert view.machine is not None
            if not view.bid < view.floors[view.machine] < inf:
                self.shadows.add_own(0.0, inf)

    def _look(self, floors: Sequence[float], ours: tuple[str, ...]) -> None:
        rows = zip(self._config.machines, floors, strict=True)
        shown = {name: floor for name, floor in rows if 0.0 < floor < inf}
        if shown:
            self.shadows.look(FloorLook(shown, self._config.tick_s / HOUR_S, self._limit, self._pays_bid, ours))
