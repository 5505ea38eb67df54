"""One seed from its beginning to its end: faults, then quiet, then everybody goes home and the bills are compared."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from autopilot.domain.job import JobStatus
from autopilot.domain.lease import LeaseState
from autopilot.domain.ledger import SPEND_TYPES
from autopilot.domain.money import ZERO
from autopilot.domain.schedule import ScheduleStatus
from tests.simulation.checks.conduct import CHECKED_EVERY_S
from tests.simulation.checks.invariants import QUARANTINE_S, Violation
from tests.simulation.checks.logs import watch_log
from tests.simulation.ground.books import dollars
from tests.simulation.ground.faults import Faults
from tests.simulation.ground.machines import UNBILLED, Box, Kept
from tests.simulation.ground.scenario import HOUR_S, Move, MoveSchedule, Scenario, draw_scenario
from tests.simulation.runs.bugs import plant
from tests.simulation.runs.events import Events
from tests.simulation.runs.world import World
from tests.simulation.virtual.clock import at
from tests.simulation.virtual.loop import VirtualLoop

CONVERGES_S = 900.0
"""From the end of the faults: the longest pause between two destroys of one machine, and the sweep's two looks."""
MARGIN_S = 600.0
ENDS_S = 1.5 * HOUR_S
BILLS_S = 4 * 24 * HOUR_S
RECONCILES_S = 1200.0
STOPS_S = 200.0
SILENCE_S = 73 * HOUR_S
TOLERANCE = Decimal("0.01")
TOLERANCE_SHARE = Decimal("0.001")
UNSEEN_H = Decimal("0.1")
"""Hours at its limit that a market without a bill may have charged unseen."""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violations: tuple[Violation, ...]
    faults: Counter[str]
    transitions: Counter[tuple[LeaseState, LeaseState]]
    excused: dict[str, Decimal]
    """Dollars by excuse."""
    trace_hash: str
    simulated_s: float
    lives: int
    """How many times a daemon was started."""
    jobs: dict[str, str]
    """How each of them ended."""
    story: tuple[str, ...] = ()

    @property
    def failed(self) -> frozenset[str]:
        return frozenset(violation.checker for violation in self.violations)


def run(
    seed: int,
    scenario: Scenario | None = None,
    *,
    off: Collection[str] = (),
    bug: str | None = None,
    stop_at_first: bool = False,
    keep_story: bool = False,
    arrange: Callable[[World], None] | None = None,
    play: Callable[[Play], Coroutine[Any, Any, None]] | None = None,
    make_world: Callable[[int, Scenario, VirtualLoop, Faults], World] = World,
) -> Result:
    """``off``: rows of the catalogue that stay silent. ``bug``: planted for this run.

    ``stop_at_first``: end with the first violation. ``arrange``: has a hand in the world before it begins.
    ``play``: what is done instead of the whole.
    """
    scenario = scenario or draw_scenario(seed)
    loop = VirtualLoop(random.Random(f"{seed}/loop"))  # type: ignore[abstract]
    faults = Faults(
        seed,
        until_s=scenario.length_s,
        tick_s=scenario.tick_s,
        off=off,
        targets=scenario.markets,
        script=scenario.script,
        bursts=scenario.bursts,
    )
    loop.is_offloaded_done = lambda: False
    world = make_world(seed, scenario, loop, faults)
    world.story = [] if keep_story else None
    if arrange is not None:
        arrange(world)
    loop.on_error = lambda context: world.check.report_error("loop", context.get("exception") or context.get("message"))
    try:
        with watch_log(world.check.report_error), plant(bug), contextlib.suppress(Found):
            loop.run_until_complete((play or Play.whole)(Play(world, stop_at_first=stop_at_first)))
    finally:
        if world.life is not None:
            loop.kill(world.life.process)
        loop.close()
    return Result(
        seed,
        tuple(world.check.violations),
        faults.counts,
        world.check.transitions,
        {why: dollars(amount) for why, amount in world.books.excused_by_reason.items()},
        world.trace_hash(),
        loop.time(),
        world.lives,
        {job.id: str(job.status) for job in world.committed.get("jobs", {}).values()},
        tuple(world.story or ()),
    )


class Found(Exception):
    """There is a violation, and one is enough."""


