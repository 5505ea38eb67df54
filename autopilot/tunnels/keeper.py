"""Two connections for each machine that is to be dialled, made again whenever they end, and a fresh login beside them.

Orders and reports have a connection of their own: bytes of a checkpoint fill the other one's buffers, here and on the
way, and what comes after them there waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote

import structlog

from autopilot.blobs.place import BULK_PORT, CONTROL_PORT
from autopilot.openssh.options import CONNECT_S
from autopilot.openssh.run import run_ssh
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot.tunnels.board import NOTHING_WANTED, WantedMachines
from autopilot.tunnels.command import FREE, HOLD, UP, SshRoute, fault_of, route_to, ssh_words
from autopilot.tunnels.place import TunnelsPlace

log = structlog.get_logger(__name__)

AGAIN_AFTER_S, AGAIN_AT_MOST_S = 1.0, 30.0
STEADY_AFTER_S = 60.0
"""A connection that has lived so long ended for a new reason: the next one is made without much delay."""
UP_WITHIN_S = 2.0 * CONNECT_S
"""From the start of ``ssh`` until the forward is there."""
LOGIN_EVERY_S = 240.0
"""A key may be gone from a machine while the connection that it opened lives on: a login now and then shows it."""
LOGIN_AGAIN_S = 60.0
"""After one that failed."""


@dataclass(slots=True)
class _Line:
    """One of a machine's connections, or the logins beside them."""

    fault: TunnelFault | None = TunnelFault.UNREACHABLE
    since: float = 0.0
    """Since when it has been so, or not."""

    def note(self, fault: TunnelFault | None, now: float) -> bool:
        """Whether that is new."""
        if (fault is None) != (self.fault is None):
            self.since = now
        is_new, self.fault = fault != self.fault, fault
        return is_new


class DialledMachine:
    """What is kept for one start of one machine, until ``close``."""

    def __init__(self, place: TunnelsPlace, dialled: Dialled, target: str) -> None:
        """``target``: HOST:PORT here that the machine's ports lead to."""
        self.dialled = dialled
        self._place = place
        self.target = target
        self._at = 0
        """Which of the addresses is used."""
        now = asyncio.get_running_loop().time()
        self._control, self._bulk, self._login = (_Line(since=now) for _ in range(3))
        self._login.fault = None
        self._is_up = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._keep("control", CONTROL_PORT, self._control)),
            asyncio.create_task(self._keep("bulk", BULK_PORT, self._bulk)),
            asyncio.create_task(self._keep_logging_in()),
        ]

    @property
    def state(self) -> TunnelState:
        lines = self._control, self._bulk
        is_up = all(line.fault is None for line in lines)
        worst = next((line for line in (*lines, self._login) if line.fault is not None), None)
        if worst is None:
            return TunnelState(is_up, None)
        return TunnelState(is_up, worst.fault, int(asyncio.get_running_loop().time() - worst.since))

    def routes(self) -> Iterable[SshRoute]:
        return (route_to(self._place, self.dialled, address) for address in self.dialled.addresses)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def _route(self) -> SshRoute:
        addresses = self.dialled.addresses
        return route_to(self._place, self.dialled, addresses[self._at % len(addresses)])

    async def _keep(self, name: str, port: int, line: _Line) -> None:
        loop, delay_s = asyncio.get_running_loop(), AGAIN_AFTER_S
        while True:
            began_at, at = loop.time(), self._at
            fault = await self._hold(port, line)
            if line.note(fault, loop.time()):
                log.warning("tunnel.down", lease=self.dialled.lease_id, connection=name, fault=str(fault))
            if fault is TunnelFault.FORWARDING_REFUSED:
                line.note(await self._free(port), loop.time())
            elif at == self._at and line is self._control:
                self._at += 1  # the next address, of both connections
            delay_s = AGAIN_AFTER_S if loop.time() - began_at > STEADY_AFTER_S else delay_s
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, AGAIN_AT_MOST_S)

    async def _hold(self, port: int, line: _Line) -> TunnelFault:
        """Connect, and wait for the end of the connection; why it ended."""
        try:
            async with run_ssh(ssh_words(self._route, HOLD, (port, self.target))) as run:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(UP_WITHIN_S):
                        if not await run.wait_for(UP):
                            return fault_of(await run.end())
                        line.note(None, asyncio.get_running_loop().time())
                        log.info("tunnel.up", lease=self.dialled.lease_id, port=port)
                        self._is_up.set()
                if line.fault is not None:
                    return TunnelFault.UNREACHABLE
                return fault_of(await run.end())
        except FileNotFoundError:
            return TunnelFault.NO_SSH
        except OSError as problem:
            log.warning("tunnel.cannot_start", reason=str(problem))
            return TunnelFault.UNREACHABLE

    async def _free(self, port: int) -> TunnelFault:
        """End an older connection of ours that holds the port; what was found in its place."""
        found = await self._ask(f"python3 -c {quote(FREE)} {port}")
        if "port:sshd" in found:
            log.info("tunnel.port_freed", lease=self.dialled.lease_id, port=port)
            return TunnelFault.UNREACHABLE
        return TunnelFault.PORT_TAKEN if "port:other" in found else TunnelFault.FORWARDING_REFUSED

    async def _ask(self, remote: str) -> str:
        """What a command on the machine prints."""
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(UP_WITHIN_S), run_ssh(ssh_words(self._route, remote)) as run:
                return await run.read_to_end()
        return ""

    async def _keep_logging_in(self) -> None:
        """A login of its own now and then, once there was one."""
        await self._is_up.wait()
        while True:
            await asyncio.sleep(LOGIN_EVERY_S if self._login.fault is None else LOGIN_AGAIN_S)
            fault = await self._log_in()
            if self._login.note(fault, asyncio.get_running_loop().time()):
                log.warning("tunnel.login", lease=self.dialled.lease_id, fault=str(fault))

    async def _log_in(self) -> TunnelFault | None:
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(UP_WITHIN_S), run_ssh(ssh_words(self._route, f"echo {UP}")) as run:
                return None if await run.wait_for(UP) else fault_of(await run.end())
        return TunnelFault.UNREACHABLE


class Keeper:
    """All machines that are to be dialled."""

    def __init__(self, place: TunnelsPlace) -> None:
        self._place = place
        self._machines: dict[str, DialledMachine] = {}

    async def follow(self, wanted: WantedMachines) -> None:
        """These from now on. A machine that has moved, or runs again, is dialled again."""
        asked = {each.lease_id: each for each in wanted.machines}
        running = {lease: each for lease, each in asked.items() if each.addresses}
        ended = [
            lease
            for lease, kept in self._machines.items()
            if (running.get(lease), wanted.target) != (kept.dialled, kept.target)
        ]
        await asyncio.gather(*(self._machines.pop(lease).close() for lease in ended))
        for lease, each in running.items():
            if lease not in self._machines:
                self._machines[lease] = DialledMachine(self._place, each, wanted.target)
        if ended:
            self._forget_hosts(frozenset(asked))

    def states(self) -> Mapping[str, TunnelState]:
        return {lease: machine.state for lease, machine in self._machines.items()}

    async def close(self) -> None:
        await self.follow(NOTHING_WANTED)

    def _forget_hosts(self, leases: frozenset[str]) -> None:
        """Keys of machines that are over."""
        with contextlib.suppress(OSError):
            for path in self._place.hosts.iterdir():
                if path.name.partition(".")[0] not in leases:
                    path.unlink(missing_ok=True)
