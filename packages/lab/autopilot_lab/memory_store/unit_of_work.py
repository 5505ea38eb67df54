"""One transaction over tables in memory, and the repositories that share it."""

from __future__ import annotations

from autopilot_lab.memory_store.access import Access
from autopilot_lab.memory_store.answers import MemoryAnswers
from autopilot_lab.memory_store.certificates import MemoryCertificates
from autopilot_lab.memory_store.code_copies import MemoryCodeCopies
from autopilot_lab.memory_store.drifts import MemoryDrifts
from autopilot_lab.memory_store.forecasts import MemoryForecasts
from autopilot_lab.memory_store.history import MemoryBids, MemoryDecisions, MemoryEvents, MemoryNotes
from autopilot_lab.memory_store.hosts import MemoryHosts
from autopilot_lab.memory_store.invoices import MemoryInvoices
from autopilot_lab.memory_store.jobs import MemoryCheckpoints, MemoryJobs
from autopilot_lab.memory_store.leases import MemoryLeases
from autopilot_lab.memory_store.ledger import MemoryLedger
from autopilot_lab.memory_store.notices import MemoryNotices
from autopilot_lab.memory_store.prices import MemoryPrices
from autopilot_lab.memory_store.readings import MemoryMachineReadings
from autopilot_lab.memory_store.reports import MemoryReports
from autopilot_lab.memory_store.schedules import MemorySchedules
from autopilot_lab.memory_store.tokens import MemoryTokens


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
        "hosts",
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
        self.hosts = MemoryHosts(access)
        self.schedules = MemorySchedules(access)
        self.tokens = MemoryTokens(access)