class Play:
    def __init__(self, world: World, *, stop_at_first: bool) -> None:
        self.world = world
        self._stop_at_first = stop_at_first
        self.events = Events(world)

    def begin(self) -> None:
        world, scenario = self.world, self.world.scenario
        for moment_s, wish in scenario.wishes:
            world.loop.after(moment_s, world.wish, wish)
        self.events.schedule(scenario.length_s)
        world.start_daemon()

    async def whole(self) -> None:
        world, scenario = self.world, self.world.scenario
        self.begin()
        await self.watch(scenario.length_s)
        self.events.calm()
        await self.daemon_is_back()
        await self.watch(CONVERGES_S + (QUARANTINE_S + MARGIN_S) * world.check.is_ledger_old)
        self.check_converged(scenario.length_s)
        await self.watch(scenario.goes_on_s)
        for schedule_id in scenario.schedules:
            world.wish(MoveSchedule(schedule_id, ScheduleStatus.ENDED))
        for job_id in scenario.jobs:
            world.wish(Move(job_id, JobStatus.CANCELLING))
        await self.end()

    async def end(self) -> None:
        """All jobs are cancelled: they have to be over soon, and their bills right."""
        await self._until_over()
        self._check_over()
        await self._settle_bills()
        self._check_bills()

    async def watch(self, for_s: float) -> None:
        end_s = self.world.now_s + for_s
        while self.world.now_s < end_s:
            await asyncio.sleep(min(CHECKED_EVERY_S, end_s - self.world.now_s))
            self.world.check.look()
            if self._stop_at_first and self.world.check.violations:
                raise Found

    async def daemon_is_back(self) -> None:
        """Starts it again, regardless of what was done to it."""
        world = self.world
        if world.life is not None and world.life.process.is_frozen:
            world.loop.thaw(world.life.process)
            world.fit_since_s = world.now_s
        world.start_daemon()

    async def _until_over(self) -> None:
        end_s = self.world.now_s + ENDS_S
        while self.world.now_s < end_s and not self._is_over():
            await self.watch(CHECKED_EVERY_S)

    def _is_over(self) -> bool:
        jobs = self.world.committed.get("jobs", {}).values()
        is_idle = all(job.status.is_final for job in jobs) and not self._ours() and not self._live()
        return is_idle and not any(True for _ in self._kept())

    async def _settle_bills(self) -> None:
        await self._reconciled_after(BILLS_S)
        if self._unbilled():
            # What only the bill tells of counts as rented until now; three days without a line say that it is not.
            await self._reconciled_after(SILENCE_S)

    async def _reconciled_after(self, without_daemon_s: float) -> None:
        """Nothing happens meanwhile that a daemon would have to look at."""
        world = self.world
        world.stop_daemon()
        await asyncio.sleep(STOPS_S + without_daemon_s)
        world.start_daemon()
        await asyncio.sleep(RECONCILES_S)

    # --- what must hold in the end

    def _ours(self) -> list[Box]:
        return [box for box in self.world.boxes() if box.label.startswith("ap1.")]

    def _kept(self) -> Iterator[tuple[str, str, Kept]]:
        """What markets keep of ours beside machines: market, id, and what it is."""
        for market in self.world.markets.values():
            for id_, kept in market.kept.items():
                box = market.boxes.get(kept.box_id)
                is_users = box is not None and box.relabelled_s is not None
                if kept.label.startswith("ap1.") and not is_users:
                    yield market.provider, id_, kept

    def _live(self) -> list[Any]:
        leases = self.world.committed.get("leases", {})
        return [leases[id_] for id_ in self.world.committed.get("live_leases", {})]

    def check_converged(self, quiet_s: float) -> None:
        """``quiet_s``: when the faults ended."""
        check = self.world.check
        held = {(lease.provider, lease.instance_id) for lease in self._live() if lease.is_wanted}
        for box in self._ours():
            is_held = (box.provider, box.id) in held or check.is_just_released(box)
            if not is_held and box.created_s < quiet_s:
                check.add_violation("L1", f"{box.key} is {box.state.value} and no lease wants it")
        for lease in self._live():
            if lease.state is LeaseState.INTENT and check.ground.now_s - _age_s(lease, self.world) < quiet_s:
                check.add_violation("L2", f"lease {lease.id} is still an intent")

    def _check_over(self) -> None:
        check = self.world.check
        for box in self._ours():
            check.add_violation("L1", f"{box.key} is still there")
        for provider, id_, kept in self._kept():
            check.add_violation("L1", f"{provider} keeps {id_}: the {kept.what} of {kept.box_id}")
        for lease in self._live():
            check.add_violation("L2", f"lease {lease.id} is {lease.state}")
        for job in self.world.committed.get("jobs", {}).values():
            if not job.status.is_final or not job.reason:
                check.add_violation("L3", f"job {job.id[-1]} is {job.status} ({job.reason})")

    def _check_bills(self) -> None:
        for difference in self._unbilled():
            self.world.check.add_violation("L4", difference)

    def _unbilled(self) -> list[str]:
        """Machines of which the ledger and the market's bill tell another sum."""
        world, found = self.world, list[str]()
        if world.check.is_ledger_old:
            return found
        posted = self._posted()
        for market in world.markets.values():
            for box in market.past.values():
                if box.lease_id is None or not box.label.startswith("ap1."):
                    continue
                if box.provider != "vastai" and (box.provider, box.id) not in posted:
                    # RunPod's bill names no label, and the others have none: what was never seen is not reported.
                    continue
                billed = sum(world.books.bill(box.meter).values(), ZERO)
                ours = posted.get((box.provider, box.id), ZERO)
                if box.provider in UNBILLED:
                    if not box.was_shown_wrongly and ours < billed - box.unseen_rise - box.rate * UNSEEN_H:
                        found.append(f"{box.key}: costs {billed:.6f}, posted {ours:.6f}")
                    continue
                if abs(billed - ours) > max(TOLERANCE, billed * TOLERANCE_SHARE):
                    found.append(f"{box.key}: billed {billed:.6f}, posted {ours:.6f}")
        return found

    def _posted(self) -> dict[tuple[str, str], Decimal]:
        """Dollars of each machine, by its market and the id that it has there."""
        posted: dict[tuple[str, str], Decimal] = {}
        by_id = self.world.committed.get("leases", {})
        for entry in self.world.committed.get("entries", {}).values():
            if entry.type in SPEND_TYPES:
                lease = by_id[entry.lease_id]
                key = lease.provider, lease.instance_id or ""
                posted[key] = posted.get(key, ZERO) + entry.amount
        return posted


def _age_s(lease: Any, world: World) -> float:
    return float((at(world.now_s) - lease.intended_at).total_seconds())
