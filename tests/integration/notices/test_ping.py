"""The sign of life: after good ticks alone, with a start and a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from autopilot.notices.ping import DeadManSwitch
from tests.integration.notices.sink_server import SinkServer, a_sink_server


@pytest.fixture
async def sink() -> AsyncIterator[SinkServer]:
    async with a_sink_server() as server:
        yield server


@asynccontextmanager
async def a_switch(sink: SinkServer, every: int) -> AsyncIterator[DeadManSwitch]:
    switch = DeadManSwitch(f"{sink.url}/uuid/", every, local=True)
    task = asyncio.create_task(switch.run())
    await arrives(sink)
    assert sink.paths == ["/uuid/start"]
    sink.paths.clear()
    yield switch
    task.cancel()


async def arrives(sink: SinkServer) -> None:
    await sink.arrived.wait()
    sink.arrived.clear()


async def test_a_signal_after_so_many_good_ticks(sink: SinkServer) -> None:
    async with a_switch(sink, 3) as switch:
        for _ in range(2):
            for _ in range(3):
                assert not sink.arrived.is_set()
                switch.note(is_good=True)
            await arrives(sink)
    assert sink.paths == ["/uuid", "/uuid"]


async def test_a_tick_that_read_no_market_never_signals_success(sink: SinkServer) -> None:
    async with a_switch(sink, 3) as switch:
        switch.note(is_good=True)
        switch.note(is_good=True)
        for _ in range(3):
            switch.note(is_good=False)
        await arrives(sink)
        for _ in range(9):
            switch.note(is_good=False)
        switch.note(is_good=True)
        switch.note(is_good=True)
        switch.note(is_good=False)
        switch.note(is_good=True)
        await arrives(sink)
    assert sink.paths == ["/uuid/fail", "/uuid"]


async def test_an_address_that_answers_nothing_holds_up_no_tick(sink: SinkServer) -> None:
    async with a_switch(sink, 1) as switch:
        sink.answers_at_once.clear()
        switch.note(is_good=True)
        await arrives(sink)
        for _ in range(100):
            switch.note(is_good=True)
        assert sink.paths == ["/uuid"]
        sink.answers_at_once.set()
        await arrives(sink)
    assert sink.paths == ["/uuid", "/uuid"], "what was signalled meanwhile is one signal"
