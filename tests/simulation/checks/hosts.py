"""What must hold where hosts differ: a job does not go back to one that did not bring a machine up, nor fails of them.

Held to are scenarios alone that name these checkers: whether a machine comes up is chance where hosts are alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise

from autopilot.domain.job import JobStatus
from autopilot.domain.reasons import Reason
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, State
from tests.simulation.ground.scenario import HOUR_S
from tests.simulation.markets.market import SimulatedMarket

NAMED = frozenset({"vastai"})
"""Markets where the renter chooses the host."""
AVOIDED_S = 6 * HOUR_S
TRIED_S = 600.0
"""A machine that was given up earlier was not given up for its host."""


class Hosts:
    def __init__(
        self, ground: Ground, markets: Mapping[str, SimulatedMarket], add_violation: Callable[[str, str], None]
    ) -> None:
        self._ground = ground
        self._markets = markets
        self._add_violation = add_violation
        self._told: set[str] = set()
        """Machines and jobs."""

    def look(self) -> None:
        rules = self._ground.scenario.host_rules
        if "S40" in rules:
            self._check_returns()
        if "S41" in rules:
            self._check_ends()

    def _check_returns(self) -> None:
        tried: dict[tuple[str, str | None, str], list[Box]] = defaultdict(list)
        for name in NAMED & self._markets.keys():
            market = self._markets[name]
            for box in (*market.past.values(), *market.boxes.values()):
                if box.place is not None and box.job_id is not None:
                    tried[name, box.job_id, box.place.id].append(box)
        for boxes in tried.values():
            boxes.sort(key=lambda box: box.created_s)
            for before, after in pairwise(boxes):
                self._check_return(before, after)

    def _check_return(self, before: Box, after: Box) -> None:
        lasted_s, apart_s = before.gone_s - before.created_s, after.created_s - before.gone_s
        was_given_up = before.is_gone and before.is_dud and before.state is not State.STOPPED and lasted_s >= TRIED_S
        if was_given_up and apart_s < AVOIDED_S and after.key not in self._told:
            self._told.add(after.key)
            self._add_violation("S40", f"{after.key} is where {before.key} never came up, {apart_s:.0f} s after it")

    def _check_ends(self) -> None:
        for job in self._ground.committed.get("jobs", {}).values():
            if job.status is JobStatus.FAILED and job.reason is Reason.NEVER_STARTED and job.id not in self._told:
                self._told.add(job.id)
                self._add_violation("S41", f"job {job.id[-1]} failed of hosts that never came up")
