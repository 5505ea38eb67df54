"""Everything that is true in one run, and all that happens in it beside what the daemon does."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from decimal import Decimal

from autopilot.domain.money import BYTES_PER_GB
from autopilot.store.memory.tables import Committed
from tests.simulation.agents import SimAgent
from tests.simulation.blobs import Objects
from tests.simulation.books import Books
from tests.simulation.daemon import Daemon, NumberedIds
from tests.simulation.faults import Faults
from tests.simulation.invariants import DARK, Invariants
from tests.simulation.ledger import SimulatedLedger
from tests.simulation.loop import VirtualLoop
from tests.simulation.machines import Box
from tests.simulation.market import DAEMON_TAIL_S, Market
from tests.simulation.network import Line
from tests.simulation.runpod import Runpod
from tests.simulation.scenario import Scenario, Wish, hosts
from tests.simulation.vastai import Vastai


class World:
    permit_ttl_s = 900

    def __init__(self, seed: int, scenario: Scenario, loop: VirtualLoop, faults: Faults) -> None:
        self.scenario = scenario
        self.loop = loop
        self.faults = faults
        self.books = Books()
        self.objects = Objects(self)
        self.committed: Committed = {}
        self.check = Invariants(self)
        self.ids = NumberedIds()
        self.wishes: list[Wish] = []
        self.finished: set[str] = set()
        """Jobs whose command has ended well somewhere."""
        self.daemon: Daemon | None = None
        self._backup: Committed | None = None
        self.lives = 0
        self.out_since_s: float | None = None
        """Since when the daemon is dead or frozen."""
        self.version = 0
        """Goes up whenever something changes that outlives the daemon."""
        self.is_landing_late = False
        self.unreadable_pages: set[tuple[str, str]] = set()
        """Of each market's last list: (provider, token of the page)."""
        self.network_luck = self._lucky(seed, "network")
        self.agent_luck = self._lucky(seed, "agents")
        self.event_luck = self._lucky(seed, "events")
        vastai, runpod = hosts(self._lucky(seed, "hosts"))
        self.markets = {
            "vastai": Market(self, "vastai", vastai, self._lucky(seed, "vastai")),
            "runpod": Market(self, "runpod", runpod, self._lucky(seed, "runpod")),
        }
        self.answerers: dict[str, Vastai | Runpod] = {
            "vastai": Vastai(self.markets["vastai"]),
            "runpod": Runpod(self.markets["runpod"]),
        }
        self.agent_lines = {name: Line(self, name, self.agent_luck) for name in self.markets}
        self._ledger = SimulatedLedger(self, self.committed, self._lucky(seed, "ledger"))
        self._trace = hashlib.blake2b(digest_size=16)
        self.story: list[str] | None = None
        """Kept line by line when somebody wants to read it."""

    @staticmethod
    def _lucky(seed: int, name: str) -> random.Random:
        return random.Random(f"{seed}/{name}")

    @property
    def now_s(self) -> float:
        return self.loop.time()

    # --- what happened

    def trace(self, *what: str) -> None:
        line = f"{self.loop.time():.4f} {' '.join(what)}"
        self._trace.update(line.encode())
        if self.story is not None:
            self.story.append(line)

    def trace_hash(self) -> str:
        return self._trace.hexdigest()

    # --- what there is

    def boxes(self) -> Iterator[Box]:
        for market in self.markets.values():
            yield from list(market.boxes.values())

    def owner_of(self, label: str) -> tuple[str | None, str | None]:
        """The committed lease, and its job, that a label names."""
        ids = self.committed.get("leases_by_label", {}).get(label) or ()
        if not ids:
            return None, None
        lease = self.committed["leases"][ids[0]]
        return lease.id, lease.job_id

    def agent_for(self, box: Box) -> None:
        """The machine is up: its start command runs."""
        kind, _, url = box.onstart.partition(" ")
        if kind == "agent":
            box.agent = SimAgent(self, box, url)

    def sent(self, box: Box, size: int) -> None:
        """The machine has sent so many bytes."""
        if box.host.upload_price:
            amount = (box.host.upload_price * size / BYTES_PER_GB).quantize(Decimal("1e-9"))
            self.books.charge(box.meter, "bwu", self.now_s, amount)

    # --- the daemon's lives

    @property
    def is_daemon_out(self) -> bool:
        return self.daemon is None or not self.daemon.process.is_alive or self.daemon.process.is_frozen

    def spoil(self, provider: str, page: str = "") -> None:
        """That page of the market's list is no answer to go by."""
        self.unreadable_pages.add((provider, page))

    def is_unreadable(self, provider: str) -> bool:
        return any(of == provider for of, _ in self.unreadable_pages)

    def reads(self, provider: str, page: str) -> None:
        """A list is begun anew with its first page, and each page when it is asked for again."""
        self.unreadable_pages = {
            (of, spoilt) for of, spoilt in self.unreadable_pages if of != provider or (page and spoilt != page)
        }

    def is_able(self, provider: str) -> bool:
        """The daemon runs, and has done so for a while, and that market answers."""
        daemon = self.daemon
        if self.is_daemon_out or daemon is None or self.now_s - daemon.began_s < 120:
            return False
        return not any(self.faults.ends_at(row, provider, self.now_s) > self.now_s for row in DARK)

    def start_daemon(self) -> None:
        if self.daemon is not None and self.daemon.process.is_alive and not self.daemon.has_stopped:
            return
        if self.daemon is not None:
            self.loop.kill(self.daemon.process)
        wrong_s = self.event_luck.uniform(-120, 120) if self.faults.hits("H1") else 0.0
        self.lives += 1
        self.trace("started", str(self.lives))
        self._ledger = self._ledger.reopened()
        self.daemon = Daemon(self, self._ledger, wrong_s=wrong_s)
        self._rebill()

    def kill_daemon(self, down_s: float | None) -> None:
        """As kill -9; it is started again after so long, None: never."""
        daemon = self.daemon
        if daemon is None or not daemon.process.is_alive:
            return
        self.trace("killed")
        self.loop.kill(daemon.process)
        self._out()
        if down_s is not None:
            self.loop.after(down_s, self.start_daemon)

    def freeze_daemon(self, for_s: float) -> None:
        daemon = self.daemon
        if daemon is None or not daemon.process.is_alive or daemon.process.is_frozen:
            return
        self.trace("frozen")
        self.loop.freeze(daemon.process)
        self._out()

        def thaw() -> None:
            self.loop.thaw(daemon.process)
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
        self.check.ledger_restored()

    def stop_daemon(self) -> None:
        """As SIGTERM: it ends when its calls have."""
        if self.daemon is not None:
            self.daemon.is_told_to_stop = True

    def _out(self) -> None:
        """From when on nobody can act any more, machine by machine."""
        self.out_since_s = self.now_s
        for box in self.boxes():
            wait_s = box.permit_until_s + DAEMON_TAIL_S + 1 - self.now_s
            self.loop.after(max(wait_s, 0), self.markets[box.provider].rebill, box)

    def _rebill(self) -> None:
        self.out_since_s = None
        for box in self.boxes():
            self.markets[box.provider].rebill(box)

    def wish(self, what: Wish) -> None:
        self.wishes.append(what)
