"""Machines of one's own for tests: a real OpenSSH server on loopback, an ordinary process, with directories for homes.

Each machine is an alias in an SSH configuration, and has a directory of its own on this computer.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from autopilot.providers.ssh.shipped.program import Place, end_own, find_own
from tests.patience import until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
needs_openssh = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None, reason="openssh-server is not installed"
)
_SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {root}/host_key
PidFile none
AuthorizedKeysFile {root}/key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
LogLevel ERROR
ForceCommand /bin/sh {root}/force
"""
_FORCE = """\
PATH={root}/bin:$PATH
export PATH
if [ -e {root}/lose ]; then
  sh -c "$SSH_ORIGINAL_COMMAND" >/dev/null
  kill -9 $PPID
elif [ -e {root}/garble ]; then
  sh -c "$SSH_ORIGINAL_COMMAND" | tr '{{' '<'
else
  echo "welcome to this machine"
  exec sh -c "$SSH_ORIGINAL_COMMAND"
fi
"""
_CLIENT = """\
Host {names}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {root}/key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
"""
_SMI = """\
#!/bin/sh
case "$*" in *--query-gpu=index,uuid*) cat {root}/gpus.csv;; *) exit 9;; esac
"""


class OwnMachines:
    """``names``: the machines, all on this computer."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root, self.names = root, names
        self.config_file = root / "config"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        for key in ("host_key", "key"):
            self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(root / key))
        (root / "bin").mkdir()
        (root / "force").write_text(_FORCE.format(root=root))
        (root / "server").write_text(_SERVER.format(root=root, port=self.port))
        client = _CLIENT.format(root=root, port=self.port, user=getpass.getuser(), names=" ".join(names))
        self.config_file.write_text(client)
        self.know(root / "host_key.pub")
        self._server: subprocess.Popen[bytes] | None = None

    def know(self, public_key: Path) -> None:
        """As the user does who has logged in before."""
        (self.root / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {public_key.read_text()}")

    def make_key(self) -> Path:
        """Another host's public key."""
        self._run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.root / "other_key"))
        return self.root / "other_key.pub"

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        assert SSHD is not None
        words = [SSHD, "-D", "-e", "-f", str(self.root / "server")]
        with (self.root / "log").open("ab") as log:
            self._server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._answers, "the SSH server")

    def stop(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def directory(self, name: str) -> Path:
        return self.root / f"home-{name}" / ".autopilot"

    def settings(self, name: str, **more: object) -> dict[str, object]:
        return {"host": name, "directory": str(self.directory(name)), **more}

    def leases(self, name: str) -> dict[str, str]:
        """Directory and token of each lease there."""
        place = Place(str(self.directory(name)))
        return {each: (place.lease(each) or {})["token"] for each in place.names()}

    def processes(self, name: str) -> dict[int, int]:
        """pid → start of all that runs of its leases."""
        return {pid: at for token in self.leases(name).values() for pid, at in find_own(token).items()}

    def reboot(self, name: str) -> None:
        """Everything of its leases ends at once, with the server."""
        self.stop()
        for pid in self.processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes(name), "the end of its processes")
        self.start()

    def show_gpus(self, *rows: str) -> None:
        """What ``nvidia-smi`` prints there."""
        (self.root / "gpus.csv").write_text("".join(f"{row}\n" for row in rows))
        smi = self.root / "bin" / "nvidia-smi"
        smi.write_text(_SMI.format(root=self.root))
        smi.chmod(0o755)

    def close(self) -> None:
        self.stop()
        for name in self.names:
            for token in self.leases(name).values():
                assert end_own(token, 10) == []

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    @staticmethod
    def _run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)


@contextmanager
def own_machines(root: Path, *names: str) -> Iterator[OwnMachines]:
    """Their server answers."""
    made = OwnMachines(root, *names)
    try:
        made.start()
        yield made
    finally:
        made.close()
