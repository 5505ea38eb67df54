"""check, upgrade, backup, export and move, on files and on servers."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import os
import signal
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from autopilot.domain.actions import Note
from autopilot.domain.certificate import LASTS, Certificate, ClaimFinding, ClaimVerdict, StepMark
from autopilot.domain.code import CodeCopy
from autopilot.domain.drift import Drift, DriftKind
from autopilot.domain.errors import UserError
from autopilot.domain.hosts import HostRecord
from autopilot.domain.instance import CostKind, InstanceStatus
from autopilot.domain.job_forecast import JobForecast
from autopilot.domain.lease import LeaseState, TaskUse
from autopilot.domain.prices import PriceObservation
from autopilot.domain.readings import MachineReading
from autopilot.domain.token import Scope, Token
from autopilot.ports.store import BidRecord, DecisionRecord, EventRecord, KeptAnswer, PendingNotice
from autopilot.store import care, postgres, transfer
from autopilot.store.database import open_store, unopened_store
from autopilot.store.health import examine
from autopilot.store.leader import leading
from autopilot.store.schema import REVISION
from autopilot.store.transfer import TABLES, Fingerprint, fingerprints
from tests.contract.store_schedules import a_schedule
from tests.permissions import kept_out
from tests.pg import PostgresServer
from tests.store_records import START, a_checkpoint, a_job, a_lease, an_entry
from tests.variants import first_of

Places = Callable[[str], str]


@pytest.fixture
def places(postgres_server: PostgresServer, postgres_template: str, tmp_path: Path) -> Iterator[Places]:
    """URLs of ledgers that do not exist yet (a file) or are empty (a server)."""
    databases: list[str] = []
    numbers = itertools.count()

    def a_place(kind: str) -> str:
        if kind == "sqlite":
            return str(tmp_path / f"ledger-{next(numbers)}.db")
        databases.append(postgres_server.new_database(postgres_template))
        return postgres_server.url(databases[-1])

    yield a_place
    for name in databases:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(kind: str, places: Places) -> str:
    """A ledger with something in every table that a daemon fills."""
    made = places(kind)
    await fill(made)
    return made


async def fill(url: str) -> None:
    lease = a_lease(instance_id="7").bill_as(InstanceStatus.RUNNING, Decimal("0.31"), Decimal("0.002"), START)
    note = Note("floor", (("usd", Decimal("1.10")), ("n", 1), ("x", 1.5), ("text", "ü"), ("none", None)))
    store = await open_store(url)
    async with store.transaction() as work:
        gone = a_lease("gone", state=LeaseState.GONE, uses=(TaskUse("job-000001", START, START),))
        await work.jobs.save(a_job(leases=(lease, gone)))
        await work.jobs.keep_table("job-000001", "LR\n0.1\n")
        await work.leases.save(a_lease("orphan", None))
        await work.checkpoints.add(a_checkpoint(3))
        await work.bids.save(BidRecord("b1", "lease-1", START, Decimal("0.31"), "done", "d1"))
        await work.ledger.post([an_entry("e1", "1.000000001"), an_entry("e2", "-0.5", corrects="e1", type="adjust")])
        await work.ledger.post([an_entry("e3", "2", kind=CostKind.BANDWIDTH)])
        await work.decisions.add(DecisionRecord("d1", "job-000001", START, (note,), (), (note,)))
        await work.events.add(EventRecord(START, f"e.{n}", "job-000001", None, (("n", n),)) for n in range(2500))
        await work.prices.add([PriceObservation("vastai", "m1", "RTX 4090", 1, Decimal("0.2"), None, START)])
        await work.notes.set("key", "value")
        await work.code_copies.save(CodeCopy("copy", 1000, "a" * 64, 3, 2700, 1, 400, START))
        await work.hosts.save([HostRecord("vastai", "m", "h", "RTX 4090", START, launches=1.5)])
        await work.machine_readings.add([MachineReading("lease-1", START, 0.97, 0.875, 12 << 30, 3.1, 0.5)])
        drift = Drift("vastai", "instance", "dph_base", DriftKind.TYPE, True, True, 3, START, START, "text")
        await work.drifts.save([drift])
        spent, mean, p10, p50, p90 = (Decimal(cents) / 100 for cents in (50, 125, 100, 120, 150))
        await work.forecasts.save(
            JobForecast("job-000001", START, spent, mean, p10, p50, p90, START, START, START, 0.9, 1.0, 0.0, 0.5)
        )
        await work.tokens.save(Token(1, "ci", "a" * 64, Scope.READ, False, ("hf",), START, None))
        await work.schedules.save(a_schedule())
        await work.schedules.keep_table("schedule-1", "LR\n0.1\n")
        await work.answers.add(KeptAnswer(1000, "k", "a" * 64, START, 201, "{}"))
        await work.notices.save([PendingNotice("i", "team", "job_failed", START, "job-000001", None, "t", "x", START)])
        await work.certificates.save(Certificate("job-000001", "vastai", "account", "0.1", START, START + LASTS))
        certified = ClaimFinding("job-000001", "claim", ClaimVerdict.HELD, START)
        by_use = ClaimFinding("job-000001", "claim", ClaimVerdict.HELD, START, used_on="vastai")
        await work.certificates.save_findings([certified, by_use])
        await work.certificates.save_marks([StepMark("job-000001", "rent", START)])
    await store.close()


async def contents(url: str) -> list[Fingerprint]:
    store = unopened_store(url)
    async with store.reading() as connection:
        found = await fingerprints(connection)
    await store.close()
    return found


async def test_a_whole_ledger_passes_every_check(url: str) -> None:
    found = await examine(url)
    # The tests' server does not wait for its disk, and is told so.
    assert [(each.name, each.ok) for each in found if each.name != "database"] == [
        (name, True) for name in ("schema", "objects", "references", "sums") if name != "references" or "://" not in url
    ]
    assert found[0].ok is (None if "://" in url else True)


async def test_a_check_finds_what_is_wrong(url: str, kind: str, postgres_server: PostgresServer) -> None:
    trigger = "ledger_entries_refuse_delete" if kind == "sqlite" else "ledger_entries_refuse ON ledger_entries"
    execute(url, postgres_server, f"DROP TRIGGER {trigger}")
    execute(url, postgres_server, "UPDATE spend_daily SET amount_nano = amount_nano + 1")
    found = {each.name: each for each in await examine(url)}
    assert (found["objects"].ok, found["sums"].ok) == (False, False)
    assert "ledger_entries_refuse" in found["objects"].detail
    assert "rolled up" in found["sums"].detail
    await care.upgrade(url)
    assert {each.name: each.ok for each in await examine(url)}["sums"] is True


@pytest.mark.slow
async def test_a_check_of_a_ledger_of_a_newer_program(url: str, postgres_server: PostgresServer) -> None:
    execute(url, postgres_server, "UPDATE alembic_version SET version_num = '9999'")
    found = await examine(url)
    assert [(each.name, each.ok) for each in found][1:] == [("schema", False)]
    for refused in (care.upgrade(url), care.export(url, Path("/nonexistent/file")), leads(url)):
        with pytest.raises(UserError, match=r"9999|cannot be written"):
            await refused


async def test_a_ledger_that_does_not_exist_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    (found,) = await examine(str(path))
    assert (found.ok, found.detail) == (None, f"{path} will be made at the first start")
    for asked in (care.back_up(str(path), tmp_path / "b"), care.move(str(path), str(tmp_path / "other.db"))):
        with pytest.raises(UserError, match="there is no ledger"):
            await asked
    assert os.listdir(tmp_path) == []


async def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    await fill(str(path))
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    data[8192:40960] = os.urandom(40960 - 8192)
    path.write_bytes(data)
    found = await examine(str(path))
    assert found[0].ok is False


@pytest.mark.slow
async def test_a_backup_is_the_ledger_of_one_moment_while_it_is_written(url: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    store = await open_store(url)
    async with store.transaction() as work:
        await work.notes.set("in", "flight")
        await care.back_up(url, file)
    await store.close()
    backup = {each.table: each for each in await contents(str(file))}
    now = {each.table: each for each in await contents(url)}
    assert backup["notes"].rows == now["notes"].rows - 1
    assert all(backup[name] == now[name] for name in now if name != "notes")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {each.ok for each in await examine(str(file))} == {True}
    with pytest.raises(UserError, match="already exists"):
        await care.back_up(url, file)


@pytest.mark.parametrize("name", ["led#ger.db", "led?ger.db", "a?mode=memory#b.db", "50%20 ü.db"])
async def test_a_backup_is_of_the_ledger_under_any_file_name(tmp_path: Path, name: str) -> None:
    path, file = tmp_path / name, tmp_path / "backup.db"
    await (await open_store(str(path))).close()
    execute(str(path), None, "INSERT INTO notes (key, value) VALUES ('key', 'value')")
    await care.back_up(str(path), file)
    assert execute(str(file), None, "SELECT key, value FROM notes") == [("key", "value")]
    assert {each.ok for each in await examine(str(file))} == {True}
    assert all(left.startswith((name, "backup.db")) for left in os.listdir(tmp_path))


async def test_a_ledger_that_may_not_be_looked_at_is_no_missing_one(tmp_path: Path) -> None:
    path, file = tmp_path / "closed/ledger.db", tmp_path / "backup.db"
    path.parent.mkdir()
    await (await open_store(str(path))).close()
    with kept_out(path.parent):
        (found,) = await examine(str(path))
        with pytest.raises(UserError, match=f"the ledger {path} cannot be read: Permission denied"):
            await care.move(str(path), str(tmp_path / "other.db"))
        with pytest.raises(UserError, match=f"the ledger {path} cannot be read"):
            async with care.ledger_as_it_is(str(path)):
                pytest.fail("read what may not be looked at")
        with pytest.raises(UserError, match=f"{path.parent}/backup.db cannot be written: Permission denied"):
            await care.back_up(str(path), path.parent / "backup.db")
    assert (found.name, found.ok, found.detail) == ("database", False, f"{path}: Permission denied")
    assert found.hint == "run it as the daemon's user, or with sudo"
    assert not file.exists()


async def test_a_backup_that_fails_leaves_no_file(url: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        await care.back_up(url, tmp_path / "absent" / "backup.db")
    assert not [name for name in os.listdir(tmp_path) if "backup" in name or name == "absent"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ledger.jsonl", "ledger.jsonl.gz"])
async def test_an_export_holds_every_row(url: str, tmp_path: Path, name: str) -> None:
    counts = await care.export(url, tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    lines = [json.loads(line) for line in (gzip.decompress(raw) if name.endswith("gz") else raw).splitlines()]
    assert lines[0] == {"ledger": "autopilot", "schema": REVISION}
    assert counts == {each.table: each.rows for each in await contents(url)}
    assert len(lines) == 1 + sum(counts.values())
    entry = next(line["row"] for line in lines[1:] if line["row"].get("id") == "e1")
    assert (entry["amount_nano"], entry["day"], entry["posted_at"]) == (
        1_000_000_001,
        "2026-11-20",
        "2026-11-20T09:30:00.000000Z",
    )
    (decision,) = [line["row"] for line in lines[1:] if line["table"] == "decisions"]
    assert decision["actions"][0][0] == "floor"


@pytest.mark.slow
@pytest.mark.parametrize("target", first_of(("postgresql", "sqlite")))
async def test_a_move_takes_every_row_along_and_back(
    url: str, target: str, places: Places, postgres_server: PostgresServer
) -> None:
    before = await contents(url)
    assert [each.table for each in before if not each.rows] == ["invoice_lines"]
    there = places(target)
    assert await care.move(url, there) == before
    assert await contents(there) == before == await contents(url)
    assert {each.name: each.ok for each in await examine(there)}["sums"] is True
    store = await open_store(there)
    async with store.transaction() as work:
        await work.events.add([EventRecord(START, "after.move", None, None)])
        newest = (await work.events.list_after(2400))[-1]
        assert (newest.name, newest.seq) == ("after.move", 2501)
        (job,) = await work.jobs.list_open()
        assert job.spent == Decimal("2.500000001")
    await store.close()
    back = places("sqlite")
    await care.move(there, back)
    assert [each.rows for each in await contents(back)] == [each.rows + (each.table == "events") for each in before]


@pytest.mark.slow
async def test_a_move_is_refused_where_something_is_already_or_a_daemon_works(url: str, places: Places) -> None:
    full = places("sqlite")
    await fill(full)
    with pytest.raises(UserError, match="not empty"):
        await care.move(url, full)
    with pytest.raises(UserError, match="already exists"):
        await care.move(url, url)
    for working in (url, places("postgresql"), places("sqlite")):
        async with leading(working, on_standby=print):
            other = places("sqlite")
            with pytest.raises(UserError, match="daemon"):
                await (care.move(working, other) if working == url else care.move(url, working))
            if working == url:
                with pytest.raises(UserError, match="daemon"):
                    await care.upgrade(url)


@pytest.mark.slow
async def test_a_copy_that_differs_is_not_kept(url: str, places: Places, postgres_server: PostgresServer) -> None:
    there = places("postgresql")
    execute(
        there,
        postgres_server,
        "CREATE FUNCTION twist() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.value = 'other'; RETURN NEW; END $$;"
        " CREATE TRIGGER twist BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION twist()",
    )
    with pytest.raises(UserError, match="the copy of notes differs"):
        await care.move(url, there)
    assert {each.rows for each in await contents(there)} == {0}


@contextmanager
def read_back_slowly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For longer than a server lets anybody idle within a transaction, which is three seconds meanwhile."""

    async def slowly(connection: AsyncConnection) -> list[Fingerprint]:
        await asyncio.sleep(3.5)
        return await fingerprints(connection)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(transfer, "fingerprints", slowly)
        meanwhile.setitem(postgres._SESSION, "idle_in_transaction_session_timeout", "3s")
        yield


