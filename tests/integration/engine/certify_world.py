"""A world in which a market is certified: machines that know their own id and key, as the shipped agent does."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from autopilot.api.certify import CertifyService
from autopilot.certify.run import PER_PORT, PER_RUN
from autopilot.domain.agent_state import AgentState
from autopilot.domain.certificate import Certificate, ClaimFinding, ClaimVerdict
from autopilot.engine.certification import CertifyRules
from autopilot.mailbox.keys import heartbeat_key, orders_key
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.mailbox.wire import SSH_PORT
from autopilot.ports.blobs import BlobStore
from autopilot.ports.provider import Provider
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot.providers.mithril import plugin as mithril
from autopilot.providers.runpod import plugin
from autopilot.render import plain
from autopilot_lab.sandbox.market.instances import Container
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.mithril.bids import BILLED, Bid
from autopilot_lab.sandbox.nebius.vms import VmState
from autopilot_lab.sandbox.runpod.billing import billed_total as billed_to
from autopilot_lab.sandbox.runpod.pods import Container as PodContainer
from autopilot_lab.sandbox.runpod.pods import Pod
from autopilot_lab.sandbox.units import NANO
from autopilot_lab.sandbox.vastai.billing import billed_total
from tests.integration.engine.engine_agents import ORDERS
from tests.integration.engine.engine_world import World
from tests.integration.engine.nebius_world import connect as connect_nebius

VERSION = "9.9"
TICK_S = 30.0


@dataclass
class Machine:
    """What is on the disk of one machine, and what its agent does in memory."""

    job_id: str
    lease_id: str
    boot: int = 0
    market_boot: int = 0
    seq: int = 0
    orders_seq: int = 0
    permit_until: datetime | None = None
    warned_s: int = 0
    """Real programs count the seconds; here it is what the market gives."""
    has_left: bool = False


class Machines:
    """Every machine's agent and the program of the certification on it."""

    def __init__(self, world: CertifyWorld, store: BlobStore) -> None:
        self._world, self._store = world, store
        self._machines: dict[str, Machine] = {}
        self._read = 0

    async def act(self, now: datetime) -> None:
        self._lose_disks()
        for instance in self._world.market.live():
            told = ORDERS.search(instance.order.onstart or "")
            if instance.container is Container.RUNNING and told is not None:
                machine = self._machines.setdefault(str(instance.id), Machine(told["job_id"], told["lease_id"]))
                await self._act(machine, instance.boots, self._world.sandbox.environment(instance), now)

    def _lose_disks(self) -> None:
        entries = self._world.market.journal.entries
        for entry in entries[self._read :]:
            instance_id = str(entry.fields.get("instance_id"))
            if entry.kind == "disk.lost":
                self._machines.pop(instance_id, None)
            if entry.kind == "container.warned" and instance_id in self._machines:
                self._machines[instance_id].warned_s = round(self._world.market.timings.warned_for_s)
        self._read = len(entries)

    async def _act(self, machine: Machine, boots: int, env: dict[str, str], now: datetime) -> None:
        own_id, key = self._identity(env)
        data = await self._store.get(orders_key(machine.job_id, machine.lease_id))
        if data is None:
            return
        orders = json.loads(data)
        if machine.market_boot != boots:
            machine.boot, machine.market_boot, machine.seq = machine.boot + 1, boots, 0
        if orders["seq"] > machine.orders_seq or machine.permit_until is None:
            machine.orders_seq = orders["seq"]
            machine.permit_until = now + timedelta(seconds=orders["permit_ttl_s"])
        if now >= machine.permit_until or (own_id and orders["instance"] not in ("", own_id)):
            await self._destroy(own_id, key)
            return
        machine.seq += 1
        is_saved = orders["role"] == "save_and_stop"
        beat = Heartbeat(
            boot=machine.boot,
            seq=machine.seq,
            run_epoch=orders["run_epoch"],
            orders_seq_seen=orders["seq"],
            state=AgentState.WAITING if is_saved else AgentState.RUNNING,
            saved=is_saved,
            step=PER_RUN * machine.boot + PER_PORT * _told_port(env) + machine.warned_s,
            next_checkpoint=0,
        )
        await self._store.put(heartbeat_key(machine.job_id, machine.lease_id), beat.to_json())

    def _identity(self, env: dict[str, str]) -> tuple[str, str]:
        return env["CONTAINER_ID"], env["CONTAINER_API_KEY"]

    async def _destroy(self, own_id: str, key: str) -> None:
        url = f"{self._world.sandbox.url}/api/v0/instances/{own_id}/"
        async with self._world.http.delete(url, json={}, headers={"Authorization": f"Bearer {key}"}) as answer:
            await answer.read()


