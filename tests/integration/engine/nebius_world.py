"""The engine on the sandbox's Nebius: machines under a cap that are stopped where the price passes it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from autopilot.domain.lease import Lease
from autopilot.ports.provider import Provider
from autopilot.providers.nebius import plugin
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.nebius.catalogue import PROJECTS
from autopilot_lab.sandbox.nebius.market import NebiusMarket
from autopilot_lab.sandbox.nebius.vms import BILLED, Vm
from autopilot_lab.sandbox.units import NANO
from tests.integration.engine.engine_agents import ORDERS, Agent, Agents
from tests.integration.engine.engine_world import World

JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "H200:1"
disk = "40GB"
max_hourly = "$5.00"
[work]
estimate = "10m"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "1m"
"""
OURS = "ap1-"


class NebiusAgents(Agents):
    """One for each machine that is on."""

    def __init__(self, agents: Agents, market: NebiusMarket) -> None:
        super().__init__(agents._store, agents._market)
        self._nebius = market
        self._by_vm: dict[str, Agent] = {}

    def of(self, instance_id: str | None) -> Agent:
        return self._by_vm[instance_id or ""]

    async def act(self, now: datetime) -> None:
        for vm in self._nebius.vms.values():
            told = ORDERS.search(vm.order.user_data)
            if vm.state not in BILLED or vm.is_gone or told is None or told["lease_id"] in self.deaf:
                continue
            agent = self._by_vm.setdefault(
                vm.id, Agent(self._store, told["job_id"], told["lease_id"], home_id=told["job_id"])
            )
            await agent.act(vm.boots, self, now)


class NebiusWorld(World):
    async def start(self) -> None:
        self.api_key = "nebius-sandbox-key"
        if not isinstance(self.agents, NebiusAgents):  # they outlive the daemon
            self.agents = NebiusAgents(self.agents, self.sandbox.nebius)
        await super().start()

    def connect(self) -> Provider:
        return connect(self)

    def vm(self, lease: Lease) -> Vm:
        """The market's own record of a lease's machine."""
        return self.sandbox.nebius.vms[lease.instance_id or ""]

    def set_price(self, lease: Lease, price: Decimal) -> None:
        """Of the machine's kind in its region, $/h of a GPU, at once; all other kinds are dear for good."""
        mine = self.sandbox.nebius.pool_of(self.vm(lease))
        for pool in self.sandbox.nebius.pools.values():
            self.sandbox.nebius.set_price(pool, price if pool is mine else Decimal(6))

    def alive(self) -> list[Vm]:
        """Of ours."""
        return [vm for vm in self.sandbox.nebius.vms.values() if not vm.is_gone and vm.order.name.startswith(OURS)]

    def billed(self) -> Decimal:
        """By the market's own meters."""
        market = self.sandbox.nebius
        return to_decimal(sum((vm.meter.total(market.now) for vm in market.vms.values()), Fraction(0)), NANO)

    async def check_books(self) -> None:
        """Nothing of ours is left: no machine, no disk, no policy."""
        market = self.sandbox.nebius
        assert self.alive() == [], await self.story()
        assert not [vm for vm in market.vms.values() if vm.has_left_disk], await self.story()
        assert not [row for row in market.policies.values() if row.name.startswith(OURS)], await self.story()

    def _check_instances(self) -> None:
        names = Counter(vm.order.name for vm in self.sandbox.nebius.vms.values())
        twice = [name for name, times in names.items() if times > 1]
        assert not twice, f"a create was sent twice: {twice}"


def connect(world: World, **settings: object) -> Provider:
    own = {"base_url": world.sandbox.nebius_address, "api_key": "nebius-sandbox-key", "projects": PROJECTS}
    return plugin.connect({**own, "timeout_s": world.timeout_s, **settings}, world.clock)
