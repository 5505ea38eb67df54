"""The checker of what is still rented in the end: before it, others find every planted bug; here it is seen to fire."""

from __future__ import annotations

from autopilot.simulation.market import State
from autopilot.simulation.run import Result, run
from autopilot.simulation.stories import STORIES
from autopilot.simulation.world import World

OURS = "ap1.simulate.01SIM999999999999999999999"


def a_machine_from_nowhere(world: World) -> None:
    """With a label of ours and unknown to the ledger; its agent never starts, so it cannot end itself either."""
    market = world.markets["vastai"]
    host = next(iter(market.hosts.values()))
    terms = {"is_spot": False, "rate": host.on_demand, "disk_gb": 20, "onstart": ""}
    world.loop.after(300.0, lambda: market.rent(host, label=OURS, **terms))  # type: ignore[arg-type]


def the_story(bug: str | None) -> Result:
    return run(1, STORIES["create and finish"], bug=bug, arrange=a_machine_from_nowhere)


def test_a_machine_that_nobody_sweeps_is_a_leak() -> None:
    found = [violation for violation in the_story("no_sweep").violations if violation.checker == "L1"]
    assert any(State.RUNNING.value in violation.what for violation in found)


def test_the_sweep_leaves_none() -> None:
    assert not the_story(None).violations
