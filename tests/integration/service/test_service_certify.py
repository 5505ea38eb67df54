"""What ``doctor`` says of certificates of real markets, from the ledger alone; and the routes of certifications."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.config.settings import LedgerSettings, LimitsSettings, ProviderSettings, Settings
from autopilot.domain.certificate import Certificate, ClaimFinding, ClaimVerdict
from autopilot.service.certificates import examine_certificates, minor_version
from autopilot.store.database import open_store
from tests.store_records import a_job


def settings(tmp_path: Path) -> Settings:
    markets = {"vastai": ProviderSettings(), "runpod": ProviderSettings(base_url="http://127.0.0.1:1")}
    return Settings(state_dir=tmp_path, ledger=LedgerSettings(url=str(tmp_path / "ledger.db")), providers=markets)


async def issue(tmp_path: Path, ends_in: timedelta, *, version: str = "", verdict: ClaimVerdict | None = None) -> None:
    now = datetime.now(UTC)
    made = Certificate("job-000001", "vastai", "an account", version or minor_version(), now, now + ends_in)
    store = await open_store(str(tmp_path / "ledger.db"))
    async with store.transaction() as uow:
        await uow.jobs.save(a_job(certifies="vastai"))
        await uow.certificates.save(made)
        if verdict is not None:
            await uow.certificates.save_findings([ClaimFinding("job-000001", "own-id", verdict, now)])
    await store.close()


async def test_a_ledger_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    assert await examine_certificates(settings(tmp_path)) == {"vastai": (None, "none valid (missing)")}


async def test_what_is_spent_of_the_allowance_without_one_is_said(tmp_path: Path) -> None:
    await issue(tmp_path, timedelta(days=-1))
    limited = settings(tmp_path).model_copy(update={"limits": LimitsSettings(uncertified=Decimal(5))})
    found = await examine_certificates(limited)
    told = "none valid (expired): $0.00 of the $5.00 of limits.uncertified are spent, one machine at a time"
    assert found == {"vastai": (None, told)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends_in", "version", "verdict", "ok", "words"),
    [
        (timedelta(days=20), "", None, True, "valid until"),
        (timedelta(days=20), "", ClaimVerdict.HELD, True, "valid until"),
        (timedelta(days=6), "", None, None, "which is soon"),
        (timedelta(days=-1), "", None, None, "none valid (expired)"),
        (timedelta(days=20), "0.0", None, None, "none valid (other version)"),
        (timedelta(days=20), "", ClaimVerdict.BROKEN, False, "claims that do not hold: own-id"),
    ],
)
async def test_what_doctor_says_of_one(
    tmp_path: Path, ends_in: timedelta, version: str, verdict: ClaimVerdict | None, ok: bool | None, words: str
) -> None:
    await issue(tmp_path, ends_in, version=version, verdict=verdict)
    found = await examine_certificates(settings(tmp_path))
    assert found.keys() == {"vastai"}
    assert found["vastai"][0] is ok
    assert words in found["vastai"][1]
