"""One transaction over one connection, and the repositories that share it."""

from __future__ import annotations

from autopilot.store.answers import SqlAnswers
from autopilot.store.certificates import SqlCertificates
from autopilot.store.code_copies import SqlCodeCopies
from autopilot.store.drifts import SqlDrifts
from autopilot.store.forecasts import SqlForecasts
from autopilot.store.history import SqlBids, SqlDecisions, SqlEvents, SqlNotes
from autopilot.store.hosts import SqlHosts
from autopilot.store.invoices import SqlInvoices
from autopilot.store.jobs import SqlCheckpoints, SqlJobs
from autopilot.store.leases import SqlLeases
from autopilot.store.ledger import SqlLedger
from autopilot.store.notices import SqlNotices
from autopilot.store.prices import SqlPrices
from autopilot.store.readings import SqlMachineReadings
from autopilot.store.reports import SqlReports
from autopilot.store.schedules import SqlSchedules
from autopilot.store.statements import Statements
from autopilot.store.tokens import SqlTokens


class SqlUnitOfWork:
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

    def __init__(self, sql: Statements) -> None:
        self.answers = SqlAnswers(sql)
        self.leases = SqlLeases(sql)
        self.checkpoints = SqlCheckpoints(sql)
        self.certificates = SqlCertificates(sql)
        self.code_copies = SqlCodeCopies(sql)
        self.ledger = SqlLedger(sql)
        self.jobs = SqlJobs(sql, self.leases, self.checkpoints, self.ledger)
        self.invoices = SqlInvoices(sql)
        self.reports = SqlReports(sql)
        self.bids = SqlBids(sql)
        self.decisions = SqlDecisions(sql)
        self.events = SqlEvents(sql)
        self.notes = SqlNotes(sql)
        self.notices = SqlNotices(sql)
        self.prices = SqlPrices(sql, self.notes)
        self.machine_readings = SqlMachineReadings(sql)
        self.drifts = SqlDrifts(sql)
        self.forecasts = SqlForecasts(sql)
        self.hosts = SqlHosts(sql)
        self.schedules = SqlSchedules(sql)
        self.tokens = SqlTokens(sql)
