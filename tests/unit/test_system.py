"""What Linux and macOS offer differently. Only Linux is here: of macOS no more than documented layouts is checked."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from autopilot import system

ROOT = Path(system.__file__).parent
SHIPPED = {"agent/shipped", "host/shipped", "providers/ssh/shipped", "tunnels/command"}
"""What runs on other machines, which have Linux: three programs, and the text of a fourth."""
OF_ONE_SYSTEM = ("SO_PEERCRED", "CLOCK_BOOTTIME", "/proc/", "sched_getaffinity", "RLIMIT_AS", "SOCK_CLOEXEC")


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert system.read_peer_uid(ours) == os.getuid()


def test_macos_answers_with_a_record_of_its_own() -> None:
    # struct xucred of sys/ucred.h: u_int, uid_t, short and its padding, gid_t[16].
    raw = struct.pack("=IIhxx16I", 0, 501, 2, 20, 12, *[0] * 14)
    assert len(raw) == 76
    assert system.parse_xucred(raw) == 501
    for wrong in (struct.pack("=IIhxx16I", 1, 501, 2, *[0] * 16), raw[:8], b""):
        with pytest.raises(OSError, match="not understood"):
            system.parse_xucred(wrong)


def test_a_lock_as_each_system_takes_it(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, system.pack_file_lock(fcntl.F_WRLCK, 1 << 62, 1, macos=False))
    # struct flock of macOS's sys/fcntl.h: off_t start, off_t len, pid_t, short type, short whence.
    packed = system.pack_file_lock(fcntl.F_WRLCK, 1 << 62, 1, macos=True)
    assert struct.unpack("qqihh", packed) == (1 << 62, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)


def test_no_other_module_asks_for_what_one_system_has() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in ROOT.rglob("*.py")
        if path.name != "system.py" and not any(room in str(path) for room in SHIPPED)
        for word in OF_ONE_SYSTEM
        if word in path.read_text()
    ]
    assert found == []


@pytest.mark.slow
def test_a_client_starts_without_what_macos_lacks() -> None:
    """No proof for a Mac; but what is missing there is missing here, and each client command is imported."""
    lacks = (
        "import os, socket, sys, time\n"
        "del time.CLOCK_BOOTTIME, socket.SO_PEERCRED, socket.SOCK_CLOEXEC, os.sched_getaffinity\n"
        "here, sys.platform = sys.platform, 'darwin'\n"
        "from autopilot import system\n"
        "sys.platform = here\n"
        "from importlib import import_module\n"
        "from autopilot.cli.main import GROUPS\n"
        "for group in ('Jobs', 'Money', 'Markets', 'Service'):\n"
        "    for command in GROUPS[group]:\n"
        "        import_module(command.target.partition(':')[0])\n"
        "from autopilot.client.tries import make_key_header\n"
        "assert system.IS_MACOS and make_key_header() and system.count_usable_cores()\n"
    )
    done = subprocess.run([sys.executable, "-c", lacks], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
