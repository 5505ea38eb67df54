"""The engine on the sandbox's Mithril: bids that wait, win, lose and win again."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from autopilot.domain.lease import Lease
from autopilot.ports.provider import Provider
from autopilot.providers.mithril import plugin
from autopilot_lab.sandbox.market.metering import to_decimal
from autopilot_lab.sandbox.mithril.bids import BILLED, Bid
from autopilot_lab.sandbox.mithril.market import MithrilMarket
from autopilot_lab.sandbox.units import NANO
from tests.integration.engine.engine_agents import ORDERS, Agent, Agents
from tests.integration.engine.engine_world import OURS, World

JOB = """
name = "train"
image = "some/image:1"
run = "python train.py"
[resources]
gpu = "A100 SXM4:1"
disk = "20GB"
max_hourly = "$3.00"
[work]
estimate = "10m"
[budget]
total = "$9"
[checkpoint]
path = "ckpt"
interval = "1m"
"""


class MithrilAgents(Agents):
    """One for each bid whose machine is on: it is the bid that keeps the disk."""

    def __init__(self, agents: Agents, market: MithrilMarket) -> None:
        super().__init__(agents._store, agents._market)
        self._mithril = market
        self._by_bid: dict[str, Agent] = {}

    def of(self, instance_id: str | None) -> Agent:
        return self._by_bid[instance_id or ""]

    async def act(self, now: datetime) -> None:
        for bid in self._mithril.bids.values():
            told = ORDERS.search(bid.order.startup_script)
            if bid.machine is None or bid.machine.status not in BILLED or told is None:
                continue
            if told["lease_id"] in self.deaf:
                continue
            agent = self._by_bid.setdefault(
                bid.id, Agent(self._store, told["job_id"], told["lease_id"], home_id=told["job_id"])
            )
            await agent.act(bid.boots, self, now)


class MithrilWorld(World):
    async def start(self) -> None:
        self.api_key = "mithril-sandbox-key"
        if not isinstance(self.agents, MithrilAgents):  # they outlive the daemon
            self.agents = MithrilAgents(self.agents, self.sandbox.mithril)
        await super().start()

    def connect(self) -> Provider:
        settings = {"base_url": self.sandbox.url, "api_key": self.api_key, "timeout_s": self.timeout_s}
        return plugin.connect(settings, self.clock)

    def bid(self, lease: Lease) -> Bid:
        """The market's own record of a lease's bid."""
        return self.sandbox.mithril.bids[lease.instance_id or ""]

    def outbid(self, lease: Lease, times: str = "1.5", stay_s: float | None = None) -> None:
        """Somebody takes all machines of that kind."""
        pool = self.sandbox.mithril.pool_of(self.bid(lease))
        limit = (lease.bid * Decimal(times)).quantize(Decimal("0.01"))
        self.sandbox.mithril.add_rival(pool, limit, pool.slots, stay_s)

    def take_others(self, lease: Lease) -> None:
        """All other pools are dear for good."""
        mine = self.sandbox.mithril.pool_of(self.bid(lease))
        for pool in self.sandbox.mithril.pools.values():
            if pool is not mine:
                self.sandbox.mithril.add_rival(pool, Decimal(900), pool.slots, None)

    def open_bids(self) -> list[Bid]:
        """Of ours."""
        return [
            bid for bid in self.sandbox.mithril.bids.values() if not bid.is_over and bid.order.name.startswith(OURS)
        ]

    def billed(self) -> Decimal:
        """By the market's own meters."""
        market = self.sandbox.mithril
        cost = sum((bid.meter.total(market.now) for bid in market.bids.values()), Fraction(0))
        return to_decimal(cost, NANO)

    async def check_books(self) -> None:
        """Nothing of ours is left, and the ledger is within what one auction's price change may make of it."""
        assert self.open_bids() == [], await self.story()

    def _check_instances(self) -> None:
        names = Counter(bid.order.name for bid in self.sandbox.mithril.bids.values())
        twice = [name for name, times in names.items() if times > 1]
        assert not twice, f"a create was sent twice: {twice}"
