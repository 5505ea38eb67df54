"""Certificates of markets, and what the certifications behind them saw, in memory."""

from __future__ import annotations

from collections.abc import Iterable

from autopilot.domain.certificate import Certificate, ClaimFinding, StepMark
from autopilot_lab.memory_store.access import MemoryRepository
from autopilot_lab.memory_store.leases import require


class MemoryCertificates(MemoryRepository):
    __slots__ = ()

    async def save(self, certificate: Certificate) -> None:
        with self._access.write() as tables:
            tables.certificates.put(certificate.job_id, certificate)

    async def list_newest(self) -> tuple[Certificate, ...]:
        every = sorted(self._access.read().certificates.values(), key=lambda each: (each.issued_at, each.job_id))
        newest = {each.provider: each for each in every}
        return tuple(newest[name] for name in sorted(newest))

    async def save_findings(self, findings: Iterable[ClaimFinding]) -> None:
        with self._access.write() as tables:
            for finding in findings:
                rows = tables.use_findings if finding.used_on else tables.findings
                rows.put((finding.used_on or finding.job_id, finding.claim), finding)

    async def list_findings(self, job_id: str) -> tuple[ClaimFinding, ...]:
        found = (each for each in self._access.read().findings.values() if each.job_id == job_id)
        return tuple(sorted(found, key=lambda each: each.claim))

    async def list_findings_on(self, market: str) -> tuple[ClaimFinding, ...]:
        tables = self._access.read()
        seen = [each for each in tables.findings.values() if require(tables.jobs.get(each.job_id)).certifies == market]
        used = (each for each in tables.use_findings.values() if each.used_on == market)
        return tuple(sorted((*seen, *used), key=lambda each: (each.at, each.claim)))

    async def save_marks(self, marks: Iterable[StepMark]) -> None:
        with self._access.write() as tables:
            for mark in marks:
                tables.marks.put((mark.job_id, mark.step), mark)

    async def list_marks(self, job_id: str) -> tuple[StepMark, ...]:
        found = (each for each in self._access.read().marks.values() if each.job_id == job_id)
        return tuple(sorted(found, key=lambda each: (each.begun_at, each.step)))

    async def newest_certifications(self) -> tuple[tuple[str, str], ...]:
        tables = self._access.read()
        jobs = (require(tables.jobs.get(job_id)) for job_id in tables.certifications)
        asked = sorted((job.submitted_at, job.id, job.certifies) for job in jobs)
        return tuple(sorted({market: job_id for _, job_id, market in asked}.items()))
