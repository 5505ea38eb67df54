"""What every store keeps of certificates and of the certifications behind them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from autopilot.domain.certificate import Certificate, ClaimFinding, ClaimVerdict, StepMark
from autopilot.ports.store import ConstraintViolated, Store
from tests.store_records import START, a_job, forgotten, records

HOUR = timedelta(hours=1)


def a_certificate(job_id: str = "job-000001", **changes: Any) -> Certificate:
    made = Certificate(job_id, "vastai", "0123456789ab", "1.4", START, START + timedelta(days=30))
    return replace(made, **changes)


class WhatAStoreKeepsOfCertificates:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        certificate=records(Certificate, job_id="job-000001"),
        finding=records(ClaimFinding, job_id="job-000001", used_on="", account="", version=""),
        used=records(ClaimFinding, job_id="job-000001", used_on="runpod"),
        mark=records(StepMark, job_id="job-000001"),
    )
    async def test_they_come_back_equal(
        self, store: Store, certificate: Certificate, finding: ClaimFinding, used: ClaimFinding, mark: StepMark
    ) -> None:
        async with forgotten(store) as work:
            await work.jobs.save(a_job())
            await work.certificates.save(certificate)
            await work.certificates.save_findings([finding, used])
            await work.certificates.save_marks([mark])
            assert await work.certificates.list_newest() == (certificate,)
            assert await work.certificates.list_findings("job-000001") == (finding,)
            assert await work.certificates.list_findings_on("runpod") == (used,)
            assert await work.certificates.list_marks("job-000001") == (mark,)

    async def test_the_newest_of_each_market_counts(self, store: Store) -> None:
        later = a_certificate("job-000002", issued_at=START + HOUR)
        other = a_certificate("job-000003", provider="runpod")
        async with store.transaction() as work:
            for number, market in (("1", "vastai"), ("2", "vastai"), ("3", "runpod"), ("4", "")):
                job_id = f"job-00000{number}"
                await work.jobs.save(a_job(job_id, certifies=market, submitted_at=START + int(number) * HOUR))
            for certificate in (later, a_certificate(), other):
                await work.certificates.save(certificate)
        async with store.snapshot() as work:
            assert await work.certificates.list_newest() == (other, later)
            newest = await work.certificates.newest_certifications()
            assert newest == (("runpod", "job-000003"), ("vastai", "job-000002"))

    async def test_what_was_found_on_one_market_in_its_order(self, store: Store) -> None:
        later = ClaimFinding("job-000001", "own-id", ClaimVerdict.HELD, START + HOUR)
        first = ClaimFinding("job-000002", "own-id", ClaimVerdict.BROKEN, START)
        async with store.transaction() as work:
            for number, market in (("1", "vastai"), ("2", "vastai"), ("3", "runpod")):
                await work.jobs.save(a_job(f"job-00000{number}", certifies=market))
            await work.certificates.save_findings([later, first, replace(first, job_id="job-000003")])
        async with store.snapshot() as work:
            assert await work.certificates.list_findings_on("vastai") == (first, later)

    async def test_what_is_saved_again_takes_its_own_place(self, store: Store) -> None:
        finding = ClaimFinding("job-000001", "own-id", ClaimVerdict.BROKEN, START)
        accepted = replace(finding, accepted_at=START + HOUR)
        other = ClaimFinding("job-000001", "bid-is-paid", ClaimVerdict.HELD, START)
        begun = StepMark("job-000001", "rent", START)
        over = replace(begun, over_at=START + HOUR)
        ended = a_certificate(ended_at=START + HOUR, ended_because="drift")
        async with store.transaction() as work:
            await work.jobs.save(a_job())
            await work.certificates.save(a_certificate())
            await work.certificates.save_findings([finding, other])
            await work.certificates.save_marks([begun, StepMark("job-000001", "refusal", START - HOUR)])
        async with store.transaction() as work:
            await work.certificates.save(ended)
            await work.certificates.save_findings([accepted])
            await work.certificates.save_marks([over])
        async with store.snapshot() as work:
            assert await work.certificates.list_newest() == (ended,)
            assert await work.certificates.list_findings("job-000001") == (other, accepted)
            marks = await work.certificates.list_marks("job-000001")
            assert [mark.step for mark in marks] == ["refusal", "rent"]
            assert marks[1] == over
            assert await work.certificates.list_findings("job-000002") == ()

    async def test_of_what_use_showed_on_a_market_the_newest_is_kept_among_its_certifications(
        self, store: Store
    ) -> None:
        certified = ClaimFinding("job-000001", "own-id", ClaimVerdict.HELD, START + HOUR)
        by_use = ClaimFinding("job-000002", "own-id", ClaimVerdict.HELD, START, used_on="vastai", version="1.4")
        later = replace(by_use, job_id="job-000003", verdict=ClaimVerdict.BROKEN, at=START + 2 * HOUR)
        async with store.transaction() as work:
            await work.jobs.save(a_job("job-000001", certifies="vastai"))
            for job_id in ("job-000002", "job-000003"):
                await work.jobs.save(a_job(job_id))
            await work.certificates.save_findings([by_use, certified, replace(by_use, used_on="runpod")])
        async with store.snapshot() as work:
            assert await work.certificates.list_findings_on("vastai") == (by_use, certified)
        async with store.transaction() as work:
            await work.certificates.save_findings([later])
        async with store.snapshot() as work:
            assert await work.certificates.list_findings_on("vastai") == (certified, later)
            assert [each.job_id for each in await work.certificates.list_findings_on("runpod")] == ["job-000002"]
            assert await work.certificates.list_findings("job-000003") == ()

    async def test_a_certificate_of_nothing_is_refused(self, store: Store) -> None:
        with pytest.raises(ConstraintViolated):
            async with store.transaction() as work:
                await work.certificates.save(a_certificate("no-market"))
