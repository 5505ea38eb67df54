"""The auction's pricing by itself on bid suites, without the decision core around it: for fitting its numbers."""

from __future__ import annotations

from math import inf, isinf, nan

from autopilot.backtest.bids import BidChooser, BidView
from autopilot.backtest.choices import Choice
from autopilot.backtest.choices import Spot as SpotAt
from autopilot.backtest.suite import HOUR_S, BidJob, BidTerms, Params
from autopilot.domain.floors import AuctionShape
from autopilot.policy.auction import Held, Margins, Quote, Quotes, Spot, Standing, choice, quotes
from autopilot.policy.auction_tables import AuctionTables, auction_tables
from autopilot.policy.floors import FloorFit, estimate

NEVER_VANISHES = 1e-6
"""So unlikely may it be that every on-demand offer of the reserve vanishes."""
HELD = {
    Choice.NONE: Held.NOTHING,
    Choice.KEEP: Held.PAUSED,
    Choice.SPOT: Held.RUNNING,
    Choice.ON_DEMAND: Held.ON_DEMAND,
}
DEFAULTS: Params = {
    "half_life_h": 60.0, "pool_weight": 50.0, "prior_weight": 2.0, "own_steps": 500.0, "most_own": 3,
    "history_h": inf, "move": 1.0, "wait": 0.5, "rebid": 0.0, "reserve_ticks": 1.0, "lost_per_h": 0.06,
    "ceiling_of_on_demand": 0.999,
}  # fmt: skip


def start_on_bids(terms: BidTerms, told: BidJob, params: Params, _model: object = None) -> BidChooser:
    """Chooses by the quotes alone. ``params``: those of DEFAULTS."""
    return BidSession(terms, told, {**DEFAULTS, **params}).choose


class BidSession:
    """One run."""

    def __init__(self, terms: BidTerms, told: BidJob, params: Params) -> None:
        self._terms, self._told, self._given = terms, told, params
        self._margins = Margins(params["move"], params["wait"], params["rebid"])
        self._tables: AuctionTables | None = None
        self._won_at: float | None = None

    def _made(self, view: BidView) -> AuctionTables:
        given, terms, told = self._given, self._terms, self._told
        fit = FloorFit(
            given["half_life_h"],
            given["pool_weight"],
            given["prior_weight"],
            given["own_steps"],
            int(given["most_own"]),
        )
        ticks = int(min(given["history_h"] * HOUR_S / terms.tick_s, view.ticks_seen))
        floors = [list(view.history(number, ticks)) for number in range(len(terms.machines))]
        is_partly_shown = any(isinf(floor) for row in floors for floor in row)
        floors = [[nan if isinf(floor) else floor for floor in row] for row in floors]
        outlook = estimate(dict(zip(terms.machines, floors, strict=True)), terms.tick_s, terms.on_demand_rate, fit)
        vanishing, risk = 0, told.vanish
        while risk > NEVER_VANISHES:
            vanishing, risk = vanishing + 1, risk * told.vanish
        reserve_ticks = given["reserve_ticks"] + told.lag_ticks + vanishing
        return auction_tables(
            AuctionShape(
                outlook,
                longest_work_s=told.work_s,
                on_demand_rate=terms.on_demand_rate,
                storage_rate=terms.storage_rate,
                ceiling=given["ceiling_of_on_demand"] * terms.on_demand_rate,
                pays_bid=told.pays == "bid",
                migrate_s=terms.migrate_s,
                resume_s=terms.resume_s,
                checkpoint_s=terms.checkpoint_s,
                reserve_s=reserve_ticks * terms.tick_s,
                # Where all floors are shown, what is taken is seen in them.
                lost_per_h=given["lost_per_h"] if is_partly_shown else 0.0,
            )
        )

    def choose(self, view: BidView) -> Choice | SpotAt:
        tables = self._tables = self._tables or self._made(view)
        machines = self._terms.machines
        standing = Standing(
            left_s=view.ticks_left * self._terms.tick_s,
            work_s=view.work_left_s,
            thrown_back_s=view.safe_left_s - view.work_left_s,
            worst_extra_s=self._told.work_s * self._told.work_error,
            held=HELD[view.running],
            machine="" if view.machine is None else machines[view.machine],
            is_set_up=view.is_set_up,
            pending_s=view.pending_s,
            bid=view.bid,
            won_at=self._won_at,
        )
        spots = [Spot(name, None if isinf(floor) else floor) for name, floor in zip(machines, view.floors, strict=True)]
        quoted = quotes(tables, standing, spots)
        return self._answer(view, quoted, choice(quoted, standing, self._margins, self._terms.tick_s))

    def _answer(self, view: BidView, quoted: Quotes, chosen: Quote) -> Choice | SpotAt:
        if chosen is quoted.on_demand:
            return Choice.ON_DEMAND
        if chosen is quoted.release:
            return Choice.NONE
        if chosen is quoted.keep:
            return Choice.KEEP
        machine = self._terms.machines.index(chosen.machine)
        floor = view.floors[machine]
        if not isinf(floor):
            self._won_at = floor
        return SpotAt(machine, chosen.bid)
