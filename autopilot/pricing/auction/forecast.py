"""What a job will probably cost where spot is auctioned, and whether it will be in time, by recorded floors."""

from __future__ import annotations

from functools import lru_cache

from autopilot.pricing.auction.played_floors import FloorsQuestion, PlayedFloors
from autopilot.pricing.availability.forecast import RUNS, Forecast, summarize


@lru_cache(maxsize=64)
def forecast_by_floors(asked: FloorsQuestion, *, runs: int = RUNS, seed: int = 0) -> Forecast:
    """The same question gets the same answer. Blocking: some tenths of a second."""
    played = PlayedFloors(asked, runs, seed)
    played.play()
    return summarize(played, asked.left_s, (asked.work_s + asked.setup_s) / 3600 * played.rest_burn)
