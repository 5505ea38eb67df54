"""Real OpenSSH at both ends: what is cut is made again, what is not ours gets nothing, what is wrong is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from autopilot.blobs.place import BULK_PORT, CONTROL_PORT
from autopilot.clock import ManualClock
from autopilot.domain.instance import SshAddress
from autopilot.openssh.run import DESCRIPTORS
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot.tunnels import keeper as tunnel_keeper
from autopilot.tunnels.board import SILENT_AFTER_S, TunnelBoard, WantedMachines, read_wanted
from autopilot.tunnels.place import TunnelsPlace
from tests.integration.tunnels.tunnel_world import NEEDS, TunnelWorld, a_tunnel_world, children_named
from tests.patience import eventually

pytestmark = [pytest.mark.slow, *NEEDS]
OURS = "ssh"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TunnelWorld]:
    async with a_tunnel_world(tmp_path) as made:
        yield made


async def test_a_machine_reaches_the_mailbox_at_its_own_loopback_and_nothing_else(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    assert await box.ask(22) == ""
    assert world.state().fault is None


async def test_a_connection_that_is_cut_is_made_again(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    box.network.kill_all()
    await eventually(lambda: not world.state().is_up, "the cut")
    await world.is_up(box)


async def test_what_is_not_wanted_any_more_is_hung_up(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    assert len(children_named(OURS, os.getpid())) == 2
    await world.follow()
    assert children_named(OURS, os.getpid()) == []
    assert world.keeper.states() == {}
    assert await box.ask() == ""
    assert list(world.place.hosts.iterdir()) == []


async def test_a_key_that_is_gone_is_noticed_beside_the_living_connection(
    world: TunnelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_keeper, "LOGIN_EVERY_S", 0.1)
    monkeypatch.setattr(tunnel_keeper, "LOGIN_AGAIN_S", 0.1)
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    key = box.keys.pop()
    await world.has_fault(TunnelFault.LOGIN_REFUSED)
    assert world.state().is_up
    assert await box.ask() == "home"
    box.keys.append(key)
    await eventually(lambda: world.state().fault is None, "a login that succeeds")


async def test_a_machine_that_lets_nobody_in_is_told_apart(world: TunnelWorld) -> None:
    box = world.box(key="")
    await world.follow(world.dialled(box))
    await world.has_fault(TunnelFault.LOGIN_REFUSED)
    box.keys.append(world.board.public_key)
    await world.is_up(box)


async def test_another_host_key_at_the_same_start_gets_nothing(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    (box.home / "host_key").unlink()
    box.reopen()
    box.network.kill_all()
    await world.has_fault(TunnelFault.HOST_KEY_CHANGED)
    assert await box.ask() == ""


async def test_a_machine_that_runs_again_may_show_another_key(world: TunnelWorld) -> None:
    box, next_boot = world.box(), world.box(name="again")
    await world.follow(world.dialled(box))
    await world.is_up(box)
    await world.follow(world.dialled(next_boot, generation="2"))
    await world.is_up(next_boot)
    assert await box.ask() == ""


async def test_a_stranger_at_the_address_of_before_gets_nothing(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    box.home = world.root / "stranger"
    box.keys.clear()
    box.reopen()
    box.network.kill_all()
    await world.has_fault(TunnelFault.HOST_KEY_CHANGED)


async def test_a_server_that_does_not_forward_is_told_apart(world: TunnelWorld) -> None:
    box = world.box()
    box.forwards = False
    await world.follow(world.dialled(box))
    await world.has_fault(TunnelFault.FORWARDING_REFUSED)


async def test_a_port_that_another_program_holds_is_told_apart(world: TunnelWorld) -> None:
    box = world.box()
    with box.network.listen(CONTROL_PORT):
        await world.follow(world.dialled(box))
        await world.has_fault(TunnelFault.PORT_TAKEN)


async def test_an_older_connection_of_ours_that_the_machine_takes_for_alive_is_ended(world: TunnelWorld) -> None:
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    older = children_named(OURS, os.getpid())
    for pid in older:
        os.kill(pid, signal.SIGSTOP)
    again = TunnelWorld.__new__(TunnelWorld)
    again.__dict__.update(world.__dict__)
    again.keeper = tunnel_keeper.Keeper(world.place)
    try:
        await again.follow(world.dialled(box))
        await again.is_up(box)
    finally:
        await again.keeper.close()


async def test_the_second_address_is_used_where_nobody_answers_at_the_first(world: TunnelWorld) -> None:
    box = world.box()
    nobody = SshAddress("127.0.0.1", 1)
    await world.follow(Dialled("one", "1", (nobody, box.address)))
    await world.is_up(box)


async def test_a_machine_that_talks_without_end_holds_up_nobody(world: TunnelWorld) -> None:
    loud = world.box(name="loud", key=f'command="cat /dev/zero" {world.board.public_key}')
    quiet = world.box(name="quiet")
    await world.follow(world.dialled(loud, lease="loud"), world.dialled(quiet, lease="quiet"))
    await world.is_up(quiet, "quiet")
    assert not world.state("loud").is_up


async def test_a_machine_opens_no_more_connections_than_one_ssh_has_room_for(world: TunnelWorld) -> None:
    greedy, other = world.box(name="greedy"), world.box(name="other")
    await world.follow(world.dialled(greedy, lease="greedy"), world.dialled(other, lease="other"))
    await world.is_up(greedy, "greedy")
    held = [greedy.connect(BULK_PORT) for _ in range(4 * DESCRIPTORS)]
    try:
        await world.is_up(other, "other")
        for pid in children_named(OURS, os.getpid()):
            assert len(os.listdir(f"/proc/{pid}/fd")) <= DESCRIPTORS
        assert await greedy.ask(CONTROL_PORT) == "home"
    finally:
        for each in held:
            each.close()


async def test_nothing_else_is_forwarded_for_the_machine(world: TunnelWorld) -> None:
    """What it would open towards here, besides the ports that were asked for, is refused by our ``ssh``."""
    box = world.box()
    await world.follow(world.dialled(box))
    await world.is_up(box)
    (pid, *_) = children_named(OURS, os.getpid())
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")  # noqa: ASYNC240
    assert [words[at + 1] for at, word in enumerate(words) if word in ("-R", "-L", "-D", "-w")] in (
        [f"127.0.0.1:{CONTROL_PORT}:{world.target}"],
        [f"127.0.0.1:{BULK_PORT}:{world.target}"],
    )
    environment = Path(f"/proc/{pid}/environ").read_text()  # noqa: ASYNC240
    assert "SSH_AUTH_SOCK" not in environment
    assert not {"-A", "-X", "-Y", "-t"} & set(words)


async def test_the_process_leaves_no_connection_behind_when_it_is_killed_and_the_next_one_dials_anew(
    world: TunnelWorld,
) -> None:
    box = world.box()
    await world.board.dial([world.dialled(box)])
    assert read_wanted(world.place) == WantedMachines(world.target, (world.dialled(box),))
    for _ in range(2):
        process = start_process(world)
        await eventually(lambda: box.ask(), "the tunnel of a process of its own", 0.05)
        state = await eventually(lambda: read_state(world), "its word", 0.05)
        assert state.is_up
        mine = children_named(OURS, process.pid)
        assert len(mine) == 2
        process.kill()
        process.wait()
        await eventually(partial(are_over, mine), "the end of both")
        world.place.states.unlink()


def start_process(world: TunnelWorld) -> subprocess.Popen[bytes]:
    words = ["--place", str(world.place.root)]
    return subprocess.Popen(
        [sys.executable, "-m", "autopilot.tunnels", *words, "--log-format", "json", "--log-level", "warning"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("AUTOPILOT_")},
    )


def are_over(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


async def read_state(world: TunnelWorld) -> object:
    states = await world.board.states()
    found = states.get("one")
    return found if found is not None and found.is_up else None


async def test_a_process_that_says_nothing_is_said(tmp_path: Path) -> None:
    clock = ManualClock()
    board = TunnelBoard(TunnelsPlace(tmp_path), "127.0.0.1:1", clock)
    await board.dial([Dialled("one", "1", (SshAddress("127.0.0.1", 1),)), Dialled("paused", "1", ())])
    assert await board.states() == {}
    clock.advance(SILENT_AFTER_S + 200)
    assert await board.states() == {"one": TunnelState(is_up=False, fault=TunnelFault.NO_PROCESS, down_s=230)}
