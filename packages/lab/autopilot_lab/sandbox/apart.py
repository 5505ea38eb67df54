"""A network of a box's own: its loopback is not shared, and nothing leads out of it. It takes root on Linux."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_OWN = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


class OwnNetwork:
    """It lasts until ``close``, and with what still runs in it."""

    def __init__(self) -> None:
        """Raises ``OSError`` without the rights to make one."""
        made: list[int | OSError] = []
        thread = threading.Thread(target=lambda: made.append(_make()))  # the caller stays where it is
        thread.start()
        thread.join()
        if isinstance(made[0], OSError):
            raise made[0]
        self.descriptor = made[0]

    @property
    def path(self) -> str:
        """For ``nsenter``."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @contextmanager
    def enter(self) -> Iterator[None]:
        """The calling thread is in it; what it starts and opens meanwhile stays there."""
        outside = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(self.descriptor)
            try:
                yield
            finally:
                _enter(outside)
        finally:
            os.close(outside)

    def listen(self, port: int) -> socket.socket:
        """On its loopback. Raises ``OSError``."""
        with self.enter():
            return socket.create_server(("127.0.0.1", port))

    def kill_all(self) -> None:
        """What runs in it, however it was started."""
        own = os.fstat(self.descriptor).st_ino
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.stat(f"/proc/{name}/ns/net").st_ino == own:
                    os.kill(int(name), signal.SIGKILL)

    def close(self) -> None:
        os.close(self.descriptor)


def _make() -> int | OSError:
    """In a thread of its own."""
    try:
        _check(_libc.unshare(_CLONE_NEWNET))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            found = fcntl.ioctl(probe, _SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
            flags = struct.unpack("16sh14x", found)[1] | _IFF_UP
            fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))
        return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error


def _enter(descriptor: int) -> None:
    _check(_libc.setns(descriptor, _CLONE_NEWNET))


def _check(outcome: int) -> None:
    if outcome != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
