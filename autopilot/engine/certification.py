"""Certifications within the tick: plays their script, keeps what it finds, issues certificates and judges them.

A certification is a job, so all that guards a job's machines guards its own. This module only replaces ``decide`` for
it, and the guard's knowledge of which markets may be rented from.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

import structlog

from autopilot.certify.bills import judge_bills
from autopilot.certify.claim import Step
from autopilot.certify.claims import settled_by, weighty
from autopilot.certify.run import Run, Turn
from autopilot.certify.script import play
from autopilot.certify.use import Use, Watcher, find_end_claim
from autopilot.domain.actions import Decision, Note, SetStatus
from autopilot.domain.certificate import (
    LASTS,
    NO_PROOF,
    Certificate,
    CertificateStatus,
    ClaimFinding,
    ClaimVerdict,
    Lack,
    UseProof,
    judge_certificate,
    judge_use,
)
from autopilot.domain.instance import CostKind
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.lease import Lease
from autopilot.domain.market import Market
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.reasons import Reason
from autopilot.domain.reconciliation import newest_revisions
from autopilot.engine.dialling import Dialling
from autopilot.engine.event_log import EventLog, certificate_ended, certificate_issued, claim_settled
from autopilot.engine.observe import Reading, Watch
from autopilot.markets.installed import claims_of
from autopilot.ports.store import UnitOfWork

log = structlog.get_logger(__name__)

OUTLIVED = "outlived_certificates"
"""The ledger's note of certificates of another account or version, and when each was first seen to be so."""
SUCCESS = SetStatus(JobStatus.SUCCEEDED, Reason.COMPLETED)


@dataclass(frozen=True, slots=True)
class CertifyRules:
    """What this daemon asks of its markets."""

    version: str = ""
    """Major and minor version of autopilot."""
    needed_on: frozenset[str] = frozenset()
    """Markets that need a certificate: the real ones, unless the operator does without."""
    weighed_on: frozenset[str] = frozenset()
    """Markets on which a broken claim stops new machines, certificate or not: the real ones."""
    only: bool = False
    """Nothing but certifications rents anything."""
    allowance: Decimal | None = None
    """Dollars that may be spent on a market without a certificate in force; None: nothing is rented there."""


@dataclass(slots=True)
class _Outlived:
    """When certificates without an end of their own were first seen to be in force no more.

    One of another account or version has none. It is kept, so that what was spent since stays spent.
    """

    seen: dict[str, datetime]
    """By the certification."""
    is_changed: bool = False

    @classmethod
    def of(cls, kept: str | None) -> _Outlived:
        return cls({job_id: datetime.fromisoformat(at) for job_id, at in json.loads(kept or "{}").items()})

    def note(self, certificate: Certificate, now: datetime) -> None:
        if certificate.job_id not in self.seen:
            self.seen[certificate.job_id] = now
            self.is_changed = True

    def end_of(self, certificate: Certificate, now: datetime) -> datetime | None:
        expired_at = certificate.ends_at if now >= certificate.ends_at else None
        ends = (self.seen.get(certificate.job_id), certificate.ended_at, expired_at)
        return min((at for at in ends if at is not None), default=None)

    def to_json(self) -> str:
        return json.dumps({job_id: at.isoformat() for job_id, at in self.seen.items()}, sort_keys=True)


