"""What is PostgreSQL's own: durability, rules that hold for every client, a server that goes away at the worst time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import text

from autopilot.domain.errors import UserError
from autopilot.ports.store import CommitUnknown, ConstraintViolated, Store, StoreUnavailable
from autopilot.store.database import SqlStore, open_store
from tests.patience import eventually
from tests.pg import PostgresServer
from tests.pg_wire import Cut, wire
from tests.store_records import a_job, a_lease, an_entry


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[SqlStore]:
    opened = await open_store(postgres_url)
    yield opened
    await opened.close()


async def note(store: Store, key: str) -> str | None:
    async with store.snapshot() as work:
        return await work.notes.get(key)


async def write(store: Store, key: str, value: str = "written") -> None:
    async with store.transaction() as work:
        await work.notes.set(key, value)


async def test_every_connection_is_set_for_durability(store: SqlStore) -> None:
    async with store.connection() as writing, store.reading() as reading:
        for connection in (writing, reading):
            shown = {
                name: (await connection.execute(text(f"SHOW {name}"))).scalar_one()
                for name in ("synchronous_commit", "timezone", "idle_in_transaction_session_timeout")
            }
            assert shown == {
                "synchronous_commit": "on",
                "timezone": "UTC",
                "idle_in_transaction_session_timeout": "5min",
            }, "PATIENCE_S, as postgres._SESSION says here"
        isolation = (await reading.execute(text("SHOW transaction_isolation"))).scalar_one()
        assert isolation == "repeatable read"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET amount_nano = 0",
        "DELETE FROM ledger_entries WHERE id = 'e1'",
        "TRUNCATE ledger_entries CASCADE",
    ],
)
async def test_the_database_itself_refuses_to_change_an_entry(
    store: SqlStore, postgres_url: str, statement: str
) -> None:
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(a_lease(),)))
        await work.ledger.post([an_entry("e1", "1")])
    with psycopg.connect(postgres_url) as outside, pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
        outside.execute(statement)
    with pytest.raises(ConstraintViolated, match="append-only"):
        async with store.connection() as connection:
            await connection.execute(text(statement))
    async with store.snapshot() as work:
        assert await work.ledger.list_entries("lease-1") == (an_entry("e1", "1"),)


async def test_a_nul_in_what_a_market_says_does_not_stop_the_ledger(store: SqlStore) -> None:
    async with store.transaction() as work:
        await work.jobs.save(a_job(leases=(a_lease(host_id="a\0b"),)))
        lease = await work.leases.get("lease-1")
    assert lease is not None
    assert lease.host_id == "a\ufffdb"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://no_such_role@/{name}?host={host}", "role"),
        ("postgresql://postgres@/no_such_database?host={host}", "no_such_database"),
        ("postgresql://postgres@/{name}?host=/nonexistent", "connection"),
        ("postgresql://postgres:secret@127.0.0.1:1/{name}?connect_timeout=2", "connection"),
    ],
)
async def test_a_server_that_cannot_be_reached_is_told_without_the_password(
    postgres_server: PostgresServer, url: str, says: str
) -> None:
    with pytest.raises(StoreUnavailable, match=says) as raised:
        await open_store(url.format(name="postgres", host=postgres_server.socket_dir))
    assert "secret" not in str(raised.value)


async def test_somebody_elses_database_is_refused(postgres_server: PostgresServer) -> None:
    name = postgres_server.new_database()
    postgres_server.execute("CREATE TABLE photos (id int)", name)
    with pytest.raises(UserError, match=r"holds other tables \(photos\)"):
        await open_store(postgres_server.url(name))


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("53100", "the disk is full"),
        ("25006", "it is read-only"),
        ("58030", "input/output error"),
        ("57P01", "shutting"),
    ],
)
async def test_what_ails_the_server_is_told(store: SqlStore, state: str, says: str) -> None:
    async with store.connection() as connection:
        await connection.execute(
            text(
                "CREATE FUNCTION ail() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN RAISE EXCEPTION 'ailing' USING ERRCODE = '{state}'; END $$"
            )
        )
        await connection.execute(text("CREATE TRIGGER ail BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION ail()"))
    with pytest.raises(StoreUnavailable, match=says):
        await write(store, "key")


async def test_an_idle_transaction_releases_its_locks(store: SqlStore, postgres_server: PostgresServer) -> None:
    async def stand_still() -> None:
        async with store.transaction() as work:
            await work.notes.set("key", "never")
            (pid,) = await work.notes._sql.fetch_first(text("SELECT pg_backend_pid()")) or (0,)
            await work.notes._sql.run(text("SET LOCAL idle_in_transaction_session_timeout = '100ms'"))
            session = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"
            await eventually(lambda: postgres_server.execute(session) == [(0,)], "the end of the session")
            await work.notes.set("key", "too late")

    with pytest.raises(StoreUnavailable):
        await stand_still()
    await write(store, "key", "after")
    assert await note(store, "key") == "after"


@pytest.mark.slow
async def test_a_server_that_stops_and_starts_again(private_postgres: PostgresServer) -> None:
    store = await open_store(private_postgres.url())
    await write(store, "before")
    private_postgres.stop()
    with pytest.raises(StoreUnavailable):
        await write(store, "meanwhile")
    with pytest.raises(StoreUnavailable):
        await note(store, "before")
    private_postgres.start()
    await write(store, "after")
    assert [await note(store, key) for key in ("before", "meanwhile", "after")] == ["written", None, "written"]
    await store.close()


@pytest.mark.slow
async def test_a_server_that_is_killed_while_it_commits(private_postgres: PostgresServer) -> None:
    """A deferred trigger keeps the commit in the middle of its work until the server is gone."""
    store = await open_store(private_postgres.url())
    await write(store, "before")
    for statement in (
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(600); RETURN NULL; END $$",
        "CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION dawdle()",
    ):
        private_postgres.execute(statement)
    writing = asyncio.create_task(write(store, "intent"))
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep'"
    await eventually(lambda: private_postgres.execute(sleeping) != [(0,)], "a commit under way")
    private_postgres.kill()
    with pytest.raises(CommitUnknown, match="whose outcome is unknown"):
        await writing
    private_postgres.start()
    assert (await note(store, "before"), await note(store, "intent")) == ("written", None)
    await store.close()


@pytest.mark.parametrize(("cut", "found"), [("before", None), ("after", "written")])
async def test_a_connection_that_breaks_at_the_commit_leaves_both_possible(
    postgres_server: PostgresServer, postgres_url: str, cut: Cut, found: str | None
) -> None:
    """The network cuts it before the server hears of the commit, or after it committed and before we hear of that."""
    async with wire(postgres_server.socket_dir) as way:
        store = await open_store(way.url(postgres_url))
        await write(store, "before")
        way.cut_at_next_commit = cut
        with pytest.raises(CommitUnknown, match="whose outcome is unknown"):
            await write(store, "intent")
        assert await note(store, "before") == "written"
        assert await note(store, "intent") == found
        await write(store, "intent", "again")  # a replay is harmless
        assert await note(store, "intent") == "again"
        await store.close()
