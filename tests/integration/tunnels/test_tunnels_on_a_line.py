"""The line between home and a machine is slow, silent or cut: what is small passes beside what is large."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopilot.blobs.place import BULK_PORT, CONTROL_PORT
from autopilot.domain.instance import SshAddress
from autopilot.ports.tunnels import Dialled, TunnelFault
from autopilot.tunnels import command
from tests.integration.tunnels.tunnel_world import NEEDS, Box, TunnelWorld, a_tunnel_world, children_named
from tests.patience import eventually
from tests.relay import Relay, a_relay

pytestmark = [pytest.mark.slow, *NEEDS]
SLOW_MBPS = 1.0
PART_BYTES = 1 << 20
"""More than eight seconds at that speed."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TunnelWorld]:
    async with a_tunnel_world(tmp_path) as made:
        yield made


@pytest.fixture
async def box(world: TunnelWorld) -> Box:
    return world.box()


@pytest.fixture
async def line(box: Box) -> AsyncIterator[Relay]:
    async with a_relay(box.address.host, box.address.port) as made:
        yield made


def by(line: Relay) -> Dialled:
    return Dialled("one", "1", (SshAddress("127.0.0.1", line.port),))


async def test_orders_and_reports_pass_while_a_part_fills_a_line_of_1_mbit(
    world: TunnelWorld, box: Box, line: Relay
) -> None:
    await world.follow(by(line))
    await world.is_up(box)
    line.slow_down(SLOW_MBPS)
    part = asyncio.create_task(box.send(b"x" * PART_BYTES, BULK_PORT))
    await eventually(lambda: line.passed > PART_BYTES // 8, "the beginning of the part", 0.05)
    answers = 0
    while not part.done():
        assert await box.ask(CONTROL_PORT) == "home"
        answers += not part.done()
    assert await part == PART_BYTES
    assert answers >= 5, "they waited for the part"
    assert world.state().fault is None


async def test_a_line_on_which_nothing_comes_any_more_is_noticed_and_dialled_again(
    world: TunnelWorld, box: Box, line: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(command.OPTIONS, "ServerAliveInterval", "1")
    await world.follow(by(line))
    await world.is_up(box)
    before = set(children_named("ssh", os.getpid()))
    line.silence()
    await world.has_fault(TunnelFault.UNREACHABLE)
    line.mend()
    await world.is_up(box)
    assert not before & set(children_named("ssh", os.getpid()))


async def test_a_part_that_is_cut_off_comes_to_nothing_and_comes_whole_when_it_is_sent_again(
    world: TunnelWorld, box: Box, line: Relay
) -> None:
    await world.follow(by(line))
    await world.is_up(box)
    line.slow_down(SLOW_MBPS)
    part = asyncio.create_task(box.send(b"x" * PART_BYTES, BULK_PORT))
    await eventually(lambda: line.passed > PART_BYTES // 8, "the beginning of the part", 0.05)
    line.cut()
    assert await part == 0
    line.slow_down(None)
    line.mend()
    await world.is_up(box)
    assert await box.send(b"x" * PART_BYTES, BULK_PORT) == PART_BYTES


async def test_a_port_that_leads_to_a_stranger_now_gets_nothing(world: TunnelWorld, box: Box, line: Relay) -> None:
    """A proxy's port is given to the next customer, whose machine lets everybody in."""
    stranger = world.box(name="stranger")
    await world.follow(by(line))
    await world.is_up(box)
    line.target = "127.0.0.1", stranger.address.port
    line.cut()
    line.mend()
    await world.has_fault(TunnelFault.HOST_KEY_CHANGED)
    for port in (CONTROL_PORT, BULK_PORT):
        assert await stranger.ask(port) == ""