@dataclass(slots=True)
class Certification:
    rules: CertifyRules
    watches: Mapping[str, Watch]
    dialling: Dialling
    statuses: dict[str, CertificateStatus] = field(default_factory=dict)
    uncertified: dict[str, datetime | None] = field(default_factory=dict)
    """Markets that need a certificate and have none in force, and since when; None: they never had one."""
    findings: dict[str, tuple[ClaimFinding, ...]] = field(default_factory=dict)
    """By market, of its certifications and of its use, oldest first."""

    def lack_of(self, market: str, now: datetime) -> Lack | None:
        """Why nothing new may be rented there but for a certification; None if it may."""
        if self.rules.only:
            return Lack.CERTIFYING_ONLY
        held = self.statuses.get(market)
        if held is not None and held.broken and market in self.rules.weighed_on:
            return Lack.CLAIM_BROKEN
        if market not in self.rules.needed_on:
            return None
        if held is None:
            return Lack.MISSING
        is_over = held.certificate is not None and now >= held.certificate.ends_at
        return held.lack or (Lack.EXPIRED if is_over else None)

    def is_proved(self, market: str, now: datetime) -> bool:
        """Whether what is promised of its machines is proved, by a certificate or by use."""
        return self.is_in_force(market, now) or self.proof_of(market, now).is_made

    def is_in_force(self, market: str, now: datetime) -> bool:
        """Whether its certificate is; of an emulator nothing needs to be proved."""
        if market not in self.rules.weighed_on | self.rules.needed_on:
            return True
        held = self.statuses.get(market)
        if held is None or held.certificate is None or held.lack is not None or held.broken:
            return False
        return now < held.certificate.ends_at

    def proof_of(self, market: str, now: datetime) -> UseProof:
        """Whether a market without a certificate in force is proved by use."""
        watch = self.watches.get(market)
        if watch is None or market not in self.uncertified or self.statuses[market].broken:
            return NO_PROOF
        end = find_end_claim(watch.provider.capabilities.dead_man, [claim.id for claim in claims_of(market)])
        return judge_use(self.findings.get(market, ()), end, watch.account_digest, self.rules.version, now)

    def ends_soon(self, market: str, now: datetime) -> datetime | None:
        """When its certificate ends, where it is needed and asks to be renewed; else None."""
        held = self.statuses.get(market)
        if market not in self.rules.needed_on or held is None or held.certificate is None:
            return None
        return held.certificate.ends_at if held.ends_soon(now) else None

    def notes(self, now: datetime) -> tuple[Note, ...]:
        """Certificates that end soon."""
        ends = ((name, self.ends_soon(name, now)) for name in sorted(self.statuses))
        return tuple(
            Note("certificate_ends", (("provider", name), ("ends_at", at.isoformat()))) for name, at in ends if at
        )

    async def load(self, uow: UnitOfWork, now: datetime) -> None:
        """Check the bills of certifications that are over, then judge every market's certificate again."""
        issued = {each.provider: each for each in await uow.certificates.list_newest()}
        for market, job_id in await uow.certificates.newest_certifications():
            await _settle_bills(uow, market, job_id, now)
        account_of = {name: watch.account_digest for name, watch in self.watches.items()}
        self.findings = {name: await uow.certificates.list_findings_on(name) for name in account_of}
        self.statuses = {
            name: judge_certificate(
                issued.get(name),
                self.findings[name],
                weighty(claims_of(name)),
                account,
                self.rules.version,
                now,
            )
            for name, account in account_of.items()
        }
        self.uncertified = await self._find_uncertified(uow, now)

    async def _find_uncertified(self, uow: UnitOfWork, now: datetime) -> dict[str, datetime | None]:
        """Since when each market has had no certificate in force; not those of which that is not known yet."""
        outlived = _Outlived.of(await uow.notes.get(OUTLIVED))
        found: dict[str, datetime | None] = {}
        for market, status in self.statuses.items():
            certificate, lack = status.certificate, status.unproven
            if lack is None or market not in self.rules.needed_on:
                continue
            if certificate is None:
                found[market] = None
                continue
            if lack is Lack.OTHER_VERSION or (lack is Lack.OTHER_ACCOUNT and self.watches[market].account_digest):
                outlived.note(certificate, now)
            if (since := outlived.end_of(certificate, now)) is not None:
                found[market] = since
        if outlived.is_changed:
            await uow.notes.set(OUTLIVED, outlived.to_json())
        return found

    async def decide(
        self,
        uow: UnitOfWork,
        job: Job,
        market: Market,
        busy: Collection[str],
        now: datetime,
        params: Params,
    ) -> tuple[Decision, Turn]:
        """What the script does now. Nothing while a call for its machine is under way or its market is unknown."""
        watch = self.watches.get(job.certifies)
        if watch is None or not watch.last.known or any(lease.id in busy for lease in job.leases):
            return Decision((), ()), Turn()
        run = await _run(uow, job, market, watch, now, params)
        if (main := run.main) is not None:
            run = replace(run, is_dialled=self.dialling.is_on, forwards=self.dialling.forwards(main.id))
        answer = play(run)
        return Decision(answer.actions, (Note("certify", (("provider", job.certifies),)),)), answer

    async def keep(self, uow: UnitOfWork, job: Job, answer: Turn, now: datetime) -> None:
        """Write down what the script found and how far it is; issue the certificate once it is over."""
        await uow.certificates.save_marks(answer.marks)
        await uow.certificates.save_findings(answer.findings)
        await uow.events.add([claim_settled(job.certifies, each) for each in answer.findings])
        if SUCCESS not in answer.actions:
            return
        certificate = Certificate(
            job.id,
            job.certifies,
            self.watches[job.certifies].account_digest,
            self.rules.version,
            now,
            now + LASTS,
        )
        await uow.certificates.save(certificate)
        await uow.events.add([certificate_issued(certificate)])
        log.info("certificate.issued", provider=job.certifies, ends_at=str(certificate.ends_at))

    async def watch_use(
        self, uow: UnitOfWork, event_logs: Iterable[EventLog], readings: Mapping[str, Reading], now: datetime
    ) -> None:
        """Write down what the jobs of this tick show of the claims of real markets, beside their work.

        In the transaction that takes in what the machines did: a daemon that is killed has written both, or neither.
        """
        for each in event_logs:
            if each.is_broken or each.job.certifies:
                continue
            for market in {lease.provider for lease in each.job.leases} & (
                self.rules.weighed_on | self.rules.needed_on
            ):
                found = self._watch(market, each, readings.get(market), now)
                await uow.certificates.save_findings(found)
                await uow.events.add([claim_settled(market, finding) for finding in found])
                self.findings[market] = (*self.findings.get(market, ()), *found)

    def _watch(
        self, market: str, event_log: EventLog, reading: Reading | None, now: datetime
    ) -> tuple[ClaimFinding, ...]:
        watch = self.watches.get(market)
        if watch is None or reading is None:
            return ()
        shown = {each.instance_id: each for each in reading.instances or ()} if reading.is_fresh else {}
        before = {lease.id: lease for lease in event_log.original.leases}
        made_of = frozenset(claim.id for claim in claims_of(market))
        end = find_end_claim(watch.provider.capabilities.dead_man, made_of)
        leases = [lease for lease in event_log.job.leases if lease.provider == market and lease.id in before]
        uses = [Use(before[lease.id], lease, shown.get(lease.instance_id or ""), end) for lease in leases]
        since = min((lease.intended_at for lease in leases), default=now)
        remarks = tuple(each for each in watch.provider.remarks() if each.at >= since)
        newest = {
            each.claim: each for each in self.findings.get(market, ()) if each.verdict is not ClaimVerdict.NOT_SEEN
        }
        watcher = Watcher(market, watch.account_digest, self.rules.version, made_of, newest, now)
        return watcher.watch(event_log.job.id, uses, remarks)


