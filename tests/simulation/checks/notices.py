"""What must hold of a market's notices: what was there is saved within them, and none is obeyed that is withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, State

READ_WITHIN_S = 15.0
"""By the program on the machine."""
SPEED = 3.0
"""A link so much slower than usual may take longer than the notice lasts."""
FIT_S = 600.0


@dataclass(frozen=True, slots=True)
class _Given:
    at_s: float
    step: int
    """Seconds of work that were done."""
    epoch: int
    agent: object
    is_saving: bool
    """A checkpoint of before was on its way."""


class Notices:
    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation
        self._given: dict[str, _Given] = {}
        """By machine: of the notices in force, where it was at work when that came."""
        self._ended_s: dict[str, float] = {}
        """By machine: since when no notice is in force."""

    def give(self, box: Box) -> None:
        if box.key in self._given or box.agent is None or not box.agent.is_at_work or box.state is not State.RUNNING:
            return
        agent = box.agent
        machine = agent.machine
        is_saving = "checkpoint" in machine.tasks
        self._given[box.key] = _Given(self._ground.now_s, agent.step(), machine.epoch, agent, is_saving)

    def end(self, box: Box) -> None:
        self._given.pop(box.key, None)
        self._ended_s[box.key] = self._ground.now_s

    def stop(self, box: Box) -> None:
        """The machine stops the job's container on account of one."""
        since_s = self._ground.now_s - self._ended_s.get(box.key, self._ground.now_s)
        if box.signal is None and since_s > READ_WITHIN_S:
            self._add_violation("S35", f"{box.key} stops for a notice that was withdrawn {since_s:.0f} s ago")

    def take_away(self, box: Box) -> None:
        """The notice is over, and the market stops the machine."""
        given, ground = self._given.get(box.key), self._ground
        if given is None or box.hostile or box.is_broken or box.slowness > SPEED or box.troubled_s > given.at_s - FIT_S:
            return
        if box.relabelled_s is not None:
            return  # it is its user's, the job goes on elsewhere, and what it saves is not taken
        if not ground.was_fit(FIT_S) or ground.faults.has_struck("K1", box.id, given.at_s - FIT_S, ground.now_s):
            return
        agent, saved = box.agent, box.disk.sent
        if box.signal is None:
            # A minute, and no file that tells of it: what is on its disk, which is kept, has to do.
            if given.is_saving or box.slowness > 1:
                return
            saved = box.disk.snapshot
        if agent is not given.agent or agent is None or agent.machine.epoch != given.epoch or box.is_suspended:
            return
        if box.disk.owner != box.job_id or (saved is not None and saved[0] != given.epoch):
            return
        if saved is None or saved[2] < given.step:
            kept = "nothing" if saved is None else f"step {saved[2]}"
            self._add_violation("S35", f"{box.key} had {given.step} steps when its notice came, and saves {kept}")
