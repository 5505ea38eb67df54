"""A run as it is live: machines load for as long as they do, and bill once they are up; some come to nothing; an outbid
and a refused create are seen within the tick; a move makes the new machine ready beside the old.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from autopilot.domain.readings import Recognised
from autopilot_lab.backtest.bids import KEEP, NONE, ON_DEMAND, PARK, SPOT, BidChooser, BidRunState, BidView
from autopilot_lab.backtest.choices import Choice, Spot
from autopilot_lab.backtest.live import (
    FIRST_LOOK_S,
    LEFT_OUT_S,
    PREPARING_S,
    RELEASED_S,
    SEES_OUTBID_S,
    SEES_REFUSED_S,
    SEES_SAVED_S,
    Live,
)
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.suite import HOUR_S, BidConfig, BidJob, BidRun

BAR_CONFIDENCE = 0.9
"""The most that the agent says of what it recognises."""


@dataclass(slots=True)
class _NewMachine:
    """Where the job moves to."""

    choice: Choice | Spot
    left_s: float
    """Of its loading."""
    is_dud: bool


MOST_REFUSED = 5
"""Creates in a row that are refused within a tick, before the next one is waited for."""


class LiveRunState(BidRunState):
    __slots__ = (
        "_at", "_bar_s", "_block", "_is_dud", "_is_refused", "_left_out", "_live", "_new", "_unbilled_s",
        "_watched_from_s",
    )  # fmt: skip

    def __init__(
        self, config: BidConfig, run: BidRun, floors: Sequence[array[float]], outcome: Outcome, live: Live
    ) -> None:
        super().__init__(config, run, floors, outcome)
        self._live, self._block = live, run.block
        self._bar_s, self._watched_from_s = live.bar_s(run.work_s, run.block), 0.0
        self._new: _NewMachine | None = None
        self._unbilled_s = 0.0
        """Of the time that is pending: the machine loads."""
        self._at = run.start
        self._is_dud = False
        """Whether what runs will not work once it has loaded."""
        self._is_refused = False
        """Whether the last create was."""
        self._left_out: dict[int, int] = {}
        """Machine → the tick of the traces from which on it is tried again."""

    def tell(self, view: BidView, job: BidJob) -> None:
        super().tell(view, job)
        if self.running not in (SPOT, ON_DEMAND) or self.pending_s > 0:
            self._watched_from_s = self.done_s
        view.recognised = self._read_bar() if self._bar_s else None

    def _read_bar(self) -> Recognised:
        """The job's own bar goes on where its work does; one of something else begins with each run."""
        seen_s = max(self.done_s - self._watched_from_s, 0.0)
        begun_s = self._watched_from_s if self._live.bars == "true" else 0.0
        left_s = max(self._bar_s - begun_s - seen_s, 0.0)
        fraction = 1.0 - left_s / self._bar_s
        return Recognised(
            "bar", None, fraction, BAR_CONFIDENCE, left_s if seen_s else None, min(seen_s / self._bar_s, 1.0)
        )

    @property
    def machines(self) -> set[int]:
        """Of the market's, those that are held: while a move goes on there are two."""
        new = None if self._new is None or not isinstance(self._new.choice, Spot) else self._new.choice.machine
        return {machine for machine in (self.machine, new) if machine is not None}

    @property
    def bids(self) -> dict[int, float]:
        """What is bid on those of them that run or load, by machine."""
        bids = {self.machine: self.bid} if self.machine is not None and self.running is SPOT else {}
        if self._new is not None and isinstance(self._new.choice, Spot):
            bids[self._new.choice.machine] = self._new.choice.bid
        return bids

    @property
    def may_take_next(self) -> bool:
        """Whether the machine on which the work has ended runs, and another task could have it."""
        return self.is_done and not self.is_moving and self.running in (SPOT, ON_DEMAND)

    @property
    def beyond_s(self) -> float:
        """So long before the end of its last tick the work was done."""
        return max(self.done_s - self._work_s, 0.0) / self._config.speed(self.machine)

    def take_over(self, left: LiveRunState) -> None:
        """Have the machine on which another task has ended in the tick before, and has been at work there since."""
        self.running, self.machine, self.bid, self.is_set_up = left.running, left.machine, left.bid, left.is_set_up
        self.billed_rate = left.billed_rate
        self._bill_on(left.released_s)
        self.done_s = max(left.beyond_s - PREPARING_S, 0.0) * self._config.speed(self.machine)
        self.safe_s = 0.0

    @property
    def is_moving(self) -> bool:
        """A move goes on by itself: nothing is asked until it is done or has failed."""
        return self._new is not None

    @property
    def first_look_s(self) -> float:
        return FIRST_LOOK_S

    def leave_out(self, at: int) -> frozenset[int]:
        self._left_out = {machine: until for machine, until in self._left_out.items() if until > at}
        return frozenset(self._left_out)

    def _leave_alone(self, machine: int | None) -> None:
        if machine is not None:
            self._left_out[machine] = self._at + round(LEFT_OUT_S / self._config.tick_s)

    def answer_within_tick(self, before: Choice, view: BidView, job: BidJob, choose: BidChooser, at: int) -> Choice:
        """It is of use that the daemon looks every 15 s: when a checkpoint is known, after an outbid, and when a create
        was refused."""
        begins_s, late_s = view.tick * self._config.tick_s, 0.0
        if before is SPOT and self._checkpoint_in_s is not None:
            late_s = self._checkpoint_in_s + SEES_SAVED_S
            view.now_s = begins_s + late_s
            before = self._answer_at_checkpoint(late_s, view, job, choose, at)
        if before is SPOT and self.running is KEEP:
            assert self.machine is not None
            self._pause()
            late_s += SEES_OUTBID_S
            view.show(at + 1, self.machine)
            view.show_outbid(self.machine)
            view.now_s = begins_s + late_s
            before = self._ask(late_s, view, job, choose, at)
        for _ in range(MOST_REFUSED - 1):
            if not self._is_refused:
                break
            late_s += SEES_REFUSED_S
            view.left_out = self.leave_out(at)
            view.show(at + 1, self.machine, runs=self.running is SPOT and self._bills_at_bid)
            view.now_s = begins_s + late_s
            before = self._ask(late_s, view, job, choose, at)
        return before

    @property
    def _checkpoint_in_s(self) -> float | None:
        """Seconds of the tick until the machine that runs makes a checkpoint; None: it makes none in this tick."""
        if self.running is not SPOT or self.is_moving or self.pending_s > 0:
            return None
        speed = self._config.speed(self.machine)
        left_s = (self._config.checkpoint_s - (self.done_s - self.safe_s)) / speed
        is_seen = left_s + SEES_SAVED_S < min(self._config.tick_s, (self._work_s - self.done_s) / speed)
        return left_s if is_seen else None

    def _answer_at_checkpoint(self, in_s: float, view: BidView, job: BidJob, choose: BidChooser, at: int) -> Choice:
        begun = self.done_s, self.safe_s
        speed = self._config.speed(self.machine)
        self.done_s += in_s * speed
        self.safe_s = self.done_s - SEES_SAVED_S * speed
        before = self._ask(in_s, view, job, choose, at)
        if self.running is SPOT:
            # It goes on, and the work of the tick is not done yet.
            self.done_s, self.safe_s = begun
        return before

    def _ask(self, late_s: float, view: BidView, job: BidJob, choose: BidChooser, at: int) -> Choice:
        self.tell(view, job)
        choice = choose(view)
        return self.take(self.stay() if choice is PARK else choice, at, late_s)

    def take(self, choice: Choice | Spot, at: int, late_s: float = 0.0) -> Choice:
        self._at = at
        self._is_refused = False
        if isinstance(choice, Spot) and self._refuses(choice, at):
            self._is_refused = True
            self.outcome.refused += 1
            self._leave_alone(choice.machine)
            choice = self.stay() if self.running is SPOT else self.running
        if self._new is None and self._is_move(choice):
            self.outcome.migrations += 1
            loading_s, is_dud = self._live.loading_s(self._block, at), self._live.is_dud(self._block, at)
            self._new = _NewMachine(choice, loading_s, is_dud)
        if self._new is None:
            return super().take(choice, at, late_s)
        return self._move_on(self._new, at)

    def _refuses(self, choice: Spot, at: int) -> bool:
        """Whether it would rent another machine at less than its floor is now."""
        is_create = self._new is None and choice.machine != self.machine
        return self._live.refuses and is_create and choice.bid < self._floors[choice.machine][at]

    def go_on(self, before: Choice) -> None:
        if self._is_dud and self.running in (SPOT, ON_DEMAND) and self.pending_s <= self._config.tick_s:
            self._end_dud()
        else:
            super().go_on(before)
        if self.is_done:
            self._release()
        new = self._new
        if new is None:
            return
        if new.left_s <= 0 and new.is_dud:
            self._drop(new)
        elif new.left_s <= 0:
            # The old machine has saved, the new one fetches that.
            self._promote(new, self._config.resume_s)
        elif self.running is NONE:
            self._promote(new, new.left_s, loads_s=new.left_s - PREPARING_S)

    def _release(self) -> None:
        """What the last tick has beyond the end of the work is not billed."""
        self._bill_on(-self.released_s)

    @property
    def released_s(self) -> float:
        """So long before the end of its last tick its bill has ended."""
        return max(self.beyond_s - RELEASED_S, 0.0)

    def _bill_on(self, for_s: float) -> None:
        """What runs is billed for so much longer, or not any more."""
        if self.running is SPOT:
            self.outcome.spot += self.billed_rate * for_s / HOUR_S
        else:
            self.outcome.on_demand += self.billed_rate * for_s / HOUR_S

    def _is_move(self, choice: Choice | Spot) -> bool:
        if self.running not in (SPOT, ON_DEMAND):
            return False
        if isinstance(choice, Spot):
            return choice.machine != self.machine
        return choice is ON_DEMAND and self.running is SPOT

    def _bid(self, choice: Spot, at: int, late_s: float) -> Choice:
        if choice.machine != self.machine:
            self._is_dud = False
        return super()._bid(choice, at, late_s)

    def _start_s(self, at: int, late_s: float) -> float:
        self._is_dud = self._live.is_dud(self._block, at)
        return self._load(self._live.loading_s(self._block, at), late_s)

    def _resume_s(self, late_s: float) -> float:
        return self._load(self._config.resume_s, late_s)

    def _load(self, takes_s: float, late_s: float) -> float:
        self._unbilled_s = late_s + max(takes_s - PREPARING_S, 0.0)
        return late_s + takes_s

    def _billed_of_start_s(self, served_s: float) -> float:
        unbilled_s = min(self._unbilled_s, served_s)
        self._unbilled_s -= unbilled_s
        return served_s - unbilled_s

    def _move_on(self, new: _NewMachine, at: int) -> Choice:
        """One tick with both machines. Whichever is outbid is given up."""
        old_runs, new_runs = self._goes_on(at), self._wins(new.choice, at)
        if not new_runs:
            self._new = None
            return super().take(Spot(self.machine, self.bid) if self.machine is not None else ON_DEMAND, at)
        if not old_runs:
            self._pause()
            self._promote(new, new.left_s, loads_s=new.left_s - PREPARING_S)
            return SPOT
        up_s = min(max(self._config.tick_s - new.left_s + PREPARING_S, 0.0), self._config.tick_s)
        self.outcome.lost += self._price_of(new.choice, at) * up_s / HOUR_S
        self.outcome.storage += self._storage
        new.left_s -= self._config.tick_s
        return self.running

    def _goes_on(self, at: int) -> bool:
        return self.machine is None or self.bid >= self._floors[self.machine][at + 1]

    def _wins(self, choice: Choice | Spot, at: int) -> bool:
        return not isinstance(choice, Spot) or choice.bid >= self._floors[choice.machine][at + 1]

    def _price_of(self, choice: Choice | Spot, at: int) -> float:
        """$/h of a machine that runs by that choice."""
        if not isinstance(choice, Spot):
            return self._config.on_demand_price
        return choice.bid if self._bills_at_bid else self._floors[choice.machine][at + 1]

    def _end_dud(self) -> None:
        """What runs has loaded, and does not work: it is given up."""
        self.outcome.duds += 1
        self.outcome.storage += self._storage
        self.outcome.lost += self._billed_of_start_s(self.pending_s) * self.billed_rate / HOUR_S
        self._leave_alone(self.machine)
        self.running, self.machine, self.bid, self.is_set_up, self.pending_s = NONE, None, 0.0, False, 0.0

    def _drop(self, new: _NewMachine) -> None:
        """The same of the machine to which a move was to go."""
        self._new = None
        self.outcome.duds += 1
        if isinstance(new.choice, Spot):
            self._leave_alone(new.choice.machine)

    def _promote(self, new: _NewMachine, pending_s: float, *, loads_s: float = 0.0) -> None:
        """``loads_s``: of what is pending, at first."""
        self._new, self._is_dud = None, new.is_dud
        self.pending_s, self._unbilled_s = pending_s, max(loads_s, 0.0)
        if isinstance(new.choice, Spot):
            self.running, self.machine, self.bid, self.is_set_up = SPOT, new.choice.machine, new.choice.bid, True
            self.billed_rate = new.choice.bid
        else:
            self.running, self.machine, self.bid, self.is_set_up = ON_DEMAND, None, 0.0, False
            self.billed_rate = self._config.on_demand_price
