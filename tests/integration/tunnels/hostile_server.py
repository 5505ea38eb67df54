"""An SSH server that a hostile host wrote: it lets everybody in, says what it likes, and opens channels of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from functools import partial

import paramiko

from autopilot.domain.instance import SshAddress
from autopilot.tunnels.command import UP

FLOOD = b"x" * 32_768
OPEN_WITHIN_S = 10.0

Attack = Callable[["Session"], None]


class Session(paramiko.ServerInterface):  # type: ignore[misc]
    """One connection. ``forwarded``: the ports of the loopback that it was asked to forward."""

    def __init__(self, transport: paramiko.Transport, attack: Attack) -> None:
        self.transport = transport
        self._attack = attack
        self.forwarded: list[int] = []
        self.opened: dict[str, str] = {}
        """By kind of channel: what our ``ssh`` answered to it."""
        self.runs = threading.Event()
        self.channel: paramiko.Channel | None = None

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return int(paramiko.AUTH_SUCCESSFUL)

    def check_port_forward_request(self, address: str, port: int) -> int:
        self.forwarded.append(port)
        return port

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.channel = channel
        self.runs.set()
        threading.Thread(target=self._run, daemon=True).start()
        return True

    def say_up(self) -> None:
        assert self.channel is not None
        self.channel.sendall(f"{UP}\n".encode())

    def open(self, kind: str, port: int = 0) -> None:
        """A channel towards home, of a kind that was not asked for, or to a port that was not."""
        to, of = ("127.0.0.1", port), ("127.0.0.1", 1)
        try:
            channel = self.transport.open_channel(kind, dest_addr=to, src_addr=of, timeout=OPEN_WITHIN_S)
        except (paramiko.SSHException, EOFError, OSError) as refused:
            self.opened[f"{kind} {port}"] = type(refused).__name__
            return
        self.opened[f"{kind} {port}"] = "opened"
        with contextlib.suppress(OSError, EOFError):
            channel.sendall(b"GET / HTTP/1.0\r\n\r\n")
        channel.close()

    def _run(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._attack(self)


class HostileServer:
    """Its port. Each connection is a session that ``attack`` is let loose on, once a command is to be run there."""

    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._key = paramiko.ECDSAKey.generate()
        self.sessions: list[Session] = []
        self._transports: list[paramiko.Transport] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> SshAddress:
        return SshAddress("127.0.0.1", self._listening.getsockname()[1])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=partial(self._serve, connection), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(self._key)
        session = Session(transport, self._attack)
        self._transports.append(transport)
        self.sessions.append(session)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            transport.start_server(server=session)


def open_everything(ports: dict[str, int]) -> Attack:
    """``ports``: of home, that the machine would like to reach, with the kind of channel that is tried for each."""

    def attack(session: Session) -> None:
        session.say_up()
        for kind, port in ports.items():
            session.open(kind, port)
        session.open("session")
        session.open("auth-agent@openssh.com")
        session.open("tun@openssh.com")

    return attack


def open_forwards(*ports: int) -> Attack:
    """As for connections that programs there have made to these ports of its loopback."""

    def attack(session: Session) -> None:
        session.say_up()
        for port in ports:
            session.open("forwarded-tcpip", port)

    return attack


def flood(session: Session) -> None:
    """Output, errors, and requests that want an answer, without end."""
    session.say_up()
    channel = session.channel
    assert channel is not None

    def ask() -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            while session.transport.is_active():
                session.transport.global_request("nonsense@example.org", wait=True)

    threading.Thread(target=ask, daemon=True).start()
    while session.transport.is_active():
        channel.sendall(FLOOD)
        channel.sendall_stderr(FLOOD)


def hang_up(session: Session) -> None:
    """It says that all is well, and ends."""
    session.say_up()
    session.transport.close()


def say_nothing(session: Session) -> None:
    """It takes the login and the forward, and never says that they hold."""
    session.runs.wait()
