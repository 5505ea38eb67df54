"""``autopilot init``: the commented configuration file and the API keys, each in its place."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.cli.exits import CommandError, Exit
from autopilot.config import paths
from autopilot.config.keys import KEY_SUFFIX, read_key, store_key
from autopilot.domain.errors import UserError

Flag = Parameter(negative="")

MARKET = "vastai"
MARKET_TITLE = "vast.ai"


def init(
    *, system: Annotated[bool, Flag] = False, force: Annotated[bool, Flag] = False, vast_key_file: Path | None = None
) -> int:
    """Write a configuration file that explains itself, and store API keys.

    What exists already is kept. Keys are asked for without echo and stored readable by their owner alone.

    Parameters
    ----------
    system
        For the system's daemon, under /etc/autopilot; needs root.
    force
        Replace an existing configuration file and keys.
    vast_key_file
        Take the vast.ai key from this file and ask nothing.
    """
    key = read_key(vast_key_file) if vast_key_file is not None else None
    directory = paths.system_config_dir() if system else paths.user_config_dir()
    try:
        _write_config(directory, force)
        _store_key(directory / "credentials", key, force)
    except OSError as error:
        hint = "run it with sudo" if isinstance(error, PermissionError) and system else ""
        raise CommandError(Exit.FAILED, f"cannot write {error.filename}: {error.strerror}", hint=hint) from None
    return Exit.OK


def _write_config(directory: Path, force: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / paths.CONFIG_NAME
    if path.exists() and not force:
        print(f"kept {path}")
        return
    # Written beside and moved into place: a daemon that starts now reads the old file or the new one, never half.
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(paths.packaged_config().read_text())
    os.replace(unfinished, path)
    print(f"wrote {path}")


def _store_key(directory: Path, key: str | None, force: bool) -> None:
    path = directory / f"{MARKET}{KEY_SUFFIX}"
    if path.exists() and not force:
        print(f"kept {path}")
        return
    if key is None:
        key = _ask()
    if key is None:
        print(f"no {MARKET_TITLE} key stored; later: autopilot init, or autopilot init --vast-key-file FILE")
        return
    print(f"wrote {store_key(directory, MARKET, key)}")


def _ask() -> str | None:
    if not sys.stdin.isatty():
        return None
    key = getpass.getpass(f"{MARKET_TITLE} API key (not shown; Enter to skip): ").strip()
    if any(character.isspace() for character in key):
        raise UserError("a key holds no spaces", hint="paste the key and nothing else")
    return key or None
