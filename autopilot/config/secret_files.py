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


def checked_name(raw: object) -> str:
    """A secret's name. Raises ``ValueError``."""
    if not isinstance(raw, str) or not _NAME.fullmatch(raw):
        raise ValueError("must be a secret's name: 1 to 60 letters, digits, dashes or _ (autopilot secret set NAME)")
    return raw


def places() -> list[Path]:
    """Where secrets lie; a later one wins."""
    handed_over = os.environ.get("CREDENTIALS_DIRECTORY")
    return [*paths.credential_dirs(), *([Path(handed_over)] if handed_over else [])]


def names() -> list[str]:
    found = (path for place in places() if place.is_dir() for path in place.glob(PREFIX + "*"))
    return sorted({path.name.removeprefix(PREFIX) for path in found})


def read_secret(name: str) -> str:
    """Raises ``UserError`` when there is none of that name, or others can read it."""
    for place in reversed(places()):
        path = place / (PREFIX + checked_name(name))
        if path.is_file():
            return read_private(path)
    raise UserError(f"there is no secret named {name!r}", hint=f"autopilot secret set {name}")


def readable_values() -> list[str]:
    """Of every secret that is stored well; what is wrong with another is told to whoever names it."""
    values = []
    for name in names():
        with contextlib.suppress(UserError, ValueError):
            values.append(read_secret(name))
    return values


def store_secret(name: str, value: str) -> Path:
    """In the user's own place. Returns the file; raises ``OSError``, ``UserError``."""
    try:
        return store_private(paths.credential_dirs()[-1], PREFIX + checked_name(name), value)
    except ValueError as error:
        raise UserError(f"{name!r}: {error}") from None


def remove_secret(name: str) -> Path:
    """Raises ``OSError``, ``UserError``."""
    path = paths.credential_dirs()[-1] / (PREFIX + name)
    if name not in names() or not path.is_file():
        raise UserError(f"there is no secret named {name!r} in {path.parent}", hint="autopilot secret list")
    path.unlink()
    return path
