"""Links and sessions of the page: good once, for so long, and after a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autopilot.api.bearer import hash_token
from autopilot.api.page_sessions import (
    LINK_GOOD_FOR,
    MOST_OF_AN_OWNER,
    MOST_SESSIONS,
    SESSION_GOOD_FOR,
    PageSessions,
)
from autopilot.clock import ManualClock
from autopilot.domain.errors import UserError
from autopilot.domain.token import PageSession

START = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Told:
    """What the listener knows."""

    def __init__(self) -> None:
        self.sha256s: set[str] = set()
        self._changed = asyncio.Event()

    async def __call__(self, sha256s: Collection[str]) -> None:
        self.sha256s = set(sha256s)
        self._changed.set()

    async def until(self, sha256s: Collection[str]) -> None:
        while self.sha256s != set(sha256s):
            self._changed.clear()
            await self._changed.wait()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def sessions(tmp_path: Path, clock: ManualClock, told: Told) -> PageSessions:
    return PageSessions(tmp_path / "logins.json", clock, told)


def known(sessions: PageSessions, secret: str) -> PageSession:
    found = sessions.find(hash_token(secret))
    assert found is not None
    return found


async def test_a_link_becomes_a_session_once(sessions: PageSessions, told: Told) -> None:
    link = await sessions.invite(1000, "t" * 64)
    assert told.sha256s == {hash_token(link)}
    secret, session = await sessions.enter(known(sessions, link))
    assert (session.owner, session.token_sha256, session.is_link) == (1000, "t" * 64, False)
    assert session.expires_at == START + SESSION_GOOD_FOR
    assert sessions.find(hash_token(link)) is None
    assert told.sha256s == {hash_token(secret)}
    await sessions.end(session)
    assert sessions.find(hash_token(secret)) is None
    assert told.sha256s == set()
    sessions.close()


async def test_each_ends_in_its_time_and_the_listener_hears_of_it(
    sessions: PageSessions, clock: ManualClock, told: Told
) -> None:
    secret, _ = await sessions.enter(known(sessions, await sessions.invite(0, "")))
    link = await sessions.invite(0, "")
    await asyncio.sleep(0)  # the task that waits for the first end begins
    clock.advance(LINK_GOOD_FOR.total_seconds())
    assert sessions.find(hash_token(link)) is None
    await told.until({hash_token(secret)})
    await asyncio.sleep(0)
    clock.advance((SESSION_GOOD_FOR - LINK_GOOD_FOR - timedelta(seconds=1)).total_seconds())
    assert known(sessions, secret).owner == 0
    clock.advance(1)
    assert sessions.find(hash_token(secret)) is None
    await told.until(())


async def test_a_restart_keeps_them_and_no_secret_is_in_the_file(
    tmp_path: Path, clock: ManualClock, told: Told, sessions: PageSessions
) -> None:
    secret, session = await sessions.enter(known(sessions, await sessions.invite(7, "")))
    sessions.close()
    path = tmp_path / "logins.json"
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    again = PageSessions(path, clock, told)
    await again.open()
    assert known(again, secret) == session
    assert told.sha256s == {hash_token(secret)}
    again.close()


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"sha256": "a"}]', json.dumps([{"expires_at": "never"}])])
async def test_an_unreadable_file_holds_no_sessions(tmp_path: Path, clock: ManualClock, told: Told, text: str) -> None:
    path = tmp_path / "logins.json"
    path.write_text(text)
    sessions = PageSessions(path, clock, told)
    await sessions.open()
    assert told.sha256s == set()


async def let_in(sessions: PageSessions, owner: int) -> str:
    return (await sessions.enter(known(sessions, await sessions.invite(owner, ""))))[0]


def is_good(sessions: PageSessions, secret: str) -> bool:
    return sessions.find(hash_token(secret)) is not None


async def test_an_owner_has_so_many_links_and_they_end_no_session(sessions: PageSessions, told: Told) -> None:
    """A token that may only read asked for 210 links, and everybody's page ended."""
    others, own = await let_in(sessions, 1000), await let_in(sessions, -1)
    waiting = await sessions.invite(1000, "")
    links = [await sessions.invite(-1, "") for _ in range(MOST_SESSIONS + 10)]
    assert all(is_good(sessions, secret) for secret in (others, own, waiting))
    assert [is_good(sessions, link) for link in links[-MOST_OF_AN_OWNER - 1 :]] == [False, *[True] * MOST_OF_AN_OWNER]
    assert len(told.sha256s) == MOST_OF_AN_OWNER + 3
    sessions.close()


async def test_an_owner_has_so_many_sessions_and_the_oldest_of_them_makes_room(sessions: PageSessions) -> None:
    other = await let_in(sessions, 1000)
    mine = [await let_in(sessions, -1) for _ in range(MOST_OF_AN_OWNER + 1)]
    assert [is_good(sessions, secret) for secret in (other, *mine[:2])] == [True, False, True]
    sessions.close()


@pytest.mark.slow
async def test_at_the_limit_the_oldest_session_of_the_owner_with_the_most_ends(sessions: PageSessions) -> None:
    single = await let_in(sessions, 1000)
    many = [await let_in(sessions, -owner) for owner in range(1, 11) for _ in range(MOST_OF_AN_OWNER)]
    assert len(many) == MOST_SESSIONS
    assert is_good(sessions, single)
    assert [is_good(sessions, secret) for secret in many[:2]] == [False, True]
    assert sum(is_good(sessions, secret) for secret in many) == MOST_SESSIONS - 1
    sessions.close()


async def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, clock: ManualClock, told: Told) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        await PageSessions(tmp_path / "none" / "logins.json", clock, told).invite(0, "")
