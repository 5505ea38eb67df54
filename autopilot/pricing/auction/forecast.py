"""What a job will probably cost where spot is auctioned, and whether it will be in time, by recorded floors."""

from __future__ import annotations

from functools import lru_cache

from autopilot.pricing.auction.played_floors import HOUR_S, FloorsQuestion, PlayedFloors
from autopilot.pricing.availability.forecast import Forecast, summarize

RUNS = 200


@lru_cache(maxsize=64)
def forecast_by_floors(asked: FloorsQuestion, *, runs: int = RUNS, seed: int = 0) -> Forecast:
    """The same question gets the same answer. Blocking: up to a second."""
    played = PlayedFloors(asked, runs, seed)
    played.play()
    hours = asked.work.work_h + asked.work.costs.start_h
    return summarize(played, asked.left_h * HOUR_S, hours * played.on_demand_burn)
