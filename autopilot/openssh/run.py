"""One run of the system's ``ssh``, with bounds on what the machine at its other end can make it use."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

DESCRIPTORS = 48
"""Of one ``ssh``: it needs ten, and each connection that the machine opens to the mailbox takes one."""
PROCESSES_A_MACHINE = 4
"""At once, at most: two connections, a login beside them, and one that frees a port."""
MOST_MACHINES = 20
"""The limits of the service's unit hold for so many."""
MOST_SAID = 8192
"""Bytes that are read of what it says; what comes after is thrown away."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
"""Of the environment. No agent's socket is among it."""
_PR_SET_PDEATHSIG = 1


class SshRun:
    """``ssh`` while it runs. ``said``: the beginning of its errors, whole once it has ended."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._said = b""
        self._reading = asyncio.create_task(self._read_errors())

    async def wait_for(self, line: str) -> bool:
        """Whether the machine has printed that line; False once the connection has ended without it."""
        stream, left = self.process.stdout, MOST_SAID
        assert stream is not None
        seen = b""
        while left > 0 and (data := await stream.read(left)):
            left -= len(data)
            seen += data
            if line.encode() in seen.splitlines():
                return True
        return False

    async def give(self, data: bytes) -> None:
        """All that the machine reads. A connection that has ended takes nothing."""
        stream = self.process.stdin
        assert stream is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stream.write(data)
            await stream.drain()
        stream.close()

    async def read_to_end(self, most: int = MOST_SAID) -> str:
        """The first ``most`` bytes of what the machine prints, once the connection has ended."""
        stream = self.process.stdout
        assert stream is not None
        seen = b""
        while data := await stream.read(MOST_SAID):
            seen = (seen + data)[:most]
        await self._drain()
        return seen.decode("utf-8", "replace")

    async def end(self) -> str:
        """Wait until it has ended by itself; what it said."""
        await self._drain()
        await self._reading
        return self._said.decode("utf-8", "replace")

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self._drain()
        await self._reading

    async def _drain(self) -> None:
        """Throw away what the machine still prints: an end is seen only once all has been read."""
        assert self.process.stdout is not None
        while await self.process.stdout.read(MOST_SAID):
            pass
        await self.process.wait()

    async def _read_errors(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        while data := await stream.read(MOST_SAID):
            self._said += data[: MOST_SAID - len(self._said)]


@asynccontextmanager
async def run_ssh(words: Sequence[str]) -> AsyncIterator[SshRun]:
    """It ends with the block. Raises ``OSError`` where there is no ``ssh``, or no room for a process."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,  # open as long as we live: what runs on the machine waits for its end
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        preexec_fn=_bound_itself,
        start_new_session=True,
    )
    run = SshRun(process)
    try:
        yield run
    finally:
        await run.kill()


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def _bound_itself() -> None:
    """In the child: few descriptors, no dump of its memory, and an end with its parent where the system has one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
