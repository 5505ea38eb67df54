"""What is true in one run for every observer: time, faults, books, the committed ledger and the daemon's life."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Protocol

from autopilot.domain.job import JobSpec
from autopilot_lab.memory_store.tables import Committed, MemoryTables
from tests.simulation.ground.books import Books
from tests.simulation.ground.faults import Faults
from tests.simulation.ground.machines import Box
from tests.simulation.ground.scenario import Scenario, Wish
from tests.simulation.ground.wire import Request
from tests.simulation.virtual.loop import Process, VirtualLoop

DARK = ("C1", "C2", "C3")
"""Bursts in which a market refuses everything."""
WARM_UP_S = 120.0
"""A daemon that was just started is not yet held to what it has to do in time."""


class Watcher(Protocol):
    """Sees what happens while it happens; ``checks.invariants`` is one."""

    def send_request(self, asked: Request) -> None: ...
    def receive_request(self, provider: str, asked: Request, *, client: object, is_late: bool) -> None: ...
    def read_list(self, provider: str) -> None: ...
    def commit(self, tables: MemoryTables) -> None: ...
    def write_object(self, key: str, data: bytes) -> None: ...
    def delete_object(self, key: str) -> None: ...
    def begin_run(self, box: Box, epoch: int, step: int) -> None: ...
    def restore(self, box: Box, lease_id: str, number: int) -> None: ...
    def end_permit(self, box: Box) -> None: ...
    def take_object(self, box: Box) -> None: ...
    def refuse_object(self, box: Box) -> None: ...
    def give_notice(self, box: Box) -> None: ...
    def end_notice(self, box: Box) -> None: ...
    def take_away(self, box: Box) -> None: ...
    def stop_for_notice(self, box: Box) -> None: ...
    def report_error(self, where: str, problem: object) -> None: ...


@dataclass(slots=True)
class Life:
    """Of one daemon, from its start to its end."""

    process: Process
    began_s: float
    is_stopping: bool = False
    """It was asked to end once its calls have."""
    has_stopped: bool = False

    @property
    def can_act(self) -> bool:
        return self.process.is_alive and not self.process.is_frozen


class Ground:
    """Shared by every part of the simulation, and knows none of them but the watcher."""

    check: Watcher

    def __init__(self, seed: int, scenario: Scenario, loop: VirtualLoop, faults: Faults) -> None:
        self.seed = seed
        self.scenario = scenario
        self.permit_ttl_s = scenario.permit_s
        self.loop = loop
        self.faults = faults
        self.books = Books()
        self.committed: Committed = {}
        self.wishes: list[Wish] = []
        self.finished: set[str] = set()
        """Jobs whose command has ended well somewhere."""
        self.doomed: set[str] = set()
        """Jobs whose command fails wherever it runs."""
        self.failed_runs: set[tuple[str, int]] = set()
        """Job and run epoch of those that ended otherwise, as their agents report it."""
        self.life: Life | None = None
        self.lives = 0
        self.out_since_s: float | None = None
        """Since when the daemon is dead or frozen."""
        self.outages: list[tuple[float, float]] = []
        """[(from, until), …], in seconds of the run: when it was."""
        self.version = 0
        """Goes up whenever something changes that outlives the daemon."""
        self.is_landing_late = False
        self.fit_since_s = 0.0
        """Since when the daemon has run without a break."""
        self.unlisted_until_s: dict[str, float] = {}
        """By market: until when machines cannot be listed."""
        self._unreadable_pages: set[tuple[str, str]] = set()
        """Of each market's last list: (provider, token of the page)."""
        self._trace = hashlib.blake2b(digest_size=16)
        self.story: list[str] | None = None
        """Kept line by line when somebody wants to read it."""

    def rng(self, name: str) -> random.Random:
        """The run's generator of that name, at its beginning."""
        return random.Random(f"{self.seed}/{name}")

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

    # --- the ledger

    def spec_of(self, job_id: str) -> JobSpec:
        """What the job asks for: of one that came by the API, as the ledger has it."""
        asked = self.scenario.jobs.get(job_id)
        spec: JobSpec = self.committed["jobs"][job_id].spec if asked is None else asked
        return spec

    def is_doomed(self, job_id: str | None) -> bool:
        """Its command fails; of an array every other task's."""
        job = self.committed.get("jobs", {}).get(job_id)
        if job is not None and job.array_id is not None:
            return job.array_id in self.doomed and job.task % 2 == 1
        return job_id in self.doomed

    def owner_of(self, label: str) -> tuple[str | None, str | None]:
        """The committed lease, and its job, that a label names."""
        ids = self.committed.get("leases_by_label", {}).get(label) or ()
        if not ids:
            return None, None
        lease = self.committed["leases"][ids[0]]
        return lease.id, lease.job_id

    # --- the markets' lists

    def spoil(self, provider: str, page: str = "") -> None:
        """That page of the market's list is no answer to go by."""
        self._unreadable_pages.add((provider, page))

    def is_unreadable(self, provider: str) -> bool:
        return any(of == provider for of, _ in self._unreadable_pages)

    def read_again(self, provider: str, page: str) -> None:
        """A list restarts with its first page, and each page when it is requested again."""
        self._unreadable_pages = {
            (of, spoilt) for of, spoilt in self._unreadable_pages if of != provider or (page and spoilt != page)
        }

    # --- the daemon

    @property
    def is_daemon_out(self) -> bool:
        return self.life is None or not self.life.can_act

    def is_able(self, provider: str) -> bool:
        """The daemon runs, and has done so for a while, and that market answers."""
        life = self.life
        if self.is_daemon_out or life is None or self.now_s - life.began_s < WARM_UP_S:
            return False
        if self.is_unlisted(provider):
            return False
        return not any(self.faults.ends_at(row, provider, self.now_s) > self.now_s for row in DARK)

    def is_unlisted(self, provider: str) -> bool:
        return self.now_s < self.unlisted_until_s.get(provider, 0.0)

    def was_fit(self, for_s: float) -> bool:
        """Daemon, ledger and object store have done their part for so long."""
        since_s = self.now_s - for_s
        if self.is_daemon_out or self.fit_since_s > since_s:
            return False
        return not any(
            self.faults.has_struck(row, target, since_s, self.now_s)
            for row, target in (("J1", "store"), ("G1", "ledger"))
        )
