"""What one decision looks at, made once by ``decide`` and read by every question that it asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autopilot.domain.actions import Action, Note
from autopilot.domain.job import Job
from autopilot.domain.market import Market
from autopilot.domain.params import Params
from autopilot.pricing.pressure import Pressure
from autopilot.pricing.rule.candidates import Candidates


@dataclass(frozen=True, slots=True)
class Situation:
    """One job on one market at one moment."""

    job: Job
    market: Market
    now: datetime
    params: Params
    pressure: Pressure
    """How pressing time is for the job now."""
    candidates: Candidates
    """What the job may rent, the cheapest to finish on first."""


Answer = tuple[tuple[Action, ...], tuple[Note, ...]]
"""What is done, and what the decision's record says of it."""
