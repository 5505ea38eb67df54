"""One leader at a time on a PostgreSQL server, and nothing written by the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from autopilot.domain.errors import UserError
from autopilot.ports.store import LeadershipLost, StoreUnavailable
from autopilot.service.leadership import INSTALL_ID_NOTE, id_from_a_server, shared_install_id
from autopilot.store import leader
from autopilot.store.database import SqlStore
from autopilot.store.leader import Lead, SharedLead, leading, set_apart
from tests.patience import PATIENCE_S, eventually
from tests.pg import PostgresServer


def shared(lead: Lead) -> SharedLead:
    assert lead.shared is not None
    return lead.shared


class Daemon:
    """Leads, or waits to."""

    def __init__(self, url: str) -> None:
        self.waits_for: list[str] = []
        self._stack = AsyncExitStack()
        self._starting = asyncio.create_task(
            self._stack.enter_async_context(leading(url, on_standby=self.waits_for.append))
        )

    async def leads(self) -> Lead:
        return await asyncio.shield(self._starting)

    async def waits(self) -> str:
        await eventually(lambda: self.waits_for, "a standby that waits")
        assert not self._starting.done()
        return self.waits_for[-1]

    async def stop(self) -> None:
        if not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})
        await self._stack.aclose()


@asynccontextmanager
async def daemons(url: str, count: int = 2) -> AsyncIterator[list[Daemon]]:
    """One after the other."""
    made: list[Daemon] = []
    try:
        for number in range(count):
            made.append(Daemon(url))
            await (made[-1].waits() if number else made[-1].leads())
        yield made
    finally:
        for daemon in reversed(made):
            await daemon.stop()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LOOK_EVERY_S", 0.05), ("RENEW_EVERY_S", 0.1), ("SILENT_AFTER_S", PATIENCE_S)):
        monkeypatch.setattr(leader, name, seconds)


def fall_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader no longer says that it is alive, but its sessions stay open. No other is unseated for being slow."""
    for task in asyncio.all_tasks():
        if task.get_name() == "leadership":
            task.cancel()
    monkeypatch.setattr(leader, "SILENT_AFTER_S", 0.5)


def database_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


async def test_the_second_waits_for_the_first_and_follows_it(postgres_url: str) -> None:
    async with daemons(postgres_url) as (first, second):
        lead = await first.leads()
        assert (shared(lead).fence.epoch, shared(lead).is_takeover) == (1, False)
        assert (await second.waits()).startswith("autopilot ")
        async with lead.store.transaction() as work:
            await work.notes.set("by", "first")
        await first.stop()
        following = await second.leads()
        assert (shared(following).fence.epoch, shared(following).is_takeover) == (2, False)
        assert shared(following).home == shared(lead).home
        async with following.store.snapshot() as work:
            assert await work.notes.get("by") == "first"


async def test_a_leader_that_dies_is_followed_at_once(postgres_server: PostgresServer, postgres_url: str) -> None:
    async with daemons(postgres_url) as (first, second):
        await first.leads()
        name = await second.waits()
        # All its sessions end together, as they do when the process is killed; its lock is free before it can return.
        for task in asyncio.all_tasks():
            if task.get_name() == "leadership":
                task.cancel()
        postgres_server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
        )
        following = await second.leads()
        assert (shared(following).fence.epoch, shared(following).is_takeover) == (2, True)


