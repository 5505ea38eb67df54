"""Seeds short enough for the quick tests: some hours of them, with all that the whole has."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.ground.scenario import HOUR_S, draw_scenario
from tests.simulation.runs.run import Result, run


def a_few_hours(seed: int, bug: str | None = None, hours: float = 4.0) -> Result:
    return run(seed, replace(draw_scenario(seed), length_s=hours * HOUR_S), bug=bug, stop_at_first=bug is not None)
