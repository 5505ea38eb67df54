"""What this installation is: its id, which is in every label, and its clock.

Both live in the state directory, not in the ledger, so that a lost or copied database does not make us forget, or
mistake, which instances are ours. A ledger that is or was on a server says its own id (``leadership``).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import structlog

from autopilot.clock import ScaledClock, SystemClock
from autopilot.config.keys import read_private, store_private
from autopilot.config.settings import Settings
from autopilot.domain.errors import UserError
from autopilot.ports.clock import Clock
from autopilot.store.urls import database_path, postgres_url

log = structlog.get_logger(__name__)

_ALPHABET = "abcdefghjkmnpqrstvwxyz23456789"
_LENGTH = 8


def prepare_state_dir(path: Path) -> None:
    """Raises ``UserError`` when the directory cannot be made or written, or is open to others and not ours."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = path / ".writable"
        probe.write_text("")
        probe.unlink()
    except OSError as problem:
        raise UserError(
            f"the state directory {path} cannot be written: {problem.strerror}",
            hint="correct its owner, its mode or the disk, or set state_dir",
        ) from None
    close_to_others(path)


def close_to_others(path: Path, bits: int = 0o077) -> None:
    """Take these rights to a directory of secrets away. Raises ``UserError`` if it is not ours to do so."""
    if not path.exists() or not path.stat().st_mode & bits:
        return
    try:
        path.chmod(path.stat().st_mode & 0o777 & ~bits)
    except OSError as problem:
        raise UserError(
            f"other users can read {path}, which holds secrets: {problem.strerror}",
            hint=f"as its owner: chmod {0o777 & ~bits:o} {path}",
        ) from None
    log.warning("directory.closed", path=str(path), reason="other users could read it")


def install_id(state_dir: Path) -> str:
    """Eight letters and digits, made once and bound to this machine.

    A copy of the state directory on a second machine must not act under the same id: it would take the first one's
    instances for its own and end them. Raises ``UserError`` there.
    """
    path = state_dir / "install-id"
    try:
        known = path.read_text().strip()
    except FileNotFoundError:
        known = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        _write_once(path, known)
    if len(known) != _LENGTH or not set(known) <= set(_ALPHABET):
        raise UserError(
            f"{path} does not contain an installation id", hint="restore it from a backup of the state directory"
        )
    _check_machine(state_dir / "install-machine", path)
    return known


def registry_key(state_dir: Path) -> bytes:
    """Key of this installation alone: with it, names of registry logins at a market do not reveal their passwords."""
    path = state_dir / "registry-key"
    try:
        return bytes.fromhex(read_private(path))
    except ValueError:
        raise UserError(
            f"{path} does not hold a key", hint="delete it: logins at the markets are created again"
        ) from None
    except UserError:
        if path.exists():
            raise
    return bytes.fromhex(read_private(store_private(state_dir, path.name, secrets.token_hex(32))))


def known_install_id(state_dir: Path) -> str | None:
    """The id that was made here, read without making one; None if no daemon ever ran."""
    try:
        return (state_dir / "install-id").read_text().strip() or None
    except OSError:
        return None


def check_ledger_kept(settings: Settings) -> None:
    """Raises ``UserError`` if a daemon has run, and the file that its ledger was in is missing or empty.

    A new one would know neither what was spent this month nor what is rented.
    """
    if postgres_url(settings.ledger_url) is not None or known_install_id(settings.state_dir) is None:
        return
    path = database_path(settings.ledger_url)
    if path.exists() and path.stat().st_size:
        return
    raise UserError(
        f"the ledger {path} is {'empty' if path.exists() else 'missing'}, but a daemon has run here before:"
        " a new ledger loses this month's spend, and rented machines are quarantined for half an hour",
        hint="restore it from a backup (autopilot db backup creates them), or start over: autopilot serve --new-ledger",
    )


def _check_machine(bound: Path, path: Path) -> None:
    try:
        machine = hashlib.sha256(Path("/etc/machine-id").read_bytes()).hexdigest()
    except OSError:
        return
    if not bound.exists():
        _write_once(bound, machine)
    elif bound.read_text().strip() != machine:
        raise UserError(
            f"this state directory was made on another machine ({path})",
            hint=f"if that machine will never run again, delete {bound}; if it may, delete the whole directory",
        )


def open_clock(settings: Settings) -> Clock:
    """The system's clock, or a scaled one whose origin is the market's own (``/_emu/clock``), kept over restarts."""
    settings.check_clock()
    speed = settings.clock.speed
    if speed == 1:
        return SystemClock()
    path = settings.state_dir / "clock.json"
    try:
        origin = datetime.fromisoformat(json.loads(path.read_text())["origin"])
    except FileNotFoundError:
        origin = _market_origin(settings) or datetime.now(UTC)
        _write_once(path, json.dumps({"origin": origin.isoformat()}))
    return ScaledClock(origin, speed)


def _market_origin(settings: Settings) -> datetime | None:
    """The origin that an emulated market keeps time by, if it says so."""
    for market in settings.markets.values():
        try:
            with urlopen(f"{market.base_url}/_emu/clock", timeout=5) as answer:  # noqa: S310 - never a real market
                clock = json.load(answer)
            if float(clock["speed"]) != settings.clock.speed:
                raise UserError(
                    f"the clock's speed is {settings.clock.speed:g} here and {clock['speed']:g} at {market.base_url}",
                    hint="set clock.speed to the market's",
                )
            return datetime.fromisoformat(clock["origin"])
        except (URLError, OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _write_once(path: Path, text: str) -> None:
    scratch = path.with_suffix(".new")
    with open(scratch, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)
