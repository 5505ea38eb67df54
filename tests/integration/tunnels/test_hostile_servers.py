"""SSH servers of a hostile host's own making, at the other end of the system's ``ssh``: they gain the listener, which
they have anyway, and hold up no other machine."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from autopilot.blobs.place import BULK_PORT, CONTROL_PORT
from autopilot.domain.instance import SshAddress
from autopilot.ports.tunnels import Dialled, TunnelFault
from autopilot.tunnels import keeper as tunnel_keeper
from tests.integration.tunnels.hostile_server import (
    Attack,
    HostileServer,
    flood,
    hang_up,
    open_everything,
    open_forwards,
    say_nothing,
)
from tests.integration.tunnels.tunnel_world import NEEDS, TunnelWorld, a_tunnel_world, children_named
from tests.patience import eventually

pytestmark = [pytest.mark.slow, *NEEDS]
MOST_MB = 64
"""Of one ``ssh``, and what this process may grow by."""
FLOODED_BYTES = 256 << 20


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TunnelWorld]:
    async with a_tunnel_world(tmp_path) as made:
        yield made


@pytest.fixture
def hostile() -> Iterator[Callable[[Attack], HostileServer]]:
    made: list[HostileServer] = []

    def make(attack: Attack) -> HostileServer:
        made.append(HostileServer(attack))
        return made[-1]

    yield make
    for each in made:
        each.close()


class Secret:
    """A service of home that listens on its loopback. It is for no machine."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.visitors = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.visitors += 1
                connection.close()

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def secret() -> Iterator[Secret]:
    made = Secret()
    yield made
    made.close()


async def test_a_server_that_opens_channels_of_its_own_reaches_nothing_but_what_was_forwarded(
    world: TunnelWorld, hostile: Callable[[Attack], HostileServer], secret: Secret
) -> None:
    kinds = {"direct-tcpip": secret.port, "forwarded-tcpip": secret.port, "x11": secret.port}
    server, box = hostile(open_everything(kinds)), world.box()
    await world.follow(Dialled("evil", "1", (server.address,)), world.dialled(box))
    await world.is_up(box)
    tried = {f"{kind} {port}" for kind, port in kinds.items()}
    tried |= {"session 0", "auth-agent@openssh.com 0", "tun@openssh.com 0"}

    def answers() -> bool:
        return len(server.sessions) >= 2 and all(set(each.opened) == tried for each in server.sessions)

    await eventually(answers, "an answer to each channel", 0.05)
    for session in server.sessions:
        assert set(session.opened.values()) == {"ChannelException"}, session.opened
    assert {port for each in server.sessions for port in each.forwarded} == {CONTROL_PORT, BULK_PORT}
    assert secret.visitors == 0
    await world.is_up(box)


async def test_of_the_ports_that_were_forwarded_it_gets_what_every_machine_gets(
    world: TunnelWorld, hostile: Callable[[Attack], HostileServer]
) -> None:
    """Each connection has one of them, and the other one's is not open there."""
    server = hostile(open_forwards(CONTROL_PORT, BULK_PORT))
    await world.follow(Dialled("evil", "1", (server.address,)))
    await eventually(lambda: len(server.sessions) == 2 and all(len(each.opened) == 2 for each in server.sessions))
    for session in server.sessions:
        (own,) = session.forwarded
        (other,) = {CONTROL_PORT, BULK_PORT} - {own}
        assert session.opened == {
            f"forwarded-tcpip {own}": "opened",
            f"forwarded-tcpip {other}": "ChannelException",
        }


async def test_a_server_that_floods_takes_no_memory_and_holds_up_no_other_machine(
    world: TunnelWorld, hostile: Callable[[Attack], HostileServer]
) -> None:
    server, box = hostile(flood), world.box()
    before = resident_mb(os.getpid())
    await world.follow(Dialled("evil", "1", (server.address,)), world.dialled(box))
    await world.is_up(box)
    await eventually(
        lambda: sum(received(pid) for pid in children_named("ssh", os.getpid())) > FLOODED_BYTES, "a flood"
    )
    for pid in children_named("ssh", os.getpid()):
        assert resident_mb(pid) < MOST_MB
    # The server floods from within this process, which holds what it has not sent yet.
    assert resident_mb(os.getpid()) - before < MOST_MB
    await world.is_up(box)


async def test_a_server_that_says_up_and_ends_is_dialled_less_and_less_often(
    world: TunnelWorld, hostile: Callable[[Attack], HostileServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_keeper, "AGAIN_AFTER_S", 0.1)
    monkeypatch.setattr(tunnel_keeper, "AGAIN_AT_MOST_S", 1e6)
    server, box = hostile(hang_up), world.box()
    await world.follow(Dialled("evil", "1", (server.address,)), world.dialled(box))
    await eventually(lambda: len(server.sessions) >= 8, "four tries of both connections", 0.05)
    await eventually(lambda: not world.state("evil").is_up, "its end", 0.01)
    await world.is_up(box)


async def test_a_server_that_never_says_that_it_forwards_counts_as_one_that_is_not_reached(
    world: TunnelWorld, hostile: Callable[[Attack], HostileServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_keeper, "UP_WITHIN_S", 2.0)
    server, box = hostile(say_nothing), world.box()
    await world.follow(Dialled("evil", "1", (server.address,)), world.dialled(box))
    await world.is_up(box)
    await eventually(lambda: len(server.sessions) >= 4, "another try", 0.05)
    assert world.state("evil").fault is TunnelFault.UNREACHABLE
    assert not world.state("evil").is_up


async def test_a_port_that_talks_no_ssh_at_all_holds_up_no_other_machine(world: TunnelWorld) -> None:
    """It takes the connection and floods before anything is agreed on."""
    box = world.box()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        taken = threading.Thread(target=flood_all, args=(listening,), daemon=True)
        taken.start()
        evil = Dialled("evil", "1", (SshAddress("127.0.0.1", listening.getsockname()[1]),))
        await world.follow(evil, world.dialled(box))
        await world.is_up(box)
        await world.has_fault(TunnelFault.UNREACHABLE, "evil")
        listening.shutdown(socket.SHUT_RDWR)
    taken.join()


def flood_all(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listening.accept()
            with contextlib.suppress(OSError), connection:
                while True:
                    connection.sendall(b"no banner\n" * 1000)


def resident_mb(pid: int) -> float:
    return read_number(pid, "status", r"^VmRSS:\s+(\d+) kB$") / 1000


def received(pid: int) -> int:
    """Bytes that it has read."""
    return read_number(pid, "io", r"^rchar: (\d+)$")


def read_number(pid: int, name: str, pattern: str) -> int:
    """0 for a process that has ended."""
    with contextlib.suppress(OSError):
        found = re.search(pattern, Path(f"/proc/{pid}/{name}").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
