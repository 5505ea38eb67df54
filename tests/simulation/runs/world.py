"""The whole of one run: markets, object store, ledger, agents and checkers on one ground, and the daemon's lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from autopilot_lab.memory_store.tables import Committed
from tests.simulation.checks.invariants import Invariants
from tests.simulation.ground.faults import Faults
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import VIRTUAL, Box
from tests.simulation.ground.scenario import Scenario, Wish, draw_capped, draw_hosts, draw_pools
from tests.simulation.markets.auction import AuctionMarket
from tests.simulation.markets.capped import CappedMarket
from tests.simulation.markets.market import SimulatedMarket
from tests.simulation.markets.mithril import Mithril
from tests.simulation.markets.network import Answerer, Connection
from tests.simulation.markets.runpod import PodMarket, Runpod
from tests.simulation.markets.vastai import Vastai
from tests.simulation.product.agents import SimAgent
from tests.simulation.product.blobs import Objects
from tests.simulation.product.daemon import Daemon, NumberedIds
from tests.simulation.product.failing_vm import FailingVm
from tests.simulation.product.ledger import SimulatedLedger
from tests.simulation.product.vm_host import VmHost
from tests.simulation.virtual.loop import VirtualLoop


class World(Ground):
    """The ground with everything on it."""

    check: Invariants

    def __init__(self, seed: int, scenario: Scenario, loop: VirtualLoop, faults: Faults) -> None:
        super().__init__(seed, scenario, loop, faults)
        self._network_rng, self._agent_rng = self.rng("network"), self.rng("agents")
        self.event_rng = self.rng("events")
        self._ids = NumberedIds()
        self._backup: Committed | None = None
        self.make_daemon: Callable[..., Daemon] = Daemon
        """With a daemon's parameters."""
        self.doomed |= {job_id for job_id in scenario.jobs if faults.hits("E15")}
        self._answerers = self._open_markets()
        self.markets = {name: answerer.market for name, answerer in self._answerers.items()}
        self._agent_connections = {name: self._connect(name, by_agent=True) for name in self.markets}
        # The daemon's own store decides who may write; a bucket accepts all that a valid URL allows.
        self.objects = Objects(loop, keeps_gate=any(faults.strength[row] for row in ("J6", "J7")))
        self._ledger = SimulatedLedger(self, self.committed, self.rng("ledger"))
        if scenario.tokens:
            self.committed["tokens"] = {token.number: token for token in scenario.tokens}
        self.check = Invariants(self, self.markets, self.objects)

    def _open_markets(self) -> dict[str, Answerer]:
        """Those of the scenario, with hosts that are drawn."""
        vastai, runpod = draw_hosts(self.rng("hosts"))
        for host in vastai:
            if self.faults.hits("E10"):
                host.room = self.faults.rng("E10").randint(2, 8)
        found: dict[str, Answerer] = {}
        for name in self.scenario.markets:
            rng = self.rng(name)
            if name == "vastai":
                found[name] = Vastai(SimulatedMarket(self, name, vastai, rng, self._boot_agent))
            elif name == "runpod":
                found[name] = Runpod(PodMarket(self, name, runpod, rng, self._boot_agent))
            elif name == "mithril":
                pools = draw_pools(self.rng("pools"))
                found[name] = Mithril(AuctionMarket(self, name, pools, rng, self._boot_agent))
            else:
                # The vendor's SDK takes a second to load.
                from tests.simulation.markets.nebius import Nebius

                capped = draw_capped(self.rng("capped"))
                found[name] = Nebius(CappedMarket(self, name, capped, rng, self._boot_agent))
        return found

    def _connect(self, provider: str, *, by_agent: bool = False) -> Connection:
        rng = self._agent_rng if by_agent else self._network_rng
        return Connection(self, self.markets[provider], self._answerers[provider], rng)

    def _boot_agent(self, box: Box) -> None:
        """The machine is up: its start command runs."""
        kind, _, url = box.onstart.partition(" ")
        if kind != "agent":
            return
        connection = self._agent_connections[box.provider]
        if box.is_dud:
            # A container that reaches nothing does not get its agent.
            if box.provider in VIRTUAL:
                FailingVm(self, self.objects, connection, box, url)
            return
        boot = VmHost if box.provider in VIRTUAL else self._boot_container
        boot(self, self.objects, connection, box, url, self._agent_rng)

    def _boot_container(self, *parts: Any) -> None:
        agent = SimAgent(*parts)
        agent.box.agent = agent

    def boxes(self) -> Iterator[Box]:
        for market in self.markets.values():
            yield from list(market.boxes.values())

    def wish(self, what: Wish) -> None:
        self.wishes.append(what)

    # --- the daemon's lives

    def start_daemon(self) -> None:
        life = self.life
        if life is not None and life.process.is_alive and not life.has_stopped:
            return
        if life is not None:
            self.loop.kill(life.process)
        wrong_s = self.event_rng.uniform(-120, 120) if self.faults.hits("H1") else 0.0
        self.lives += 1
        self.fit_since_s = self.now_s
        self.trace("started", str(self.lives))
        self._ledger = self._ledger.reopen()
        connections = {name: self._connect(name) for name in self.markets}
        daemon = self.make_daemon(
            self, self._ledger, self.objects, connections, self._ids, wrong_s=wrong_s, rng=self._network_rng
        )
        self.life = daemon.life
        self._rebill()

    def kill_daemon(self, down_s: float | None) -> None:
        """As kill -9; it is started again after so long, None: never."""
        life = self.life
        if life is None or not life.process.is_alive:
            return
        self.trace("killed")
        self.loop.kill(life.process)
        self._out()
        if down_s is not None:
            self.loop.after(down_s, self.start_daemon)

    def freeze_daemon(self, for_s: float) -> None:
        life = self.life
        if life is None or not life.can_act:
            return
        self.trace("frozen")
        self.loop.freeze(life.process)
        self._out()

        def thaw() -> None:
            self.loop.thaw(life.process)
            self.fit_since_s = self.now_s
            self._rebill()

        self.loop.after(for_s, thaw)

    def back_up(self) -> None:
        """What an administrator's copy of the ledger holds now."""
        self._backup = {name: dict(rows) for name, rows in self.committed.items()}

    def restore_ledger(self) -> None:
        """The daemon dies, and the next one finds the last copy in the ledger's place."""
        if self._backup is None:
            return
        self.kill_daemon(60.0)
        for name, rows in self.committed.items():
            rows.clear()
            rows.update(self._backup.get(name, {}))
        self._backup = None
        self.check.forget_ledger()

    def stop_daemon(self) -> None:
        """As SIGTERM: it ends when its calls have."""
        if self.life is not None:
            self.life.is_stopping = True

    def _out(self) -> None:
        """Sets from when on nothing can act any more, for each machine."""
        self.out_since_s = self.now_s
        for box in self.boxes():
            wait_s = self.markets[box.provider].alone_until_s(box) + 1 - self.now_s
            self.loop.after(max(wait_s, 0), self.markets[box.provider].rebill, box)

    def _rebill(self) -> None:
        if self.out_since_s is not None:
            self.outages.append((self.out_since_s, self.now_s))
        self.out_since_s = None
        for box in self.boxes():
            self.markets[box.provider].rebill(box)
