"""One transaction and its repositories."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from autopilot.ports.store.answers import Answers
from autopilot.ports.store.certificates import Certificates
from autopilot.ports.store.code_copies import CodeCopies
from autopilot.ports.store.drifts import Drifts
from autopilot.ports.store.forecasts import Forecasts
from autopilot.ports.store.history import Bids, Decisions, Events, Notes
from autopilot.ports.store.hosts import HostRecords
from autopilot.ports.store.jobs import Checkpoints, Jobs
from autopilot.ports.store.leases import Leases
from autopilot.ports.store.ledger import Invoices, Ledger, Reports
from autopilot.ports.store.notices import Notices
from autopilot.ports.store.prices import Prices
from autopilot.ports.store.readings import MachineReadings
from autopilot.ports.store.schedules import Schedules
from autopilot.ports.store.tokens import Tokens


class UnitOfWork(Protocol):
    """One transaction. What one repository writes, all of them read at once."""

    @property
    def jobs(self) -> Jobs: ...

    @property
    def checkpoints(self) -> Checkpoints: ...

    @property
    def certificates(self) -> Certificates: ...

    @property
    def code_copies(self) -> CodeCopies: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def invoices(self) -> Invoices: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def bids(self) -> Bids: ...

    @property
    def decisions(self) -> Decisions: ...

    @property
    def events(self) -> Events: ...

    @property
    def prices(self) -> Prices: ...

    @property
    def machine_readings(self) -> MachineReadings: ...

    @property
    def drifts(self) -> Drifts: ...

    @property
    def forecasts(self) -> Forecasts: ...

    @property
    def hosts(self) -> HostRecords: ...

    @property
    def notes(self) -> Notes: ...

    @property
    def answers(self) -> Answers: ...

    @property
    def notices(self) -> Notices: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def tokens(self) -> Tokens: ...


class Store(Protocol):
    @property
    def revision(self) -> int:
        """Another number once a transaction of this process has ended.

        Where it is the same before a snapshot and within a later transaction, what the snapshot showed still holds.
        That needs one process alone to write, as the ledger's lock and the fence see to.
        """
        ...

    def transaction(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Read and write; commits when the block ends, rolls back on an exception."""
        ...

    def snapshot(self) -> AbstractAsyncContextManager[UnitOfWork]:
        """Read only, one consistent view."""
        ...

    async def close(self) -> None: ...
