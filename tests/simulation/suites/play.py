"""Plays one start: once with the engine and the adapter in virtual time, once as the backtest does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autopilot_lab.backtest.bids import BidView
from autopilot_lab.backtest.choices import Choice
from autopilot_lab.backtest.play import play
from autopilot_lab.backtest.policies import fit_models, parse_policies, starter
from tests.simulation.ground.books import dollars
from tests.simulation.ground.machines import Box, State
from tests.simulation.runs.run import Play, run
from tests.simulation.suites.start import FIRST_MACHINE, JOB, Start
from tests.simulation.suites.world import SuiteWorld

LOOKS_EVERY_S = 15.0
GIVEN_UP_S = 6 * 3600.0
"""After the deadline."""
ENDS_S = 600.0
"""From the end of the command to that of the bill."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the job holds at the end of a tick."""

    what: str
    """``none``, ``on demand``, or the number of the spot machine; two machines in a move are both named."""
    state: str
    bid: float
    """Of the suite, $/h; 0 if nothing was bid."""
    spent: float
    """Dollars of the suite so far."""


@dataclass(frozen=True, slots=True)
class Played:
    cost: float
    """Dollars of the suite."""
    finished_h: float | None
    """From the start; None: not within hours of the deadline."""
    is_late: bool
    ticks: tuple[Held, ...]
    violations: tuple[str, ...] = ()
    story: tuple[str, ...] = ()
    """What the daemon did, line by line, where it was asked for."""


def play_engine(start: Start, tick_s: float, *, keep_story: bool = False) -> Played:
    """``tick_s``: between two looks of the daemon."""
    worlds: list[SuiteWorld] = []
    ticks: list[Held] = []
    ended: list[float] = []

    def make(*arguments: Any) -> SuiteWorld:
        worlds.append(SuiteWorld(start, *arguments))
        return worlds[0]

    async def whole(of: Play) -> None:
        of.begin()
        world, until_s = worlds[0], start.run.deadline_s + GIVEN_UP_S
        suite_tick_s = start.suite.config.tick_s
        while world.now_s < until_s and JOB not in world.finished:
            await of.watch(LOOKS_EVERY_S)
            if world.now_s >= (len(ticks) + 1) * suite_tick_s - LOOKS_EVERY_S:
                ticks.append(_held(world))
        if JOB in world.finished:
            ended.append(world.now_s)
        await of.watch(ENDS_S)

    done = run(0, start.scenario(tick_s), play=whole, make_world=make, keep_story=keep_story)
    world = worlds[0]
    finished_s = ended[0] if ended else None
    return Played(
        _spent(world),
        None if finished_s is None else finished_s / 3600,
        finished_s is None or finished_s > start.run.deadline_s + LOOKS_EVERY_S,
        tuple(ticks),
        tuple(f"{each.checker} at {each.at_s:.0f} s: {each.what}" for each in done.violations),
        done.story,
    )


def _spent(world: SuiteWorld) -> float:
    world.books.settle_all(world.now_s)
    return float(dollars(world.books.by_job[JOB]) / world.start.scale)


def _held(world: SuiteWorld) -> Held:
    boxes = [box for box in world.boxes() if box.job_id == JOB]
    bids = [float(box.rate / world.start.scale) for box in boxes if box.is_spot]
    return Held(
        " and ".join(map(_name, boxes)) or "none",
        " and ".join(_state(box) for box in boxes),
        bids[-1] if bids else 0.0,
        _spent(world),
    )


def _name(box: Box) -> str:
    return str(int(box.host.machine_id) - FIRST_MACHINE) if box.is_spot else "on demand"


def _state(box: Box) -> str:
    if box.state is State.RUNNING and not (box.agent is not None and box.agent.is_at_work):
        return "preparing"
    return box.state.value


def play_backtest(start: Start, policy: str = "autopilot") -> Played:
    (chosen,) = parse_policies(policy)
    begin = starter(chosen, "bids", fit_models([chosen], None))
    seen: list[Held] = []

    def observe(view: BidView, _: object) -> None:
        if view.tick:
            seen.append(_held_in(view))

    outcome = play(start.suite, start.run, begin, start.conditions, observe)
    hours = outcome.decisions * start.suite.config.tick_s / 3600
    is_late = outcome.status != "finished"
    return Played(outcome.cost, hours, is_late, tuple(seen))


def _held_in(view: BidView) -> Held:
    if view.running is Choice.NONE:
        return Held("none", "", 0.0, view.spent)
    if view.running is Choice.ON_DEMAND:
        what, bid = "on demand", 0.0
    else:
        what, bid = str(view.machine), view.bid
    state = "stopped" if view.running is Choice.KEEP else "loading" if view.pending_s > 0 else "running"
    return Held(what, state, bid, view.spent)
