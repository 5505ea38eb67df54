"""Connections from here to rented machines, by which they reach the store of a daemon behind NAT."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from autopilot.domain.instance import SshAddress


class TunnelFault(StrEnum):
    """Why a connection is not there, or will not be there again."""

    UNREACHABLE = "unreachable"
    """No answer at its addresses, or the connection ends."""
    LOGIN_REFUSED = "login_refused"
    HOST_KEY_CHANGED = "host_key_changed"
    """Another machine answers than before, or somebody between here and there: nothing is sent."""
    FORWARDING_REFUSED = "forwarding_refused"
    """The machine's SSH server does not forward."""
    PORT_TAKEN = "port_taken"
    """Another program on the machine holds the port."""
    NO_SSH = "no_ssh"
    """There is no ``ssh`` here."""
    NO_PROCESS = "no_process"
    """The process that dials does not run, or says nothing."""


@dataclass(frozen=True, slots=True)
class Dialled:
    """A machine to be dialled. ``addresses``: empty while it does not run."""

    lease_id: str
    generation: str
    """Another for each start of the machine: from then on it may show another key."""
    addresses: tuple[SshAddress, ...]


@dataclass(frozen=True, slots=True)
class TunnelState:
    """``fault`` None: its connections are there, and the newest login beside them succeeded."""

    is_up: bool
    fault: TunnelFault | None
    down_s: int = 0
    """For how long a connection has not been there, or no login has succeeded, in real seconds."""


class Tunnels(Protocol):
    @property
    def public_key(self) -> str:
        """What machines must let in."""
        ...

    async def dial(self, wanted: Collection[Dialled]) -> None:
        """These from now on, and no other. Failures are logged and tried again."""
        ...

    async def states(self) -> Mapping[str, TunnelState]:
        """By lease, of those that are dialled."""
        ...
