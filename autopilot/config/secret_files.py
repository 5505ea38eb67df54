"""The user's secrets: one file each among the credentials, named in job files, given only to the machines of such jobs.

Standard library only: the command line imports it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from autopilot.config import paths
from autopilot.config.keys import read_private, store_private
from autopilot.domain.errors import UserError

PREFIX = "secret_"
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


def names() -> list[str]:
    return sorted({name for place in places() for name in _names_in(place)})


def _names_in(place: Path) -> list[str]:
    try:
        return [name.removeprefix(PREFIX) for name in os.listdir(place) if name.startswith(PREFIX)]
    except OSError:
        return []


def read_secret(name: str) -> str:
    """Raises ``UserError`` when there is none of that name, or others can read it."""
    for place in reversed(places()):
        path = place / (PREFIX + check_name(name))
        if _is_file(path):
            return read_private(path)
    looked = ", ".join(map(str, reversed(places())))
    raise UserError(f"there is no secret named {name!r} that the daemon can read in {looked}", hint=_how_to_set(name))


def _is_file(path: Path) -> bool:
    """Not so where we may not look: the service manager's daemon may not enter root's directory."""
    try:
        return path.is_file()
    except OSError:
        return False


def _how_to_set(name: str) -> str:
    if "CREDENTIALS_DIRECTORY" not in os.environ:
        return f"autopilot secret set {name}"
    credential = f"LoadCredential={PREFIX}{name}:{system_place() / (PREFIX + name)}"
    return f"sudo autopilot secret set {name} --system, add {credential} to the service, and restart it"


def readable_values() -> list[str]:
    """Of every secret that is stored well; what is wrong with another is told to whoever names it."""
    values = []
    for name in names():
        with contextlib.suppress(UserError, ValueError):
            values.append(read_secret(name))
    return values


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


def remove_secret(name: str, place: Path | None = None) -> Path:
    """Raises ``OSError``, ``UserError``."""
    path = (place or user_place()) / (PREFIX + name)
    if name not in _names_in(path.parent) or not path.is_file():
        raise UserError(f"there is no secret named {name!r} in {path.parent}", hint="autopilot secret list")
    path.unlink()
    return path
