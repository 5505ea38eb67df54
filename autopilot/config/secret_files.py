"""The user's secrets: one file each among the credentials, named in job files, given only to the machines of such jobs.

Standard library only: the command line imports it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from autopilot.config import paths, values
from autopilot.config.keys import read_private, store_private
from autopilot.domain.errors import UserError

PREFIX = "secret_"
REGISTRY_PREFIX = "registry_"
"""Prefix of a registry's password, whose file begins with its server."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")


def check_name(raw: object) -> str:
    """A secret's name. Raises ``ValueError``."""
    if not isinstance(raw, str) or not _NAME.fullmatch(raw):
        raise ValueError("must be a secret's name: 1 to 60 letters, digits, dashes or _ (autopilot secret set NAME)")
    return raw


def places() -> list[Path]:
    """Where secrets lie; a later one wins."""
    handed_over = os.environ.get("CREDENTIALS_DIRECTORY")
    return [*paths.credential_dirs(), *([Path(handed_over)] if handed_over else [])]


def names(prefix: str = PREFIX) -> list[str]:
    return sorted({name for place in places() for name in _names_in(place, prefix)})


def _names_in(place: Path, prefix: str = PREFIX) -> list[str]:
    try:
        return [name.removeprefix(prefix) for name in os.listdir(place) if name.startswith(prefix)]
    except OSError:
        return []


def read_secret(name: str) -> str:
    """Raises ``UserError`` when there is none of that name, or others can read it."""
    return read_private(_find(PREFIX, name, "secret", f"set {name}"))


def read_registry(name: str) -> tuple[str, str]:
    """The server that a registry's secret is for, and its password. Raises ``UserError`` as ``read_secret`` does."""
    path = _find(REGISTRY_PREFIX, name, "registry secret", f"set {name} --server SERVER")
    server, _, password = read_private(path).partition("\n")
    if not password:
        raise UserError(
            f"{path} does not contain a registry password", hint=f"autopilot secret set {name} --server SERVER"
        )
    return server, password


def registry_password(name: str, server: str) -> str:
    """Raises ``UserError`` also for one that is kept for another server."""
    kept_for, password = read_registry(name)
    if kept_for != server:
        raise UserError(
            f"the registry secret {name!r} is for {kept_for}, and is not sent to {server}",
            hint=f"autopilot secret set {name} --server {server} replaces it",
        )
    return password


def _find(prefix: str, name: str, kind: str, command: str) -> Path:
    for place in reversed(places()):
        path = place / (prefix + check_name(name))
        if _is_file(path):
            return path
    looked = ", ".join(map(str, reversed(places())))
    hint = _how_to_set(prefix + name, command)
    raise UserError(f"there is no {kind} named {name!r} that the daemon can read in {looked}", hint=hint)


def _is_file(path: Path) -> bool:
    """Not so where we may not look: the service manager's daemon may not enter root's directory."""
    try:
        return path.is_file()
    except OSError:
        return False


def _how_to_set(file: str, command: str) -> str:
    if "CREDENTIALS_DIRECTORY" not in os.environ:
        return f"autopilot secret {command}"
    credential = f"LoadCredential={file}:{system_place() / file}"
    return f"sudo autopilot secret {command} --system, add {credential} to the service, and restart it"


def readable_values() -> list[str]:
    """Values of all valid secrets; the others are skipped, and raise errors when a job names them."""
    found = []
    for name in names():
        with contextlib.suppress(UserError, ValueError):
            found.append(read_secret(name))
    for name in names(REGISTRY_PREFIX):
        with contextlib.suppress(UserError, ValueError):
            found.append(read_registry(name)[1])
    return found


def system_place() -> Path:
    """From which the service manager hands secrets to the system's daemon."""
    return paths.credential_dirs()[0]


def user_place() -> Path:
    return paths.credential_dirs()[-1]


def store_secret(name: str, value: str, place: Path | None = None) -> Path:
    """In the user's own place, or that one. Returns the file; raises ``OSError``, ``UserError``."""
    try:
        return store_private(place or user_place(), PREFIX + check_name(name), value)
    except ValueError as error:
        raise UserError(f"{name!r}: {error}") from None


def store_registry(name: str, server: str, password: str, place: Path | None = None) -> Path:
    """With its server, in the user's own place, or that one. Returns the file; raises ``OSError``, ``UserError``."""
    try:
        text = f"{values.server(server)}\n{values.word(password.strip())}"
        return store_private(place or user_place(), REGISTRY_PREFIX + check_name(name), text)
    except ValueError as error:
        raise UserError(f"{name!r}: {str(error).partition(', not ')[0]}") from None


def remove_secret(name: str, place: Path | None = None) -> Path:
    """Raises ``OSError``, ``UserError``."""
    directory = place or user_place()
    for prefix in (PREFIX, REGISTRY_PREFIX):
        path = directory / (prefix + name)
        if name in _names_in(directory, prefix) and path.is_file():
            path.unlink()
            return path
    raise UserError(f"there is no secret named {name!r} in {directory}", hint="autopilot secret list")
