"""Machines as vast.ai's sandbox has them, each with its own network and OpenSSH, and what dials them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from autopilot.blobs.place import BULK_PORT, CONTROL_PORT
from autopilot.clock import SystemClock
from autopilot.domain.instance import SshAddress
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot.tunnels.board import TunnelBoard, WantedMachines
from autopilot.tunnels.keeper import Keeper
from autopilot.tunnels.place import TunnelsPlace
from autopilot_lab.sandbox.apart import OwnNetwork
from autopilot_lab.sandbox.logins import SshDoor
from tests.patience import eventually

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
NEEDS = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own for each machine takes root"),
    pytest.mark.skipif(SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"),
]


class Box:
    """One start of a machine. ``keys``: whom it lets in, as lines of ``authorized_keys``."""

    def __init__(self, home: Path, keys: list[str]) -> None:
        self.home = home
        self.keys = keys
        self.forwards = True
        self.network = OwnNetwork()
        self.door = self._open()

    def _open(self, port: int = 0) -> SshDoor:
        return SshDoor(self.home, self.network, lambda: tuple(self.keys), lambda: self.forwards, lambda: None, port)

    @property
    def address(self) -> SshAddress:
        return SshAddress("127.0.0.1", self.door.port)

    def reopen(self) -> None:
        """Its proxy answers again at the same address, with the key that lies in ``home`` now."""
        port = self.door.port
        self.door.close()
        self.door = self._open(port)

    async def ask(self, port: int = CONTROL_PORT) -> str:
        """What a program on the machine gets of its own loopback's port; empty if nothing answers."""
        return await self._exchange(b"GET / HTTP/1.0\r\n\r\n", port)

    async def send(self, part: bytes, port: int) -> int:
        """How much of it has come home; 0 where the connection ended before."""
        answer = await self._exchange(b"PUT / HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(part) + part, port)
        return int(answer or 0)

    async def _exchange(self, request: bytes, port: int) -> str:
        with contextlib.suppress(OSError):
            with self.network.enter():
                asking = socket.socket()
            asking.setblocking(False)
            with asking:
                loop = asyncio.get_running_loop()
                with self.network.enter():
                    await loop.sock_connect(asking, ("127.0.0.1", port))
                await loop.sock_sendall(asking, request)
                answer = b""
                while data := await loop.sock_recv(asking, 4096):
                    answer += data
            return answer.decode().rpartition("\r\n\r\n")[2]
        return ""

    def connect(self, port: int) -> socket.socket:
        """Raises ``OSError``."""
        with self.network.enter():
            return socket.create_connection(("127.0.0.1", port))

    def close(self) -> None:
        self.door.close()
        self.network.kill_all()
        self.network.close()


class TunnelWorld:
    """A place whose mailbox is a page that says "home" and counts what is sent to it, boxes, and a keeper."""

    def __init__(self, root: Path, target: str) -> None:
        self.root = root
        self.place = TunnelsPlace(root / "tunnels")
        self.target = target
        self.board = TunnelBoard(self.place, target, SystemClock())
        self.boxes: list[Box] = []
        self.keeper = Keeper(self.place)

    def box(self, *, name: str = "box", key: str | None = None) -> Box:
        made = Box(self.root / name, [self.board.public_key if key is None else key])
        self.boxes.append(made)
        return made

    async def follow(self, *machines: Dialled) -> None:
        await self.keeper.follow(WantedMachines(self.target, machines))

    def dialled(self, *boxes: Box, lease: str = "one", generation: str = "1") -> Dialled:
        return Dialled(lease, generation, tuple(each.address for each in boxes))

    def state(self, lease: str = "one") -> TunnelState:
        return self.keeper.states()[lease]

    async def is_up(self, box: Box, lease: str = "one") -> None:
        async def looks() -> bool:
            if not self.state(lease).is_up:
                return False
            return [await box.ask(port) for port in (CONTROL_PORT, BULK_PORT)] == ["home", "home"]

        await eventually(looks, "both connections", 0.05)

    async def has_fault(self, fault: TunnelFault, lease: str = "one") -> None:
        await eventually(lambda: self.state(lease).fault is fault, f"{fault} and not {self.state(lease)}", 0.05)


@contextlib.asynccontextmanager
async def a_tunnel_world(root: Path) -> AsyncIterator[TunnelWorld]:
    async def home(_: web.Request) -> web.Response:
        return web.Response(text="home")

    async def count(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application(client_max_size=1 << 30)
    app.router.add_get("/", home)
    app.router.add_put("/", count)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made = TunnelWorld(root, "{}:{}".format(*runner.addresses[0][:2]))
    try:
        yield made
    finally:
        await made.keeper.close()
        for box in made.boxes:
            box.close()
        await runner.cleanup()


def children_named(name: str, of: int) -> list[int]:
    """Processes of that name beneath a process."""
    found = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    rows = [row.split(None, 2) for row in found.stdout.splitlines()]
    return [int(pid) for pid, parent, comm in rows if int(parent) == of and comm.strip() == name]
