"""Fragments that move: made once for all who see the same, sent when they have changed, and what is said of silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from autopilot.answers.pages import PageCaller
from autopilot.domain.token import Scope
from autopilot.web.daemon_source import DaemonSilent, DaemonSource, SessionEnded
from autopilot.web.live import STREAMS_OF_AN_OWNER, Fragment, LiveFragments, Reader, TooManyStreams
from tests.patience import PATIENCE_S

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LOOK_S = 0.01
LONG_S = PATIENCE_S


class Daemon:
    """What a daemon would answer: when it ticked last, or silence."""

    def __init__(self) -> None:
        self.tick = 1
        self.error: Exception | None = None
        self.made = 0
        self.shown = "first"

    async def ask(self) -> DaemonSource:
        if self.error is not None:
            raise self.error
        link: Any = None
        login: Any = "secret"
        me = PageCaller(
            owner=1,
            name="",
            scope=Scope.READ,
            sees_all=False,
            expires_at=None,
            now=NOW,
            speed=1,
            last_tick_at=NOW + timedelta(seconds=self.tick),
            version="",
        )
        return DaemonSource(link, login, me)

    async def build(self, _: DaemonSource) -> Any:
        self.made += 1
        return self.shown


def follow(
    live: LiveFragments,
    daemon: Daemon,
    *,
    owner: int = 1,
    known: str = "",
    key: str = "now",
    ask: Callable[[], Awaitable[DaemonSource]] | None = None,
    within_s: float = LONG_S,
) -> AsyncGenerator[Fragment | None]:
    return live.follow(
        (key,), Reader(owner, ask or daemon.ask), daemon.build, lambda page: f"<p>{page}</p>", known, within_s
    )


@pytest.fixture
async def live() -> AsyncGenerator[LiveFragments]:
    made = LiveFragments(lambda: NOW, LOOK_S)
    yield made
    await made.close()


async def test_two_readers_share_what_is_made_once_a_tick(live: LiveFragments) -> None:
    daemon = Daemon()
    async with aclosing(follow(live, daemon)) as one, aclosing(follow(live, daemon, owner=3)) as two:
        first = await anext(one)
        assert first is not None
        assert (first.html, first.silence) == ("<p>first</p>", None)
        assert await anext(two) == first
        assert daemon.made == 1
        daemon.shown, daemon.tick = "second", 2
        seen = await asyncio.gather(anext(one), anext(two))
        assert {each.html for each in seen if each} == {"<p>second</p>"}
        assert daemon.made == 2


async def test_what_is_the_same_is_not_sent_again(live: LiveFragments) -> None:
    daemon = Daemon()
    async with aclosing(follow(live, daemon, within_s=0.2)) as reader:
        first = await anext(reader)
        assert first is not None
        daemon.tick = 2
        while daemon.made < 2:
            assert await anext(reader) is None
        assert await anext(reader) is None, "made again, and the same"
        assert daemon.made == 2
    async with aclosing(follow(live, daemon, known=first.id, within_s=0.2)) as again:
        assert await anext(again) is None, "who has it by Last-Event-ID is not sent it"


async def test_silence_is_said_once_with_its_beginning_and_what_was_read_stays(live: LiveFragments) -> None:
    daemon = Daemon()
    async with aclosing(follow(live, daemon)) as reader:
        assert await anext(reader) is not None
        daemon.error = DaemonSilent("it is not running")
        silent = await anext(reader)
        assert silent is not None
        assert (silent.html, silent.silence) == ("<p>first</p>", (NOW, "it is not running"))
        daemon.error = None
        back = await anext(reader)
        assert back is not None
        assert back.silence is None


async def test_silence_from_the_beginning_has_nothing_to_show(live: LiveFragments) -> None:
    daemon = Daemon()
    daemon.error = DaemonSilent("it is not running")
    async with aclosing(follow(live, daemon)) as reader:
        silent = await anext(reader)
        assert silent is not None
        assert (silent.html, silent.silence) == ("", (NOW, "it is not running"))


async def test_a_session_that_ends_ends_its_own_reader_alone(live: LiveFragments) -> None:
    daemon = Daemon()

    async def ended() -> DaemonSource:
        raise SessionEnded("revoked")

    async with (
        aclosing(follow(live, daemon, owner=2, ask=ended)) as gone,
        aclosing(follow(live, daemon)) as stays,
    ):
        assert [each async for each in gone] == []
        first = await anext(stays)
        assert first is not None
        assert first.html == "<p>first</p>"


async def test_a_defect_in_a_page_does_not_end_its_stream(live: LiveFragments) -> None:
    daemon = Daemon()
    async with aclosing(follow(live, daemon)) as reader:
        assert await anext(reader) is not None
        daemon.error = RuntimeError("a defect")
        await asyncio.sleep(5 * LOOK_S)
        daemon.error, daemon.shown, daemon.tick = None, "second", 2
        second = await anext(reader)
        assert second is not None
        assert second.html == "<p>second</p>"


async def test_an_owner_has_so_many_streams(live: LiveFragments) -> None:
    daemon = Daemon()
    readers = [follow(live, daemon) for _ in range(STREAMS_OF_AN_OWNER)]
    for reader in readers:
        await anext(reader)
    with pytest.raises(TooManyStreams):
        await anext(follow(live, daemon))
    async with aclosing(follow(live, daemon, owner=3)) as other:
        assert await anext(other) is not None
    await readers.pop().aclose()
    async with aclosing(follow(live, daemon)) as other:
        assert await anext(other) is not None, "one that has gone makes room"
    for reader in readers:
        await reader.aclose()


async def test_without_readers_the_daemon_is_not_asked(live: LiveFragments) -> None:
    daemon = Daemon()
    async with aclosing(follow(live, daemon)) as reader:
        await anext(reader)
        (shared,) = live._shared.values()
    assert shared.task is not None
    await asyncio.wait_for(shared.task, LONG_S)
    assert live._shared == {}
