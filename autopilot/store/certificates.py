"""Certificates of markets, and what the certifications behind them saw."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from autopilot.domain.certificate import Certificate, ClaimFinding, StepMark
from autopilot.store.rows import record_of, values_of
from autopilot.store.schema import certificates, certify_findings, certify_steps, jobs, use_findings
from autopilot.store.statements import SqlRepository


class SqlCertificates(SqlRepository):
    __slots__ = ()

    async def save(self, certificate: Certificate) -> None:
        await self._sql.upsert(certificates, [values_of(certificates, certificate)])

    async def list_newest(self) -> tuple[Certificate, ...]:
        chosen = select(certificates).order_by(certificates.c.issued_at, certificates.c.job_id)
        every = [record_of(Certificate, certificates, row) for row in await self._sql.fetch_all(chosen)]
        newest = {each.provider: each for each in every}
        return tuple(newest[name] for name in sorted(newest))

    async def save_findings(self, findings: Iterable[ClaimFinding]) -> None:
        found = tuple(findings)
        for table, is_use in ((certify_findings, False), (use_findings, True)):
            rows = [values_of(table, each) for each in found if bool(each.used_on) is is_use]
            await self._sql.upsert(table, rows)

    async def list_findings(self, job_id: str) -> tuple[ClaimFinding, ...]:
        chosen = select(certify_findings).where(certify_findings.c.job_id == job_id)
        rows = await self._sql.fetch_all(chosen.order_by(certify_findings.c.claim))
        return tuple(record_of(ClaimFinding, certify_findings, row) for row in rows)

    async def list_findings_on(self, market: str) -> tuple[ClaimFinding, ...]:
        of_market = select(jobs.c.id).where(jobs.c.certifies == market)
        chosen = select(certify_findings).where(certify_findings.c.job_id.in_(of_market))
        certified = [record_of(ClaimFinding, certify_findings, row) for row in await self._sql.fetch_all(chosen)]
        by_use = select(use_findings).where(use_findings.c.used_on == market)
        used = [record_of(ClaimFinding, use_findings, row) for row in await self._sql.fetch_all(by_use)]
        return tuple(sorted((*certified, *used), key=lambda each: (each.at, each.claim)))

    async def save_marks(self, marks: Iterable[StepMark]) -> None:
        await self._sql.upsert(certify_steps, [values_of(certify_steps, mark) for mark in marks])

    async def list_marks(self, job_id: str) -> tuple[StepMark, ...]:
        chosen = select(certify_steps).where(certify_steps.c.job_id == job_id)
        rows = await self._sql.fetch_all(chosen.order_by(certify_steps.c.begun_at, certify_steps.c.step))
        return tuple(record_of(StepMark, certify_steps, row) for row in rows)

    async def newest_certifications(self) -> tuple[tuple[str, str], ...]:
        # A range, which the index serves; "not empty" would read all jobs.
        chosen = select(jobs.c.certifies, jobs.c.id).where(jobs.c.certifies > "")
        rows = await self._sql.fetch_all(chosen.order_by(jobs.c.submitted_at, jobs.c.id))
        newest = {market: job_id for market, job_id in rows}
        return tuple(sorted(newest.items()))
