"""What ``doctor`` says of a ledger that is older than what the store holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.job import JobStatus
from autopilot.engine.rental_notes import RentalNotes
from autopilot.service.doctor import check_behind
from autopilot.store.database import open_store
from tests.store_records import a_job, a_lease


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "autopilot.toml"
    path.write_text(f'state_dir = "{tmp_path / "state"}"\n')
    (tmp_path / "state").mkdir(mode=0o700)
    return load_settings(path)


async def test_a_job_of_whose_machines_the_store_knows_more_is_named_with_the_command(settings: Settings) -> None:
    blobs = LocalBlobStore(MailboxPlace(settings.mailbox_dir).objects, b"key", "http://127.0.0.1:1")
    first, second = a_lease(), a_lease("lease-2")
    job = a_job(status=JobStatus.RUNNING, leases=(first,))
    store = await open_store(settings.ledger_url)
    try:
        async with store.transaction() as uow:
            await uow.jobs.save(job)
        await RentalNotes(blobs).keep([job])
        assert await check_behind(settings) == []
        await RentalNotes(blobs).keep([replace(job, leases=(second,))])
        (check,) = await check_behind(settings)
        assert (check.name, check.ok) == ("store", False)
        assert "machines of train that the ledger does not know" in check.detail
        assert "autopilot resume train --from-store" in check.hint
    finally:
        await store.close()


async def test_before_the_first_start_there_is_nothing_to_compare(settings: Settings) -> None:
    assert await check_behind(settings) == []
