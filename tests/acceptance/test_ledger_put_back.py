"""The daemon and its ledger are lost, and an older copy of the ledger is put back: the job goes on from its store."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autopilot.cli.client import Json
from autopilot_lab.demo.theatre import Theatre
from autopilot_lab.demo.verdict import Reference, checks
from tests.acceptance.stage import (
    a_theatre,
    command,
    first_tick,
    is_settled,
    job_text,
    market_events,
    show,
    submit,
    until,
)

pytestmark = pytest.mark.slow

STEPS = 6_000


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    """Permits outlast the watch of half an hour, as those of machines that nothing but we can end."""
    with a_theatre(settings={"AUTOPILOT_PERMIT__TTL": "3h"}) as made:
        made.start_market()
        made.start_daemon()
        yield made


def copied_ledger(theatre: Theatre) -> Path:
    copy = theatre.root / "copy.db"
    ledger = theatre.root / "daemon" / "ledger.db"
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def put_back(theatre: Theatre, copy: Path) -> None:
    theatre.kill_daemon()
    ledger = theatre.root / "daemon" / "ledger.db"
    for ending in ("-wal", "-shm"):
        ledger.with_name(ledger.name + ending).unlink(missing_ok=True)
    shutil.copy(copy, ledger)
    theatre.start_daemon()
    first_tick(theatre.client)


def saved(theatre: Theatre, job_id: str) -> Json | None:
    job = show(theatre, job_id)["job"]
    return dict(job) if job["status"] == "running" and job["checkpoint"] else None


def test_a_machine_that_the_copy_does_not_know_is_taken_back_with_its_work_and_its_cost(
    theatre: Theatre, tmp_path: Path
) -> None:
    reference = Reference(tmp_path, STEPS)
    theatre.emu("fault", {"on": "search", "kind": "http_503", "times": None})
    job_id = submit(theatre, job_text(STEPS))
    copy = copied_ledger(theatre)  # it knows the job, and no machine
    theatre.emu("faults", method="DELETE")
    before = until(lambda: saved(theatre, job_id), "a checkpoint")
    put_back(theatre, copy)
    assert show(theatre, job_id)["leases"] == []
    told = command(theatre, "ps")
    assert "machines of train that the ledger does not know" in told.stdout + told.stderr
    dry = command(theatre, "resume", "train", "--from-store", "--dry-run")
    assert before["main"]["id"] in dry.stdout, dry.stdout + dry.stderr
    done = command(theatre, "resume", "train", "--from-store", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr

    def is_back() -> Json | None:
        job = show(theatre, job_id)["job"]
        return dict(job) if job["status"] == "running" and job["main"] else None

    job = until(is_back, "the machine is the job's own again")
    assert job["main"]["id"] == before["main"]["id"]
    assert job["run_epoch"] > before["run_epoch"]
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the job is over and its bill is in")
    body = show(theatre, job_id)
    failed = [check for check in checks(theatre, body["job"], reference) if not check.holds]
    assert not failed, f"{failed}; events {[event['name'] for event in body['events']]}"
    made = Counter(event["label"] for event in market_events(theatre, "instance.created"))
    assert set(made.values()) == {1}
    assert len(made) == 1, "never a second machine"
