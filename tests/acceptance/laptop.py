"""A laptop as a network namespace that can only dial out, with an empty home and the built wheels."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autopilot_lab.sandbox.apart import OwnNetwork
from tests.patience import PATIENCE_S

MARKET = "console.vast.ai"
"""What the laptop asks is the market itself, as far as it can tell: so its money counts, and it needs a proof."""
PROXIES = tuple(f"ssh{number}.vast.ai" for number in range(1, 10))
LISTENS = "0A"
"""The state of a socket in ``/proc/net/tcp``."""


class Laptop:
    """``far``: the address at the other end of its only cable."""

    def __init__(self, root: Path, python: Path) -> None:
        """Raises ``OSError`` where no network can be made, and ``CalledProcessError`` where no cable."""
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        self._python = python
        self._network = OwnNetwork()
        third = os.getpid() % 250 + 1
        self.far, self.near = f"10.213.{third}.1", f"10.213.{third}.2"
        self._cable = f"ap{os.getpid()}"
        try:
            self._plug_in()
        except BaseException:
            self._network.close()
            raise
        self._hosts = root / "hosts"
        self._hosts.write_text(f"127.0.0.1 localhost\n{self.far} {MARKET} {' '.join(PROXIES)}\n")

    def environment(self, market_port: int) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "AUTOPILOT_PROVIDERS__VASTAI__BASE_URL": f"http://{MARKET}:{market_port}",
        }

    def words(self, *words: str) -> list[str]:
        """``autopilot WORDS`` in its network, with its own names of hosts."""
        within = 'mount --bind "$0" /etc/hosts && exec "$@"'
        apart = ["nsenter", f"--net={self._network.path}", "unshare", "--mount", "sh", "-c", within, str(self._hosts)]
        return [*apart, str(self._python), "-P", "-m", "autopilot.cli.main", *words]

    def start(self, directory: Path, environment: Mapping[str, str], *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words(*words),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(environment),
            pass_fds=[self._network.descriptor],
        )

    def answer(self, environment: Mapping[str, str], answers: Mapping[str, str], *words: str) -> str:
        """Run it on a terminal; a question that holds one of these words is answered by that, any other by Enter.
        Returns what the terminal showed."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.words(*words),
            cwd=self.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            pass_fds=[self._network.descriptor],
        )
        os.close(theirs)
        shown, asked = "", 0
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            assert time.monotonic() < deadline, shown
            if select.select([ours], [], [], 0.05)[0]:
                try:
                    shown += os.read(ours, 4096).decode(errors="replace")
                except OSError:  # the other end is closed
                    break
            elif re.search(r"[:?] ?$", shown[asked:]):
                question = shown[asked:].splitlines()[-1]
                asked = len(shown)
                said = next((answer for word, answer in answers.items() if word in question), "")
                os.write(ours, f"{said}\n".encode())
        os.close(ours)
        assert process.wait() == 0, shown
        return shown

    def open_ports(self) -> list[str]:
        """Addresses, other than of its loopback, where it could be dialled."""
        found = []
        with self._network.enter():
            for name in ("tcp", "tcp6"):
                rows = [row.split() for row in Path(f"/proc/thread-self/net/{name}").read_text().splitlines()[1:]]
                found += [row[1] for row in rows if row[3] == LISTENS]
        return [address for address in found if not address.startswith(("0100007F:", f"{1 << 24:032X}:"))]

    def close(self) -> None:
        self._network.kill_all()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._cable)
        self._network.close()

    def _plug_in(self) -> None:
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._network.path)
        _ip("addr", "add", f"{self.far}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        with self._network.enter():
            _ip("addr", "add", f"{self.near}/30", "dev", "eth0")
            _ip("link", "set", "eth0", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def a_laptop(root: Path, python: Path) -> Iterator[Laptop]:
    made = Laptop(root, python)
    try:
        yield made
    finally:
        made.close()