class Pods(Machines):
    """The same on RunPod's pods."""

    async def act(self, now: datetime) -> None:
        self._read_journal()
        for pod in self._world.sandbox.runpod.live():
            encoded = re.search(r"echo (\S+) ", pod.order.args)
            told = ORDERS.search(base64.b64decode(encoded[1]).decode()) if encoded else None
            if pod.container is PodContainer.RUNNING and told is not None:
                machine = self._machines.setdefault(pod.id, Machine(told["job_id"], told["lease_id"]))
                await self._act(machine, pod.boots, self._world.sandbox.pod_environment(pod), now)

    def _read_journal(self) -> None:
        entries = self._world.sandbox.runpod.journal.entries
        for entry in entries[self._read :]:
            pod_id = str(entry.fields.get("pod_id"))
            if entry.kind == "volume.lost":
                self._machines.pop(pod_id, None)
            if entry.kind == "pod.warned" and pod_id in self._machines:
                self._machines[pod_id].warned_s = 5
        self._read = len(entries)

    def _identity(self, env: dict[str, str]) -> tuple[str, str]:
        return env["RUNPOD_POD_ID"], env["RUNPOD_API_KEY"]

    async def _destroy(self, own_id: str, key: str) -> None:
        url = f"{self._world.sandbox.url}/v2/pods/{own_id}"
        async with self._world.http.delete(url, headers={"Authorization": f"Bearer {key}"}) as answer:
            await answer.read()


def _told_port(env: dict[str, str]) -> int:
    """As the certification's own program says it."""
    if not (env.get("PUBLIC_IPADDR") or env.get("RUNPOD_PUBLIC_IP")):
        return 0
    return 2 if f"VAST_TCP_PORT_{SSH_PORT}" in env or f"RUNPOD_TCP_PORT_{SSH_PORT}" in env else 1


class Lines:
    """What dials the machines, as it says that it is. These machines reach the mailbox either way."""

    public_key = "ssh-ed25519 AAAA autopilot"

    def __init__(self, broken: Collection[str]) -> None:
        self._broken = broken
        self._wanted: tuple[Dialled, ...] = ()

    async def dial(self, wanted: Collection[Dialled]) -> None:
        self._wanted = tuple(wanted)

    async def states(self) -> Mapping[str, TunnelState]:
        fault = TunnelFault.FORWARDING_REFUSED if "ssh-forwards" in self._broken else None
        return {each.lease_id: TunnelState(fault is None, fault) for each in self._wanted if each.addresses}


class CertifyWorld(World):
    """The daemon needs a certificate for the market, as for a real one."""

    certifies = "vastai"
    rules = CertifyRules(VERSION, frozenset({"vastai"}), frozenset({"vastai"}))
    kind_of_machines: type[Machines] = Machines

    async def start(self) -> None:
        self.certify_rules = self.rules
        self.tunnels = Lines(self.market.broken)
        if not isinstance(self.agents, Machines):  # they outlive the daemon
            self.agents: Any = self.kind_of_machines(self, self.blobs)
        await super().start()
        self.certify = CertifyService(self.engine, self.store, self.clock, self._ids, lambda: None, self.jobs.plans)

    async def tick(self, times: int = 1, apart_s: float = TICK_S) -> None:
        """Half as many as other worlds make: a certification takes hours."""
        await super().tick(times, apart_s)

    async def begin(self, budget: str = "1.00") -> None:
        answer = await self.certify.begin(self.certifies, Decimal(budget), (), owner=1000, token=None)
        self.job_id = answer["job"]["id"]

    async def certified(self, budget: str = "1.00") -> dict[str, ClaimFinding]:
        """To the very end, the bill included; by claim."""
        await self.tick()
        await self.begin(budget)
        return await self.finish()

    async def finish(self) -> dict[str, ClaimFinding]:
        await self.until(lambda job: job.status.is_final, "the certification is over", most=1000)
        for _ in range(60):
            await self.tick()
            found = await self.findings()
            if "bid-is-paid" in found or not await self._rented():
                break
            self.clock.advance(3600)
        return await self.findings()

    async def _rented(self) -> bool:
        return any(lease.instance_id for lease in await self.leases())

    async def findings(self) -> dict[str, ClaimFinding]:
        async with self.store.snapshot() as uow:
            return {each.claim: each for each in await uow.certificates.list_findings(self.job_id)}

    async def certificates(self) -> tuple[Certificate, ...]:
        async with self.store.snapshot() as uow:
            return await uow.certificates.list_newest()

    async def pass_without_daemon(self, minutes: int) -> None:
        """It is dead; machines and market go on."""
        for _ in range(minutes):
            self.sandbox.synchronise()
            await self.agents.act(self.clock.now())
            self.clock.advance(60)
        self.sandbox.synchronise()

    def billed(self) -> Decimal:
        """By the market's own books, all of ours together."""
        return sum((billed_total(self.market, each) for each in self.market.instances.values()), Decimal(0))

    def break_claims(self, claims: Collection[str]) -> None:
        self.market.broken.update(claims)


