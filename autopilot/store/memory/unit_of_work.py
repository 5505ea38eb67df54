"""One transaction over tables in memory, and the repositories that share it."""

from __future__ import annotations

from autopilot.store.memory.access import Access
from autopilot.store.memory.answers import MemoryAnswers
from autopilot.store.memory.certificates import MemoryCertificates
from autopilot.store.memory.code_copies import MemoryCodeCopies
from autopilot.store.memory.drifts import MemoryDrifts
from autopilot.store.memory.forecasts import MemoryForecasts
from autopilot.store.memory.history import MemoryBids, MemoryDecisions, MemoryEvents, MemoryNotes
from autopilot.store.memory.invoices import MemoryInvoices
from autopilot.store.memory.jobs import MemoryCheckpoints, MemoryJobs
from autopilot.store.memory.leases import MemoryLeases
from autopilot.store.memory.ledger import MemoryLedger
from autopilot.store.memory.notices import MemoryNotices
from autopilot.store.memory.prices import MemoryPrices
from autopilot.store.memory.readings import MemoryMachineReadings
from autopilot.store.memory.reports import MemoryReports
from autopilot.store.memory.schedules import MemorySchedules
from autopilot.store.memory.tokens import MemoryTokens


class MemoryUnitOfWork:
    __slots__ = (
        "answers",
        "bids",
        "certificates",
        "checkpoints",
        "code_copies",
        "decisions",
        "drifts",
        "events",
        "forecasts",
        "invoices",
        "jobs",
        "leases",
        "ledger",
        "machine_readings",
        "notes",
        "notices",
        "prices",
        "reports",
        "schedules",
        "tokens",
    )

    def __init__(self, access: Access) -> None:
        self.answers = MemoryAnswers(access)
        self.leases = MemoryLeases(access)
        self.checkpoints = MemoryCheckpoints(access)
        self.certificates = MemoryCertificates(access)
        self.code_copies = MemoryCodeCopies(access)
        self.jobs = MemoryJobs(access)
        self.ledger = MemoryLedger(access)
        self.invoices = MemoryInvoices(access)
        self.reports = MemoryReports(access)
        self.bids = MemoryBids(access)
        self.decisions = MemoryDecisions(access)
        self.events = MemoryEvents(access)
        self.notes = MemoryNotes(access)
        self.notices = MemoryNotices(access)
        self.prices = MemoryPrices(access)
        self.machine_readings = MemoryMachineReadings(access)
        self.drifts = MemoryDrifts(access)
        self.forecasts = MemoryForecasts(access)
        self.schedules = MemorySchedules(access)
        self.tokens = MemoryTokens(access)
