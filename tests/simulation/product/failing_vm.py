"""The host program on a simulated virtual machine whose container never comes up: what it reports, and when.

What a failure is called is the shipped program's to say; docker's words are those of the machine's host.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from autopilot.host.shipped.docker import pull_fault
from autopilot.host.shipped.fault import Fault, Retries
from autopilot.host.shipped.host import FIRST_PERMIT_S, POLL_S, WAKE_PERMIT_S
from autopilot.host.shipped.orders import parse_orders
from autopilot_lab.sandbox.host_traits import StartStage
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import STAYING, Box, State
from tests.simulation.markets.network import Connection
from tests.simulation.product.blobs import ObjectRefused, Objects, stored

PULLED_S = 180.0
"""From the boot until docker is up and has the image."""


class FailingVm:
    """From one boot of its machine to the end of it."""

    def __init__(self, ground: Ground, objects: Objects, connection: Connection, box: Box, orders_url: str) -> None:
        self._ground, self._objects, self._connection, self._box = ground, objects, connection, box
        self._orders_url = orders_url
        self._boot_s = box.started_s
        self._begun_s = ground.now_s
        self._retries: Retries | None = None
        self._boot = box.disk.memory["host_boot"] = box.disk.memory.get("host_boot", 0) + 1
        ground.loop.after(POLL_S, self._look)

    def _look(self) -> None:
        box = self._box
        if box.is_gone or box.started_s != self._boot_s or box.state is not State.RUNNING:
            return
        age_s = self._ground.now_s - self._begun_s
        plan = self._plan()
        if plan is None and age_s >= (FIRST_PERMIT_S if self._boot == 1 else WAKE_PERMIT_S):
            self._power_off()
        elif plan is None or age_s < PULLED_S:
            self._ground.loop.after(POLL_S, self._look)
        else:
            self._fail(plan, age_s)

    def _fail(self, plan: dict[str, Any], age_s: float) -> None:
        """When it tries again, and which fault it reports, are the shipped program's to say."""
        self._retries = self._retries or Retries(plan["boot_s"])
        try:
            wait_s = self._retries.wait_s(self._fault(plan["image"]), age_s)
        except Fault as fault:
            self._report(plan, fault)
            self._power_off()
        else:
            self._ground.loop.after(wait_s, self._look)

    def _plan(self) -> dict[str, Any] | None:
        """What its orders say of the host program; None where there are none, or nothing can be reached."""
        if self._box.failure is None:
            return None
        try:
            orders = parse_orders(self._objects.get_by(self._orders_url).data or b"")
        except ObjectRefused:
            return None
        return None if orders is None else dict(orders["host"])

    def _fault(self, image: str) -> Fault:
        failure = self._box.failure
        assert failure is not None, "with a plan there is a failure"
        if failure.stage is StartStage.PULL:
            return pull_fault(failure.words, image)
        return Fault("container_refused", failure.words, is_final=False)

    def _report(self, plan: dict[str, Any], fault: Fault) -> None:
        report = {"v": 1, "boot": self._boot, "seq": 1, "state": "failed", "fault": fault.name}
        report |= {"detail": fault.detail, "wants_login": False}
        with contextlib.suppress(ObjectRefused):
            self._objects.put_by(plan["report_url"], stored(json.dumps(report).encode()))
        self._ground.trace("boot failed", self._box.key, fault.name)

    def _power_off(self) -> None:
        if self._box.provider not in STAYING:
            self._ground.trace("guest off", self._box.key)
            self._connection.power_off(self._box)
