"""One array of equal tasks on a suite of bids, as live: how many are at work is the engine's own choice, or a number.

Each task is a run like any other under the product's policy. They share the market: what one has no other can rent.
A machine whose task has ended takes the next one where the engine would have it so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from autopilot.domain.array import ArraySpec, TaskCounts
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.outlook import PhaseModel
from autopilot.policy.array_measures import Chosen, width_now
from autopilot.policy.reuse import is_worth_keeping
from autopilot.policy.width import due_of_task
from autopilot.pricing.availability.prior import PHASES
from autopilot_lab.backtest.bids import BidPlay, BidView
from autopilot_lab.backtest.live import Live, recorded_since
from autopilot_lab.backtest.live_run import LiveRunState
from autopilot_lab.backtest.map_live import LiveMapping
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Conditions, estimated_job
from autopilot_lab.backtest.session import ORIGIN
from autopilot_lab.backtest.suite import HOUR_S, BidJob, BidRun, BidSuite, ticks_until

ON_DEMAND_AT_ONCE = 16
"""So many machines on demand the width may count on."""


@dataclass(slots=True)
class ArrayOutcome:
    """What an array has come to by its deadline."""

    cost: float = 0.0
    """Dollars of all tasks, of those that were still at work as well."""
    done: int = 0
    end_h: float | None = None
    """From the start to the end of the last task; None: some were not done by the deadline."""
    boots: int = 0
    """Tasks whose first machine was rented for them."""
    widest: int = 0
    """Tasks at once, at the most."""


class _Task(NamedTuple):
    play: BidPlay
    mapping: LiveMapping
    state: LiveRunState


def play_array(
    suite: BidSuite, run: BidRun, count: int, parallel: int | None, live: Live, phases: PhaseModel = PHASES
) -> ArrayOutcome:
    """``count`` tasks, each with the work of ``run``, due together by its deadline, on the floors of ``as_searched``.

    ``parallel``: so many at once, always; None: as many as the engine would have.
    """
    return _Array(suite, run, count, parallel, live, phases).play()


class _Array:
    def __init__(
        self, suite: BidSuite, run: BidRun, count: int, parallel: int | None, live: Live, phases: PhaseModel
    ) -> None:
        self._suite, self._config, self._run, self._live = suite, suite.config, run, live
        self._count, self._parallel = count, parallel
        self._recorded_from = recorded_since(run.start, live, self._config.tick_s)
        job = estimated_job(suite, run, Conditions(live=live))
        assert isinstance(job, BidJob)
        self._job = job
        self._learnt = LiveMapping(self._config, job, {}, phases)
        """Of the task that was asked last: what it has learnt of the market holds for the next one."""
        spec = self._learnt.job.spec
        self._array: Job = replace(
            self._learnt.job, id="array", spec=replace(spec, array=ArraySpec(count, parallel=parallel or count))
        )
        self._view = BidView(suite.floors, suite.listing, self._recorded_from)
        self._tasks: list[_Task] = []
        self._free: list[_Task] = []
        """Those that ended in the tick before; their machines run still."""
        self._outcomes: list[Outcome] = []
        self._outcome = ArrayOutcome()

    def play(self) -> ArrayOutcome:
        outcome, tick_s = self._outcome, self._config.tick_s
        for tick in range(ticks_until(self._run.deadline_s, tick_s)):
            self._begin_tasks(tick)
            outcome.widest = max(outcome.widest, len(self._tasks))
            last_s = self._step(tick)
            if outcome.done == self._count:
                outcome.end_h = (tick * tick_s + last_s) / HOUR_S
                break
        outcome.cost = sum(each.cost for each in self._outcomes)
        return outcome

    def _step(self, tick: int) -> float:
        """One tick of all that are at work; how long into it the last of those that ended was at work."""
        self._free, last_s = [], 0.0
        for task in list(self._tasks):
            task.play.view.taken = self._list_taken(task)
            is_over = task.play.step(tick)
            self._learnt = task.mapping
            if not is_over:
                continue
            if not task.state.is_done:
                raise ValueError("a task without a budget was given up")
            self._tasks.remove(task)
            self._outcome.done += 1
            last_s = max(last_s, self._config.tick_s - task.state.beyond_s)
            if task.state.may_take_next:
                self._free.append(task)
        return last_s

    def _list_taken(self, besides: _Task | None = None) -> frozenset[int]:
        """Machines that tasks have, and those of their hosts: of a host only one thing is rented at a time."""
        listing = self._suite.listing
        assert listing is not None, "of as_searched"
        held = {
            machine for task in (*self._tasks, *self._free) if task is not besides for machine in task.state.machines
        }
        hosts = {listing.hosts[machine] for machine in held}
        return frozenset(machine for machine, host in enumerate(listing.hosts) if host in hosts)

    # --- tasks begin

    def _begin_tasks(self, tick: int) -> None:
        now = ORIGIN + timedelta(seconds=tick * self._config.tick_s)
        if self._unbegun == 0:
            return
        view = self._view
        view.tick, view.now_s, view.taken = tick, tick * self._config.tick_s, self._list_taken()
        view.show(self._run.start + tick + 1)
        market = self._learnt.market_of_all(view, ON_DEMAND_AT_ONCE)
        free = sorted(self._free, key=lambda task: task.mapping.job.leases[0].burn_upper)
        if free:
            chosen = self._choose(market, now, free)
            more = max(chosen.width.tasks - len(self._tasks), 0)
            free = [task for task in free if is_worth_keeping(task.mapping.job.leases[0], chosen.measure)]
            for task in free[:more]:
                self._begin(chosen, tick, now, task)
            self._free = []
        chosen = self._choose(market, now)
        for _ in range(min(chosen.width.tasks - len(self._tasks), self._unbegun)):
            self._begin(chosen, tick, now)

    @property
    def _unbegun(self) -> int:
        return self._count - self._outcome.done - len(self._tasks)

    def _choose(self, market: Market, now: datetime, free: Sequence[_Task] = ()) -> Chosen:
        done, at_work = self._outcome.done, len(self._tasks)
        counts = TaskCounts(at_work, running=at_work, succeeded=done, work=done * timedelta(seconds=self._run.work_s))
        leases = [lease for task in self._tasks for lease in task.mapping.job.leases]
        prices = [task.mapping.job.leases[0].burn_upper for task in free]
        chosen = width_now(self._array, counts, leases, market, now, self._learnt.params, free=prices)
        if self._parallel is None:
            return chosen
        # As many as the market has machines, or not: a number that is set is used as it is.
        return chosen._replace(width=replace(chosen.width, tasks=min(self._parallel, at_work + self._unbegun)))

    def _begin(self, chosen: Chosen, tick: int, now: datetime, left_by: _Task | None = None) -> None:
        deadline = ORIGIN + timedelta(seconds=self._run.deadline_s)
        due = due_of_task(self._unbegun, chosen.width.tasks, chosen.measure, deadline, now)
        due_s = (due - ORIGIN).total_seconds()
        run, job = replace(self._run, deadline_s=due_s), replace(self._job, deadline_s=due_s)
        mapping = self._learnt.of_next(job, tick * self._config.tick_s, left_by and left_by.mapping)
        outcome = Outcome()
        state = LiveRunState(self._config, run, self._suite.floors, outcome, self._live)
        if left_by is None:
            self._outcome.boots += 1
        else:
            state.take_over(left_by.state)
            self._free.remove(left_by)
        view = BidView(self._suite.floors, self._suite.listing, self._recorded_from)
        self._outcomes.append(outcome)
        self._tasks.append(_Task(BidPlay(self._config, run, state, view, mapping.choose, job), mapping, state))