class RunpodCertifyWorld(CertifyWorld):
    """The same against the sandbox's RunPod."""

    certifies = "runpod"
    rules = CertifyRules(VERSION, frozenset({"runpod"}), frozenset({"runpod"}))
    kind_of_machines = Pods

    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": "runpod-sandbox-key", "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)

    def billed(self) -> Decimal:
        market = self.sandbox.runpod
        return sum((billed_to(market, pod, 0) for pod in market.pods.values()), Decimal(0))

    def rented(self) -> list[Pod]:
        return self.sandbox.runpod.live()

    def break_claims(self, claims: Collection[str]) -> None:
        self.sandbox.runpod.broken.update(claims)


class MithrilMachines(Machines):
    """The same on the machines of bids, which have no id and no key of their own."""

    async def act(self, now: datetime) -> None:
        market = self._world.sandbox.mithril
        entries = market.journal.entries
        for entry in entries[self._read :]:
            if entry.kind == "disk.lost":
                self._machines.pop(str(entry.fields.get("bid_id")), None)
        self._read = len(entries)
        for bid in market.bids.values():
            told = ORDERS.search(bid.order.startup_script)
            if bid.machine is not None and bid.machine.status in BILLED and told is not None:
                machine = self._machines.setdefault(bid.id, Machine(told["job_id"], told["lease_id"]))
                await self._act(machine, bid.boots, {}, now)

    def _identity(self, env: dict[str, str]) -> tuple[str, str]:
        return "", ""

    async def _destroy(self, own_id: str, key: str) -> None:
        """It cannot."""


class MithrilCertifyWorld(CertifyWorld):
    """The same against the sandbox's Mithril."""

    certifies = "mithril"
    rules = CertifyRules(VERSION, frozenset({"mithril"}), frozenset({"mithril"}))
    kind_of_machines = MithrilMachines

    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": "mithril-sandbox-key", "timeout_s": self.timeout_s}
        return mithril.connect(settings, self.clock)

    def billed(self) -> Decimal:
        market = self.sandbox.mithril
        return to_decimal(sum((bid.meter.total(market.now) for bid in market.bids.values()), Fraction(0)), NANO)

    def rented(self) -> list[Bid]:
        return [bid for bid in self.sandbox.mithril.bids.values() if not bid.is_over]

    def break_claims(self, claims: Collection[str]) -> None:
        self.sandbox.mithril.broken.update(claims)


class NebiusMachines(Machines):
    """The same on Nebius's machines, which have no key of their own: they can switch themselves off."""

    async def act(self, now: datetime) -> None:
        market = self._world.sandbox.nebius
        entries = market.journal.entries
        for entry in entries[self._read :]:
            if entry.kind == "disk.lost":
                self._machines.pop(str(entry.fields.get("vm_id")), None)
        self._read = len(entries)
        for vm in list(market.vms.values()):
            told = ORDERS.search(vm.order.user_data)
            if vm.state is VmState.RUNNING and not vm.is_gone and told is not None:
                machine = self._machines.setdefault(vm.id, Machine(told["job_id"], told["lease_id"]))
                await self._act(machine, vm.boots, {"VM": vm.id}, now)

    def _identity(self, env: dict[str, str]) -> tuple[str, str]:
        return "", env["VM"]

    async def _destroy(self, own_id: str, key: str) -> None:
        self._world.sandbox.nebius.lifecycle.switched_off(self._world.sandbox.nebius.vms[key])


class NebiusCertifyWorld(CertifyWorld):
    """The same against the sandbox's Nebius."""

    certifies = "nebius"
    rules = CertifyRules(VERSION, frozenset({"nebius"}), frozenset({"nebius"}))
    kind_of_machines = NebiusMachines

    def connect(self) -> Provider:
        return connect_nebius(self)

    def billed(self) -> Decimal:
        market = self.sandbox.nebius
        return to_decimal(sum((vm.meter.total(market.now) for vm in market.vms.values()), Fraction(0)), NANO)

    def rented(self) -> list[object]:
        """Machines, and what they have left."""
        market = self.sandbox.nebius
        vms = [vm for vm in market.vms.values() if not vm.is_gone or vm.has_left_disk]
        return [*vms, *market.policies.values()]

    def break_claims(self, claims: Collection[str]) -> None:
        self.sandbox.nebius.broken.update(claims)


def note_row(market: str, claim: str, found: dict[str, ClaimFinding], billed: Decimal) -> None:
    """One row of the table of broken claims, where somebody asks for it by naming a file."""
    path = os.environ.get("CERTIFY_TABLE")
    if path is None:
        return
    seen = "; ".join(f"{name} {plain(value)}" for name, value in found[claim].numbers) or "-"
    others = sorted(name for name, each in found.items() if each.verdict is ClaimVerdict.NOT_SEEN)
    row = f"| {market} | `{claim}` | {found[claim].verdict} | {seen} | {', '.join(others) or '-'} | ${billed:.3f} |\n"
    with Path(path).open("a") as file:
        file.write(row)


def verdicts(found: dict[str, ClaimFinding]) -> dict[str, ClaimVerdict]:
    return {claim: finding.verdict for claim, finding in sorted(found.items())}
