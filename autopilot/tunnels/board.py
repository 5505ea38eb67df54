"""What daemon and tunnels tell each other: two files in the directory that they share, each replaced as a whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from autopilot.blobs.place import read_json, replace_file, share
from autopilot.domain.errors import UserError
from autopilot.domain.instance import SshAddress
from autopilot.ports.clock import Clock
from autopilot.ports.tunnels import Dialled, TunnelFault, TunnelState
from autopilot.tunnels.place import TunnelsPlace

log = structlog.get_logger(__name__)

SILENT_AFTER_S = 30.0
"""The tunnels write every few seconds, whether anything has changed or not."""


@dataclass(frozen=True, slots=True)
class WantedMachines:
    """``target``: HOST:PORT here that the machines reach."""

    target: str
    machines: tuple[Dialled, ...]


NOTHING_WANTED = WantedMachines("", ())


class TunnelBoard:
    """The daemon's side. ``clock``: real time, by which files are dated."""

    def __init__(self, place: TunnelsPlace, target: str, clock: Clock) -> None:
        """``target``: HOST:PORT here that machines reach. Raises ``UserError``, ``OSError``."""
        self._place = place
        self._target = target
        self._clock = clock
        self.public_key = read_or_make_login_key(place)
        self._written: str | None = None
        self._since = clock.now()
        place.states.unlink(missing_ok=True)  # what was said to the daemon before is old

    async def dial(self, wanted: Collection[Dialled]) -> None:
        rows = [_write_row(each) for each in sorted(wanted, key=lambda each: each.lease_id)]
        text = json.dumps({"host": socket.gethostname(), "target": self._target, "machines": rows})
        if text == self._written:
            return
        try:
            await asyncio.to_thread(replace_file, self._place.wanted, text, self._place.root)
            self._written = text
        except OSError as problem:
            log.warning("tunnels.not_told", reason=str(problem), consequence="new machines are not dialled yet")

    async def states(self) -> Mapping[str, TunnelState]:
        try:
            return await asyncio.to_thread(read_tunnels, self._place, self._clock.now(), self._since)
        except OSError as problem:
            log.warning("tunnels.unread", reason=str(problem))
            return {}


def read_tunnels(place: TunnelsPlace, now: datetime, since: datetime) -> Mapping[str, TunnelState]:
    """As the process that dials has said lately; that it says nothing where it does not. Raises ``OSError``.

    ``since``: from when on it can have said anything.
    """
    try:
        age_s = now.timestamp() - place.states.stat().st_mtime
    except FileNotFoundError:
        age_s = (now - since).total_seconds()
        if age_s <= SILENT_AFTER_S:
            return {}
    if age_s <= SILENT_AFTER_S:
        return read_states(place)
    silent = TunnelState(is_up=False, fault=TunnelFault.NO_PROCESS, down_s=round(age_s))
    return {each.lease_id: silent for each in read_wanted(place).machines if each.addresses}


def write_states(place: TunnelsPlace, states: Mapping[str, TunnelState]) -> None:
    """Raises ``OSError``."""
    rows = {lease: [each.is_up, each.fault, each.down_s] for lease, each in states.items()}
    replace_file(place.states, json.dumps(rows), place.root)


def read_states(place: TunnelsPlace) -> dict[str, TunnelState]:
    found = read_json(place.states)
    states = {}
    for lease, row in found.items() if isinstance(found, dict) else ():
        match row:
            case [bool(is_up), (str() | None) as fault, int(down_s)] if fault is None or fault in set(TunnelFault):
                states[lease] = TunnelState(is_up, None if fault is None else TunnelFault(fault), down_s)
    return states


def read_wanted(place: TunnelsPlace) -> WantedMachines:
    """Nothing where no daemon of this host has said anything."""
    match read_json(place.wanted):
        case {"host": str(host), "target": str(target), "machines": list(rows)} if host == socket.gethostname():
            return WantedMachines(target, tuple(each for row in rows if (each := _read_dialled(row)) is not None))
    return NOTHING_WANTED


def read_or_make_login_key(place: TunnelsPlace) -> str:
    """The public half; made at first use. Raises ``UserError``, ``OSError``."""
    _make_directory(place.root, place.root.parent)
    path = place.key
    public = path.with_name(path.name + ".pub")
    if not path.exists() or not public.exists():
        path.unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "autopilot", "-f", str(path)]
        try:
            subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
        except FileNotFoundError:
            raise UserError("there is no ssh-keygen here", hint="install OpenSSH's client, or set blobs.url") from None
        except subprocess.SubprocessError as problem:
            raise UserError(f"ssh-keygen made no key: {problem}", hint=f"look at {place.root}") from None
        share(path, place.root, 0o640)
        share(public, place.root, 0o640)
    _make_directory(place.hosts, place.root)
    return public.read_text().strip()


def _make_directory(path: Path, root: Path) -> None:
    """One that is there already may be another user's."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
        share(path, root, 0o770)


def _write_row(each: Dialled) -> dict[str, Any]:
    addresses = [[address.host, address.port, address.user] for address in each.addresses]
    return {"lease": each.lease_id, "generation": each.generation, "addresses": addresses}


def _read_dialled(row: object) -> Dialled | None:
    match row:
        case {"lease": str(lease), "generation": str(generation), "addresses": list(addresses)}:
            return Dialled(lease, generation, tuple(filter(None, map(_read_address, addresses))))
    return None


def _read_address(row: object) -> SshAddress | None:
    match row:
        case [str(host), int(port), str(user)]:
            return SshAddress(host, port, user)
    return None
