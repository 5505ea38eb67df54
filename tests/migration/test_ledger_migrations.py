"""Opening a ledger: what is made, what is left as it was, what is refused."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.pool import Pool

from autopilot.domain.errors import UserError
from autopilot.ports.store import StoreUnavailable
from autopilot.store.database import open_store
from autopilot.store.migrate import alembic_config
from autopilot.store.schema import REVISION
from autopilot.store.triggers import TRIGGERS
from autopilot.store.views import VIEWS


@pytest.fixture
async def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    await (await open_store(str(path))).close()
    return path


def objects(path: Path, kind: str) -> dict[str, str]:
    """SQL by name, as SQLite keeps it."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = ? AND sql IS NOT NULL", (kind,))
        return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}


def test_the_newest_migration_is_the_schemas_revision() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [REVISION]


def test_views_and_triggers_are_made(ledger: Path) -> None:
    assert set(objects(ledger, "view")) == set(VIEWS)
    assert set(objects(ledger, "trigger")) == set(TRIGGERS["sqlite"])
    assert {"ledger_entries_refuse_update", "ledger_entries_refuse_delete", "ledger_entries_keep_first"} < set(
        objects(ledger, "trigger")
    )


async def test_opening_again_changes_nothing(ledger: Path) -> None:
    store = await open_store(str(ledger))
    async with store.transaction() as work:
        await work.notes.set("install_id", "kept")
    await store.close()
    before = objects(ledger, "table")
    store = await open_store(str(ledger))
    async with store.snapshot() as work:
        assert await work.notes.get("install_id") == "kept"
    await store.close()
    assert objects(ledger, "table") == before


async def test_a_ledger_of_a_newer_program_is_refused_untouched(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UserError, match=f"schema 9999, this one knows {REVISION}"):
        await open_store(str(ledger))
    assert sqlite3.connect(ledger).execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)


async def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY)")
    with pytest.raises(UserError, match=r"holds other tables \(photos\), not a ledger"):
        await open_store(str(path))
    assert set(objects(path, "table")) == {"photos"}


async def test_an_interrupted_start_leaves_nothing_and_is_made_good(tmp_path: Path) -> None:
    """A full disk strikes in the middle; then there is room again."""
    path = tmp_path / "ledger.db"

    def shrink(connection: Any, *_: object) -> None:
        connection.cursor().execute("PRAGMA max_page_count = 12")

    event.listen(Pool, "checkout", shrink)
    try:
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            await open_store(str(path))
    finally:
        event.remove(Pool, "checkout", shrink)
    assert objects(path, "table") == {}
    await (await open_store(str(path))).close()
    assert "ledger_entries" in objects(path, "table")


@pytest.mark.slow
def test_alembic_is_not_loaded_when_there_is_nothing_to_do(ledger: Path) -> None:
    program = """
import asyncio, sys
from autopilot.store.database import open_store

async def main():
    await (await open_store(sys.argv[1])).close()

asyncio.run(main())
print("alembic" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program, str(ledger)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