async def find_end(uow: UnitOfWork, certificate: Certificate, now: datetime) -> datetime | None:
    """Since when it has been in force no more, as the ledger knows; None: it may be in force yet."""
    return _Outlived.of(await uow.notes.get(OUTLIVED)).end_of(certificate, now)


async def end_certificate(uow: UnitOfWork, provider: str, because: str, now: datetime) -> None:
    """End the market's certificate early, if one is in force, and what its use has proved.

    Called when a field that carries money has changed.
    """
    for issued in await uow.certificates.list_newest():
        if issued.provider == provider and issued.ended_at is None and now < issued.ends_at:
            ended = replace(issued, ended_at=now, ended_because=because)
            await uow.certificates.save(ended)
            await uow.events.add([certificate_ended(ended, now)])
            log.error("certificate.ended", provider=provider, because=because)
    found = await uow.certificates.list_findings_on(provider)
    held = [each for each in found if each.used_on and each.verdict is ClaimVerdict.HELD]
    await uow.certificates.save_findings(replace(each, verdict=ClaimVerdict.NOT_SEEN, at=now) for each in held)


async def _run(uow: UnitOfWork, job: Job, market: Market, watch: Watch, now: datetime, params: Params) -> Run:
    reading = watch.last
    present = {lease.id: lease for lease in job.leases}
    every = [present.pop(lease.id, lease) for lease in await uow.leases.list_by_job(job.id)]
    leases = tuple(sorted((*every, *present.values()), key=lambda lease: (lease.intended_at, lease.id)))
    main = job.main
    shown = next((each for each in reading.instances or () if main and each.instance_id == main.instance_id), None)
    return Run(
        job,
        claims_of(job.certifies),
        leases,
        {mark.step: mark for mark in await uow.certificates.list_marks(job.id)},
        {finding.claim: finding for finding in await uow.certificates.list_findings(job.id)},
        tuple(each for each in watch.provider.remarks() if each.at >= job.submitted_at),
        shown,
        main is None or _is_younger(reading, main),
        market,
        now,
        params,
    )


def _is_younger(reading: Reading, lease: Lease) -> bool:
    asked = [at for at in (lease.acquired_at, lease.bidding.changed_at) if at is not None]
    return all(reading.begun_at > at for at in asked)


async def _settle_bills(uow: UnitOfWork, market: str, job_id: str, now: datetime) -> None:
    """Write down what the certification's bill says, once it does."""
    found = await uow.certificates.list_findings(job_id)
    billed = settled_by(claims_of(market), Step.BILL)
    if {each.claim for each in found}.issuperset(billed):
        return
    job = await uow.jobs.find(job_id)
    if job is None or not job.status.is_final:
        return
    leases = [lease for lease in await uow.leases.list_by_job(job_id) if lease.instance_id is not None]
    ids = [lease.id for lease in leases]
    lines = newest_revisions(await uow.invoices.list_by_lease(ids)).values()
    accrued: dict[CostKind, Decimal] = {}
    for books in (await uow.ledger.sum_books(ids)).values():
        for (kind, _), amount in books.accrued.items():
            accrued[kind.as_billed] = accrued.get(kind.as_billed, ZERO) + amount
    due = set(billed) - {each.claim for each in found}
    new = [each for each in judge_bills(job_id, leases, lines, accrued, now) if each.claim in due]
    await uow.certificates.save_findings(new)
    await uow.events.add([claim_settled(market, each) for each in new])