async def test_a_silent_leader_is_unseated_and_writes_nothing_when_it_wakes_up(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemons(postgres_url) as (first, second):
        lead = await first.leads()
        fall_silent(monkeypatch)

        async def write_for_long() -> None:
            async with lead.store.transaction() as work:
                await work.notes.set("by", "stale")
                await second.leads()

        with pytest.raises(StoreUnavailable):  # the server ended the session that held the epoch in its hand
            await write_for_long()
        for _ in range(2):
            with pytest.raises(LeadershipLost, match="another daemon leads"):
                async with lead.store.transaction() as work:
                    await work.notes.set("by", "stale")
            with pytest.raises(LeadershipLost):
                async with lead.store.snapshot():
                    pass
        assert shared(lead).fence.lost.is_set()
        following = await second.leads()
        assert (shared(following).fence.epoch, shared(following).is_takeover) == (2, True)
        async with following.store.snapshot() as work:
            assert await work.notes.get("by") is None


async def test_a_leader_learns_by_itself_that_it_was_followed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with daemons(postgres_url, 1) as (first,):
        fence = shared(await first.leads()).fence
        postgres_server.execute("UPDATE leader SET epoch = 7", database_of(postgres_url))
        await fence.lost.wait()


async def test_a_leader_that_lost_its_connections_continues_if_it_was_not_replaced(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with daemons(postgres_url, 1) as (first,):
        lead = await first.leads()
        database = database_of(postgres_url)
        renewed = "SELECT renewed_at FROM leader"
        before = postgres_server.execute(renewed, database)
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
        await eventually(lambda: postgres_server.execute(renewed, database) > before, "a renewal", every_s=0.05)
        async with lead.store.transaction() as work:
            await work.notes.set("still", "here")
        assert not shared(lead).fence.lost.is_set()
        second = Daemon(postgres_url)
        await second.waits()  # the lock is held again
        await second.stop()


async def test_a_leader_that_lost_its_lock_is_fenced_off_by_who_sets_the_ledger_apart(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "RENEW_EVERY_S", 60.0)
    async with daemons(postgres_url, 1) as (first,):
        lead = await first.leads()
        with pytest.raises(UserError, match="a daemon works on"):
            async with set_apart(postgres_url):
                pytest.fail("set apart beside a leader")
        holder = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        postgres_server.execute(holder)
        async with set_apart(postgres_url):
            with pytest.raises(LeadershipLost):
                async with lead.store.transaction() as work:
                    await work.notes.set("by", "stale")


async def test_all_daemons_on_one_server_share_an_identity_and_a_copy_has_none(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with leading(postgres_url, on_standby=print) as lead:
        home = shared(lead).home
        assert await shared_install_id(lead.store, "first111", home) == "first111"
        assert await shared_install_id(lead.store, "second22", home) == "first111"
    copy = postgres_server.new_database(database_of(postgres_url))
    async with leading(postgres_server.url(copy), on_standby=print) as lead:
        with pytest.raises(UserError, match="a copy of another"):
            await shared_install_id(lead.store, "first111", shared(lead).home)


async def test_a_file_says_the_id_that_it_had_on_a_server(store: SqlStore) -> None:
    assert await id_from_a_server(store) is None
    async with store.transaction() as work:
        await work.notes.set(INSTALL_ID_NOTE, "first222")
    assert await id_from_a_server(store) == "first222"


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_told_at_once(private_postgres: PostgresServer) -> None:
    private_postgres.stop()
    with pytest.raises(StoreUnavailable, match="connection"):
        async with leading(private_postgres.url(), on_standby=print):
            pytest.fail("led nothing")


@pytest.mark.slow
async def test_a_standby_outlives_a_restart_of_the_server(private_postgres: PostgresServer) -> None:
    async with daemons(private_postgres.url()) as (first, second):
        lead = await first.leads()
        private_postgres.stop()
        await asyncio.sleep(0.3)
        private_postgres.start()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    async with lead.store.transaction() as work:
                        await work.notes.set("after", "restart")
                    break
                except LeadershipLost:
                    break  # the standby was quicker, which is as good
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
        await first.stop()
        await second.leads()


@pytest.mark.slow
async def test_an_ordinary_role_is_enough(private_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It owns its database and has no other rights; it makes the schema, leads, and unseats one of its own."""
    for statement in ("CREATE ROLE autopilot LOGIN", "CREATE DATABASE ledger OWNER autopilot"):
        private_postgres.execute(statement)
    url = private_postgres.url("ledger").replace("postgres@", "autopilot@")
    async with daemons(url) as (first, second):
        await first.leads()
        fall_silent(monkeypatch)
        following = await second.leads()
        assert shared(following).is_takeover