@pytest.mark.parametrize(("origin", "target"), [("postgresql", "sqlite"), ("sqlite", "postgresql")])
@pytest.mark.slow
async def test_a_copy_that_takes_long_is_not_cut_off_by_the_server(
    origin: str, target: str, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The side that waits idles within its transaction for longer than the server lets anybody else."""
    url, there = places(origin), places(target)
    await fill(url)
    before = await contents(url)

    with read_back_slowly(monkeypatch):
        moved = await care.move(url, there)
    assert moved == before
    assert await contents(there) == before


@pytest.mark.slow
async def test_a_backup_that_takes_long_is_not_cut_off_by_the_server(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = places("postgresql"), tmp_path / "backup.db"
    await fill(url)

    with read_back_slowly(monkeypatch):
        await care.back_up(url, file)
    assert await contents(str(file)) == await contents(url)


@pytest.mark.slow
async def test_a_move_that_is_killed_is_simply_done_again(places: Places) -> None:
    url, there = places("sqlite"), places("postgresql")
    await fill(url)
    program = """
import asyncio, os, signal, sys
from autopilot.store import care, transfer

async def die(connection):
    os.kill(os.getpid(), signal.SIGKILL)

transfer._carry_on_counting = die  # everything is written and nothing is committed
asyncio.run(care.move(sys.argv[1], sys.argv[2]))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, url, there)
    assert await process.wait() == -signal.SIGKILL
    assert {each.rows for each in await contents(there)} == {0}
    assert await care.move(url, there) == await contents(url)


def test_every_table_but_the_leader_s_is_carried_along() -> None:
    assert {table.name for table in TABLES} >= {"jobs", "leases", "ledger_entries", "events", "notes"}
    assert "leader" not in {table.name for table in TABLES}


async def leads(url: str) -> None:
    async with leading(url, on_standby=print):
        pass


def execute(url: str, server: PostgresServer | None, statement: str) -> list[Any]:
    """``server``: None if the ledger is a file."""
    if server is not None and "://" in url:
        return server.execute(statement, url.partition("@/")[2].partition("?")[0])
    with sqlite3.connect(url) as connection:
        return connection.execute(statement).fetchall()
