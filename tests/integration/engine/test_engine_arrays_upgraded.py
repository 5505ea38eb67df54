"""An upgrade while an array is at work: tasks run and are paused on machines of a ledger that knew no shared ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from autopilot.domain.job import JobStatus
from autopilot.domain.money import ZERO
from autopilot.store.migrate import alembic_config
from autopilot.store.schema import REVISION
from tests.integration.engine.engine_world import World, a_world
from tests.integration.engine.test_engine_arrays import (
    WIDE,
    an_array,
    read_statuses,
    runs_of,
    submit,
    tasks_of,
    until_ended,
)

BEFORE = "0025"
"""The last revision under which each task had a machine of its own."""


def take_back(ledger: Path) -> None:
    """Leave the ledger as that revision had it: without what later ones have added, and all else as it is."""
    before = ledger.with_name("before.db")
    migrate_to(BEFORE, before)
    with closing(sqlite3.connect(before)) as old, closing(sqlite3.connect(ledger)) as connection:
        columns_before, columns = columns_of(old), columns_of(connection)
        for kind in ("view", "trigger", "index"):  # an upgrade makes the views again
            kept = set() if kind == "view" else names_of(old, kind)
            for name in names_of(connection, kind) - kept:
                connection.execute(f"DROP {kind} {name}")
        for table in columns.keys() - columns_before.keys():
            connection.execute(f"DROP TABLE {table}")
        for table, known in columns_before.items():
            assert known <= columns[table], f"a later revision took columns from {table}: {known - columns[table]}"
            for name in columns[table] - known:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        connection.execute(f"UPDATE alembic_version SET version_num = '{BEFORE}'")
        connection.commit()


def migrate_to(revision: str, ledger: Path) -> None:
    scripts = list(ScriptDirectory.from_config(alembic_config()).iterate_revisions(revision, "base"))
    with create_engine(f"sqlite:///{ledger}").begin() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        with Operations.context(MigrationContext.configure(connection)):
            for script in reversed(scripts):
                script.module.upgrade()


def names_of(ledger: sqlite3.Connection, kind: str) -> set[str]:
    found = ledger.execute("SELECT name FROM sqlite_master WHERE type = ? AND sql IS NOT NULL", (kind,))
    return {name for (name,) in found}


def columns_of(ledger: sqlite3.Connection) -> dict[str, set[str]]:
    tables = names_of(ledger, "table")
    return {table: {row[1] for row in ledger.execute(f"PRAGMA table_info({table})")} for table in tables}


@pytest.mark.slow
async def test_tasks_that_run_and_are_paused_go_on_where_they_are_and_the_next_ones_share(tmp_path: Path) -> None:
    async with a_world(tmp_path, ledger_url=str(tmp_path / "ledger.db")) as world:
        world.agents.total_steps, world.agents.can_take_next, world.limits = 200, False, WIDE
        await world.restart()
        await world.tick()
        await submit(world, an_array("count = 6", "parallel = 2"))
        await until(world, JobStatus.RUNNING, JobStatus.RUNNING)
        first, second = await tasks_of(world)
        machines = [task.main for task in (first, second)]
        assert machines[0] is not None
        assert machines[1] is not None
        await world.fault("bid", "http_500", times=1)
        world.rival(machines[1], "1.05")
        await until(world, JobStatus.RUNNING, JobStatus.PAUSED)

        await world.stop()
        take_back(tmp_path / "ledger.db")
        await world.start()
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger:
            assert ledger.execute("SELECT version_num FROM alembic_version").fetchall() == [(REVISION,)]
        assert await read_statuses(world) == {0: JobStatus.RUNNING, 1: JobStatus.PAUSED}
        await until(world, JobStatus.RUNNING, JobStatus.RUNNING)
        went_on = [task.main for task in await tasks_of(world)]
        assert [lease and lease.id for lease in went_on] == [lease.id for lease in machines if lease]
        await until(world, JobStatus.SUCCEEDED, JobStatus.SUCCEEDED)
        world.agents.can_take_next = True
        await until_ended(world, JobStatus.SUCCEEDED)
        await world.until_settled()

        assert await runs_of(world) == [1] * 6
        tasks = await tasks_of(world)
        async with world.store.snapshot() as uow:
            leases = await uow.leases.list_by_jobs([task.id for task in tasks])
            days = await uow.ledger.sum_by_day([lease.id for lease in leases])
        posted = sum((sum(of_lease.values(), ZERO) for of_lease in days.values()), ZERO)
        assert sum((task.spent for task in tasks), ZERO) == posted > 0
        old = [lease for lease in leases if lease.id in {machine.id for machine in machines if machine}]
        assert len(old) == 2
        assert not any(lease.is_shared for lease in old), "agents of that version take one task"
        assert any(lease.is_shared for lease in leases)
        assert sum(len(lease.uses) for lease in leases) == 6


async def until(world: World, *statuses: JobStatus) -> None:
    """The first tasks stand so."""
    wanted = dict(enumerate(statuses))
    for _ in range(150):
        if dict(list((await read_statuses(world)).items())[: len(statuses)]) == wanted:
            return
        await world.tick()
    raise AssertionError(f"not {wanted}: {await read_statuses(world)}")
