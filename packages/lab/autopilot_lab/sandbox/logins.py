"""SSH to an instance as vast.ai has it: a proxy's port outside, the container's own ``sshd`` behind it.

Each connection gets an ``sshd`` in the instance's own network, so that what it forwards ends at that loopback.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from autopilot.domain.errors import UserError
from autopilot_lab.sandbox.apart import OwnNetwork

_CONFIG = """\
HostKey {home}/host_key
PidFile none
AuthorizedKeysFile {home}/authorized_keys
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
AllowTcpForwarding {forwarding}
LogLevel ERROR
"""
_PLACES = "/usr/sbin:/usr/local/sbin:/sbin"


def find_sshd() -> str:
    """Raises ``UserError``."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:{_PLACES}")
    if found is None or shutil.which("ssh-keygen") is None or shutil.which("nsenter") is None:
        raise UserError("instances with SSH need sshd, ssh-keygen and nsenter", hint="install openssh-server")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where it locks itself in before anybody is known
    return os.path.realpath(found)


class SshDoor:
    """The port of one start of an instance. ``keys``: whom it lets in, asked with each connection."""

    def __init__(
        self,
        home: Path,
        network: OwnNetwork,
        keys: Callable[[], Iterable[str]],
        forwards: Callable[[], bool],
        mounts: Callable[[], str | None],
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        """``mounts``: those that who logs in sees, for ``nsenter``. ``port`` 0: any that is free, of ``host``.

        Raises ``UserError``, ``OSError``.
        """
        self._home = home
        self._network = network
        self._keys = keys
        self._forwards = forwards
        self._mounts = mounts
        self._program = find_sshd()
        self._make_host_key()
        self._listening = socket.create_server((host, port))
        self.port: int = self._listening.getsockname()[1]
        self._servers: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for server in self._servers:
            server.kill()
            server.wait()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        self._servers = [server for server in self._servers if server.poll() is None]
        (self._home / "authorized_keys").write_text("".join(f"{key}\n" for key in self._keys()))
        config = _CONFIG.format(home=self._home, forwarding="yes" if self._forwards() else "no")
        (self._home / "config").write_text(config)
        mounts = self._mounts()
        own = [f"--net={self._network.path}", *([] if mounts is None else [f"--mount={mounts}"])]
        words = ["nsenter", *own, self._program, "-i", "-e", "-f", str(self._home / "config")]
        with (self._home / "log").open("ab") as log:
            self._servers.append(
                subprocess.Popen(words, stdin=connection.fileno(), stdout=connection.fileno(), stderr=log)
            )

    def _make_host_key(self) -> None:
        """Kept with the disk: an instance that runs again is the same to who has seen it."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = self._home / "host_key"
        if not key.exists():
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]
            subprocess.run(words, check=True, capture_output=True)
