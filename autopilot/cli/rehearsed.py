"""Which commands were rehearsed on this computer, by the directory of their code: what was not is named once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from pathlib import Path

from autopilot.config.paths import default_state_dir
from autopilot.config.toml_document import read_toml
from autopilot.domain.errors import UserError

NAME = "rehearsed"
MOST = 1000
"""Commands that are remembered; the oldest are forgotten first."""


def name_once(toml: str, source: str, beside: Path) -> list[str]:
    """A sentence on a job that saves, was never rehearsed here, and was not named before; or none.

    ``beside``: the directory that paths of ``[code]`` are relative to.
    """
    found = read_key(toml, source, beside)
    if found is None or found in _read():
        return []
    remember(found)
    way = shlex.quote(source) if source.endswith(".toml") else "-- COMMAND"
    return [f"it was never rehearsed here; autopilot rehearse {way} tests whether it resumes after a loss"]


def read_key(toml: str, source: str, beside: Path) -> str | None:
    """None: it saves nothing, or has no code of this computer."""
    with contextlib.suppress(UserError):
        values = read_toml(toml, source).values
        checkpoint, code, command = (values.get(name) for name in ("checkpoint", "code", "run"))
        if isinstance(checkpoint, dict) and checkpoint.get("path") and isinstance(code, dict) and command:
            return key_of(beside / Path(str(code.get("path", "."))).expanduser(), str(command))
    return None


def key_of(directory: Path, command: str) -> str:
    return hashlib.sha256(f"{os.path.realpath(directory)}\n{command}".encode()).hexdigest()


def remember(key: str) -> None:
    """Where nothing can be written there, it is named again the next time."""
    place = default_state_dir() / NAME
    keys = [*(each for each in _read() if each != key), key][-MOST:]
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = place.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text("\n".join(keys) + "\n", encoding="utf-8")
        scratch.replace(place)


def _read() -> list[str]:
    try:
        return (default_state_dir() / NAME).read_text(encoding="utf-8").split()[-MOST:]
    except (OSError, ValueError):
        return []
