"""The program that a simulated virtual machine boots into: it keeps the agent's container up and hands it notices.

What it is to make of the market's file is the shipped reader's; docker and the disk are the world's.
"""

from __future__ import annotations

import random

from autopilot.host.shipped.fault import RETRY_FIRST_S, RETRY_MOST_S
from autopilot.host.shipped.notices import LAST_GRACE_S, STOP_GRACE_S, Signal
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import STAYING, Box, State
from tests.simulation.markets.network import Connection
from tests.simulation.product.agents import SimAgent
from tests.simulation.product.blobs import Objects
from tests.simulation.virtual.clock import at

LOOK_S = 5.0


class VmHost:
    """From one boot of its machine to the end of it."""

    def __init__(
        self, ground: Ground, objects: Objects, connection: Connection, box: Box, orders_url: str, rng: random.Random
    ) -> None:
        self.ground = ground
        self.box = box
        self._parts = objects, connection, orders_url, rng
        self._connection = connection
        self._boot_s = box.started_s
        self._signal = Signal(1.0)
        self._is_held = False
        """The container was stopped because of a notice, not by itself."""
        self._exits, self._restart_s = 0, 0.0
        self._is_off = False
        self._agent = self._start_container()
        ground.loop.after(LOOK_S, self._look)

    def _start_container(self) -> SimAgent:
        objects, connection, orders_url, rng = self._parts
        agent = SimAgent(self.ground, objects, connection, self.box, orders_url, rng)
        agent.host = self
        self.box.agent = agent
        return agent

    def power_off(self) -> None:
        """The guest is off, unless that saves nothing. What its machine costs from now on is up to the market."""
        if self.box.provider in STAYING:
            return
        self._is_off = True
        self._agent.power_off()
        self.ground.trace("guest off", self.box.key)
        self._connection.power_off(self.box)

    def shut_down(self) -> None:
        """The machine is told to go: the agent saves within what is left."""
        if self._is_off or self.box.is_suspended:
            return
        self._is_off = True
        self._agent.quit(STOP_GRACE_S - 4)

    def _look(self) -> None:
        box = self.box
        if self._is_off or box.is_gone or box.started_s != self._boot_s or box.state in (State.STOPPED, State.LOADING):
            return
        if not box.is_suspended:
            self._mind_notice()
            self._mind_container()
        self.ground.loop.after(LOOK_S, self._look)

    def _mind_notice(self) -> None:
        wall = at(self.ground.now_s).timestamp()
        if self._signal.read(self.box.signal, wall):
            if self._signal.notice is not None:
                self._agent.take_notice()
            elif self._is_held:
                self._is_held = False
                self._agent = self._start_container()
        if self._signal.notice is not None and self._signal.is_due(wall) and not self._is_held:
            self._is_held = True
            self.ground.check.stop_for_notice(self.box)
            self._agent.quit(LAST_GRACE_S - 2)

    def _mind_container(self) -> None:
        """One that has ended is started again, ever more slowly."""
        if self._agent.is_on or self._is_held:
            return
        if not self._restart_s:
            wait_s = min(RETRY_FIRST_S * 2 ** min(self._exits, 10), RETRY_MOST_S)
            self._exits, self._restart_s = self._exits + 1, self.ground.now_s + wait_s
        elif self.ground.now_s >= self._restart_s:
            self._restart_s = 0.0
            self._agent = self._start_container()
