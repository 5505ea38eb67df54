"""A virtual machine of the sandbox with a lease: the daemon's half of host program and agent."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from autopilot.agent.artifact import agent_key, agent_sha256
from autopilot.agent.bootstrap import onstart
from autopilot.host.artifact import host_key, host_sha256
from autopilot.host.user_data import user_data
from autopilot.mailbox.keys import host_key as report_key
from autopilot.mailbox.keys import orders_key, registry_login_key
from autopilot.mailbox.order_shapes import HostPlan, Work
from autopilot.mailbox.reading import parse_host_report
from autopilot.mailbox.report_shapes import HostReport
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot_lab.sandbox.host_traits import HostTraits
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.vm.config import VmConfig
from autopilot_lab.sandbox.vm.machines import VirtualMachines
from tests.integration.agent.agent_world import JOB, TRAINER, Lease, World
from tests.patience import eventually

KEY = "vm-1"
DAY = timedelta(days=1)
IMAGE = "ghcr.io/autopilot/demo:latest"


class Vm:
    def __init__(self, world: World, lease: Lease, machines: VirtualMachines, speed: float) -> None:
        self.world, self.lease, self.machines, self.speed = world, lease, machines, speed
        self.boots = 0
        self.ended: list[int] = []
        """Exit codes of its power-offs."""

    @property
    def container(self) -> Path:
        return self.machines.root(KEY) / "var/lib/docker/containers" / f"ap-{self.lease.lease_id}"

    def boot(
        self,
        *,
        sha256: str | None = None,
        private: tuple[PrivateImage, ...] = (),
        host: HostTraits | None = None,
        **faults: str,
    ) -> None:
        store = self.world.store
        host_url = store.sign_get(host_key(), DAY)
        orders_url = store.sign_get(orders_key(JOB, self.lease.lease_id), DAY)
        text = user_data(host_url, sha256 or host_sha256(), orders_url, self.speed)
        self.boots += 1
        self.machines.start(KEY, self.boots, VmConfig(text, 2, self.speed, private, faults, host or HostTraits()))

    async def until_off(self, what: str) -> None:
        def is_off() -> bool:
            self.ended += [ended.code for ended in self.machines.take_ended() if ended.boot == self.boots]
            return bool(self.ended)

        try:
            await eventually(is_off, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.console()}") from None

    async def report(self) -> HostReport | None:
        data = await self.world.store.get(report_key(JOB, self.lease.lease_id))
        return None if data is None else parse_host_report(data)

    async def until_reported(self, wanted: Callable[[HostReport], bool], what: str) -> HostReport:
        async def look() -> HostReport | None:
            report = await self.report()
            return report if report is not None and wanted(report) else None

        try:
            found = await eventually(look, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.report()}\n{self.console()}") from None
        assert isinstance(found, HostReport)
        return found

    async def give_login(self, user: str, password: str) -> None:
        """As the daemon does once the machine has asked for it."""
        login = {"username": user, "password": password, "serveraddress": "ghcr.io"}
        key = registry_login_key(JOB, self.lease.lease_id)
        await self.world.store.put(key, json.dumps(login).encode())
        assert self.lease.host is not None
        url = self.world.store.sign_get(key, timedelta(minutes=30))
        await self.lease.order(host=dataclasses.replace(self.lease.host, login_url=url))

    def agent_console(self) -> str:
        path = self.container / "json.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def is_container_running(self) -> bool:
        state: dict[str, object] = json.loads((self.container / "config.v2.json").read_text())["State"]
        return bool(state["Running"])

    def console(self) -> str:
        return self.machines.console(KEY).decode(errors="replace")[-4000:]

    def holds(self, secret: str) -> list[Path]:
        """Files of the box with that text in them."""
        found = []
        for directory, _, names in os.walk(self.machines.root(KEY)):
            for path in (Path(directory) / name for name in names):
                with suppress(OSError):
                    if path.is_file() and secret.encode() in path.read_bytes():
                        found.append(path)
        return found


async def a_vm(world: World, machines: VirtualMachines, work: Work, *, speed: float, **terms: Any) -> Vm:
    """A machine that is not booted yet, with orders that are renewed."""
    store = world.store
    lease_id = "lease-1"
    key, report = report_key(JOB, lease_id), timedelta(hours=1)
    plan = HostPlan(
        container=f"ap-{lease_id}",
        image=IMAGE,
        start=onstart(
            store.sign_get(agent_key(), DAY), agent_sha256(), store.sign_get(orders_key(JOB, lease_id), DAY), speed
        ),
        num_gpus=2,
        report_url=store.sign_put(key, report, MAX_OBJECT_BYTES),
    )
    plan_terms = {name: terms.pop(name) for name in ("needs_login", "env", "boot_s", "start") if name in terms}
    lease = await world.lease(lease_id, work, host=dataclasses.replace(plan, **plan_terms), **terms)
    assert TRAINER.exists()
    return Vm(world, lease, machines, speed)
