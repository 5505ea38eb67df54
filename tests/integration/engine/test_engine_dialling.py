"""Which machines the engine wants dialled, where, and what it does and says while they cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import pytest

from autopilot.domain.instance import SshAddress
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot.engine.dialling import ATTACH_AGAIN_AFTER, REFUSED_FOR_S, SAID_AFTER_S
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot_lab.sandbox.market.machines import HostState
from tests.integration.engine.engine_world import INSTALL_ID, TICK_S, World, a_world

KEY = "ssh-ed25519 AAAA autopilot"


class Board:
    """What the tunnels' process reads and writes, without a process."""

    public_key = KEY

    def __init__(self) -> None:
        self.wanted: dict[str, Dialled] = {}
        self.said: dict[str, TunnelState] = {}

    async def dial(self, wanted: Collection[Dialled]) -> None:
        self.wanted = {each.lease_id: each for each in wanted}

    async def states(self) -> Mapping[str, TunnelState]:
        return self.said


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
async def world(tmp_path: Path, board: Board) -> AsyncIterator[World]:
    async with a_world(tmp_path, lambda store: store) as made:
        made.tunnels = board
        await made.restart()
        yield made


async def cut_offs(world: World) -> list[str]:
    async with world.store.snapshot() as uow:
        events = await uow.events.list_by_job(world.job_id, limit=1000)
    return [str(dict(each.fields)["fault"]) for each in events if each.name == "tunnel.failed"]


def wanted(board: Board, lease: Lease) -> Dialled:
    return board.wanted[lease.id]


async def test_a_machine_that_runs_is_dialled_with_a_key_of_its_own(world: World, board: Board) -> None:
    lease = await world.running()
    await world.tick(2)
    instance = world.instance(lease)
    assert instance.ssh_keys == [KEY]
    turn = instance.id + instance.boots
    own, proxy = wanted(board, lease).addresses
    assert proxy == SshAddress(f"ssh{turn % 9 + 1}.vast.ai", 10_000 + turn % 50_000)
    assert own.host == world.market.machines[instance.machine_id].spec.public_ipaddr
    assert await world.requests("keys") == 1
    await world.until_over()
    assert board.wanted == {}


async def test_it_is_not_dialled_while_it_is_away_and_anew_where_it_runs_again(world: World, board: Board) -> None:
    lease = await world.running()
    await world.tick(2)
    before = wanted(board, lease)
    machine_id = world.instance(lease).machine_id
    world.market.set_host(machine_id, HostState.OFFLINE)
    await world.tick(2)
    assert wanted(board, lease).addresses == ()
    world.market.set_host(machine_id, HostState.ONLINE)
    await world.tick(4)
    again = wanted(board, lease)
    assert again.addresses
    assert again.addresses != before.addresses
    assert again.generation != before.generation
    assert world.instance(lease).ssh_keys == [KEY]


async def test_a_key_that_is_refused_is_attached_again_and_said(world: World, board: Board) -> None:
    lease = await world.running()
    await world.tick(2)
    world.instance(lease).ssh_keys.clear()
    board.said[lease.id] = TunnelState(is_up=True, fault=TunnelFault.LOGIN_REFUSED, down_s=5)
    await world.tick(int(ATTACH_AGAIN_AFTER.total_seconds() / TICK_S) + 2)
    assert world.instance(lease).ssh_keys == [KEY]
    assert await cut_offs(world) == ["login_refused"]
    assert await world.requests("keys") == 2


async def test_a_machine_that_belongs_to_no_job_is_not_dialled_and_gets_no_key(world: World, board: Board) -> None:
    world.agents.total_steps = 1000
    lease = await world.running()
    orphan = await world.rent_by_hand(f"ap1.{INSTALL_ID}.01KDVDNRY4R11887CN5CG1S8J6")
    stranger = await world.rent_by_hand("my own training")
    world.clock.advance(90)
    for _ in range(6):
        await world.tick()
        assert set(board.wanted) == {lease.id}
    assert orphan.destroyed_at is not None
    assert stranger.destroyed_at is None
    assert orphan.ssh_keys == stranger.ssh_keys == []


async def test_an_outcome_that_is_not_known_is_asked_for_again(world: World, board: Board) -> None:
    await world.fault("keys", "effect_then_reset")
    lease = await world.running()
    await world.tick(3)
    assert world.instance(lease).ssh_keys == [KEY]
    assert await world.requests("keys") == 2


@pytest.mark.parametrize("fault", [TunnelFault.UNREACHABLE, TunnelFault.PORT_TAKEN, TunnelFault.NO_PROCESS])
async def test_what_lasts_is_said_once(world: World, board: Board, fault: TunnelFault) -> None:
    lease = await world.running()
    board.said[lease.id] = TunnelState(is_up=False, fault=fault, down_s=SAID_AFTER_S - 1)
    await world.tick(3)
    assert await cut_offs(world) == []
    board.said[lease.id] = TunnelState(is_up=False, fault=fault, down_s=SAID_AFTER_S)
    await world.tick(3)
    assert await cut_offs(world) == [fault]


async def test_another_host_key_is_said_at_once(world: World, board: Board) -> None:
    lease = await world.running()
    board.said[lease.id] = TunnelState(is_up=False, fault=TunnelFault.HOST_KEY_CHANGED, down_s=0)
    await world.tick(2)
    assert await cut_offs(world) == ["host_key_changed"]


async def test_a_daemon_that_begins_dials_what_it_finds(world: World, board: Board) -> None:
    lease = await world.running()
    await world.tick(2)
    before = wanted(board, lease)
    board.wanted = {}
    await world.restart()
    await world.tick(2)
    assert wanted(board, lease) == before
    assert world.instance(lease).ssh_keys == [KEY]


async def test_a_machine_that_was_never_heard_and_does_not_forward_is_given_back_and_another_taken(
    world: World, board: Board
) -> None:
    await world.tick()
    await world.submit()
    lease = (await world.until(lambda job: job.main is not None, "a machine")).main
    assert lease is not None
    world.agents.deaf.add(lease.id)
    await world.until(lambda job: bool(job.main and job.main.observed.running_since), "a machine that runs")
    board.said[lease.id] = TunnelState(is_up=False, fault=TunnelFault.FORWARDING_REFUSED, down_s=REFUSED_FOR_S)
    await world.tick(4)
    given_back = await world.lease(lease.id)
    assert given_back.reason is Reason.AGENT_SILENT
    assert await cut_offs(world) == ["forwarding_refused"]
    board.said.clear()
    await world.until_over()
    assert {each.machine_id for each in await world.leases()} > {lease.machine_id}
