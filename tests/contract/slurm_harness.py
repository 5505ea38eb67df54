"""The contract suite's grip on a Slurm cluster: its login node is this computer, over OpenSSH on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from autopilot.domain.offer import CapacityType, Offer, OfferQuery
from autopilot.ports.provider import Provider
from autopilot.providers import registry
from tests.contract.harness import QuickClock
from tests.slurm_cluster import SlurmCluster
from tests.ssh_machines import OwnMachines

PRICE = "$0.40"
LOGIN = "login"
A_LOOK_S = 0.25
"""Real seconds between two looks: a queue has a time of its own."""
_FORCE = """\
PATH={root}/bin:$PATH
export PATH
asked=$(mktemp {root}/asked.XXXXXX)
cat >$asked
if [ -e {root}/lose ] && grep -q sbatch $asked; then
  sh <$asked >/dev/null
  kill -9 $PPID
elif [ -e {root}/garble ]; then
  sh <$asked | tr '|' '<'
else
  echo "welcome to the login node"
  sh <$asked
fi
rm -f $asked
"""


class SlurmHarness:
    query = OfferQuery((("RTX 4090", 1),), Decimal(20), Decimal(1), verified_only=True, datacenter_only=True)
    capacity_type = CapacityType.ON_DEMAND
    image = "some/image:1"
    onstart = "exec sleep 86400"
    has_wire = True

    def __init__(self, cluster: SlurmCluster, login: OwnMachines, clock: QuickClock) -> None:
        self._cluster = cluster
        self._login = login
        self._clock = clock
        self._given: set[str] = set()
        (login.root / "force").write_text(_FORCE.format(root=login.root))
        self.provider: Provider = self.connect()

    def connect(self) -> Provider:
        settings = self._cluster.settings("low", "firm", price=PRICE)
        over = {"host": LOGIN, "ssh_config_file": self._login.config_file}
        return registry.connect("slurm", {**settings, **over}, self._clock)

    async def make_offer_available(self) -> Offer:
        offer = next(o for o in await self.provider.offers(self.query) if o.machine_id not in self._given)
        self._given.add(offer.machine_id)
        return offer

    async def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        await asyncio.sleep(A_LOOK_S)

    async def outbid(self, instance_id: str) -> Decimal:
        raise NotImplementedError("there are no bids in a queue")

    async def billed(self, instance_id: str) -> Decimal:
        raise NotImplementedError("nobody sends a bill")

    @asynccontextmanager
    async def lost_create_answers(self) -> AsyncIterator[None]:
        mark = self._login.root / "lose"
        mark.touch()
        yield
        mark.unlink()

    @asynccontextmanager
    async def garbled_lists(self) -> AsyncIterator[None]:
        mark = self._login.root / "garble"
        mark.touch()
        yield
        mark.unlink()
