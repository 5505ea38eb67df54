"""The daemon dies for good at some moment: how long its machines go on running."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from autopilot.workers import workers
from tests.simulation.checks.invariants import Violation
from tests.simulation.drivers.campaign import prepare
from tests.simulation.ground.machines import STAYING, VIRTUAL, Box, State
from tests.simulation.ground.scenario import HOUR_S, draw_scenario
from tests.simulation.runs.run import Play, run

OFF = ("C1", "C2", "C3", "C5", "D1", "D2", "D3", "E3", "H2")
"""A market that carries out no destroy and a machine that does not run can be promised nothing about."""
AFTERWARDS_S = 3 * HOUR_S
LOOKS_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Dead:
    seed: int
    machines: int
    """That ran at some time after the death."""
    longest_s: float
    """From the death, or a machine's last boot after it, to the end of its running."""
    violations: tuple[Violation, ...]


def leave_dead(seed: int) -> Dead:
    """``S10`` is violated by a machine that runs for longer than a permit and two minutes."""
    rng = random.Random(f"{seed}/death")
    dies_s = rng.uniform(0.1 * HOUR_S, 6 * HOUR_S)
    scenario = replace(draw_scenario(seed), acts=((dies_s, "dies for good"),), length_s=dies_s + AFTERWARDS_S)
    ran: dict[str, float] = {}

    async def left_alone(play: Play) -> None:
        world = play.world
        play.begin()
        await play.watch(dies_s)
        while world.now_s < dies_s + AFTERWARDS_S:
            await play.watch(LOOKS_EVERY_S)
            for box in world.boxes():
                if box.job_id is not None and box.state is State.RUNNING and _goes_on(box):
                    ran[box.key] = max(ran.get(box.key, 0.0), world.now_s - _since(box, dies_s))
                    world.check.outlive(box, ran[box.key])

    # A kill that is followed by a start would not be for good.
    result = run(seed, scenario, off=(*OFF, "F1", "F2"), play=left_alone)
    return Dead(seed, len(ran), max(ran.values(), default=0.0), result.violations)


def _goes_on(box: Box) -> bool:
    """A virtual machine can but switch itself off: what its market makes of that is the market's. Where it is billed on
    all the same, it works on."""
    if box.provider in STAYING:
        return False
    return box.provider not in VIRTUAL or (box.agent is not None and box.agent.is_on)


def _since(box: Box, dies_s: float) -> float:
    return max(dies_s, box.up_at_s or 0.0)


def leave_all(seeds: Iterable[int], processes: int) -> Iterator[Dead]:
    with workers(processes, prepare) as pool:
        yield from pool.map(leave_dead, seeds)
